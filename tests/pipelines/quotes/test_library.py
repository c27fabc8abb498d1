"""What programs ask of quotes: lists, batches, the desk, decisions of people."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from decimal import Decimal

import psycopg
import pytest
from market import Bill, Product, a_market

from retoma import Retoma
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.ports import Refusal
from retoma.testing import drain

Make = Callable[..., Retoma]

LIST = "codigo;descricao;quantidade\n1;Mesa;2\n2;;1\n3;Cadeira;x\n4;Armário;1\n".encode()
NONE = [Product(name, "100", refused=Refusal.BLOCKED_BY_SITE) for name in "abc"]
TWO = [Product("a", "100"), Product("b", "101"), Product("c", "102", refused=Refusal.SOLD_OUT), Product("d", "990")]
STALE = "update quotes.quote_requests set last_heartbeat = now() - interval '11 minutes' where id = %s"


def processing(psql: psycopg.Connection, id: int, *, checkpoint: str = "SHOPPING_SEARCH_DONE") -> None:
    """As a worker leaves it that is gone: its job is in the queue again."""
    psql.execute(
        "update quotes.quote_requests set status = 'PROCESSING', worker_id = 'ana#1', last_heartbeat = now(),"
        " started_at = now(), processing_checkpoint = %s where id = %s",
        [checkpoint, id],
    )


class TestProjects:
    async def test_a_change_makes_a_version_and_quotes_keep_theirs(self, library: Quotes) -> None:
        project = await library.create_project("Reavaliação 2026", quotes_wanted=4, by="ana")
        id = await library.create("Mesa", project_id=project.id)
        changed = await library.change_project(project.id, quotes_wanted=5, by="bia")
        same = await library.change_project(project.id, quotes_wanted=5, by="bia")

        assert (project.version, changed.version, same.version) == (1, 2, 2)
        assert [each.terms["quotes_wanted"] for each in await library.versions(project.id)] == [5, 4]
        assert (await library.quote(id)).config_version_id == project.config_version_id

    @pytest.mark.parametrize(
        "wrong",
        [{"quotes_wanted": 0}, {"max_spread_percent": 900}, {"unknown": 1}, {"lowest_price": "x"},
         {"lowest_price": "5", "highest_price": "4"}, {"reais_per_dollar": "0"}],
    )  # fmt: skip
    async def test_terms_have_limits(self, library: Quotes, wrong: dict[str, object]) -> None:
        with pytest.raises(ConfigurationError):
            await library.create_project("P", **wrong)

    async def test_a_name_is_taken_once(self, library: Quotes) -> None:
        await library.create_project("P")

        with pytest.raises(Conflict):
            await library.create_project("P")


class TestCreate:
    @pytest.mark.parametrize("text", ["", "   ", "x" * 4001, "a\0b"])
    async def test_a_description_that_is_none_is_refused_and_leaves_nothing(self, library: Quotes, text: str) -> None:
        with pytest.raises(ConfigurationError):
            await library.create(text)

        assert await library.quotes() == []
        assert await library.app.jobs.find() == []

    async def test_a_new_quote_waits_and_is_not_in_processing(self, library: Quotes) -> None:
        id = await library.create("Mesa", code="7", place="Sala 1", researcher="Ana")
        quote = await library.quote(id)

        assert (quote.status, quote.progress_percentage, quote.last_heartbeat) == ("PENDING", 0, None)
        assert (quote.codigo_item, quote.local, quote.pesquisador, quote.input_type) == ("7", "Sala 1", "Ana", "TEXT")
        assert (await library.stats()).total_processing == 0

    async def test_an_unknown_quote_is_not_found(self, library: Quotes) -> None:
        with pytest.raises(NotFound):
            await library.quote(404)


class TestBatches:
    async def test_a_list_becomes_quotes_and_each_bad_row_is_told_with_its_line(self, library: Quotes) -> None:
        id, new = await library.create_batch(LIST, name="Lote", filename="lista.csv")
        await drain(library.app)
        standing = await library.batch_status(id)
        batch = await library.batch(id)

        assert new
        assert [(each.line, each.problem) for each in await library.items(id)] == [
            (2, None), (3, "description_missing"), (4, "quantity_unreadable"), (5, None),
        ]  # fmt: skip
        assert [(each.codigo_item, each.quantity) for each in await library.quotes(batch_id=id)] == [
            ("4", Decimal(1)), ("1", Decimal(2)),
        ]  # fmt: skip
        assert (batch.rows, batch.problems, batch.filename) == (4, 2, "lista.csv")
        assert (standing.batch_status, standing.total_items, standing.completed_items) == ("COMPLETED", 2, 2)
        assert standing.status_distribution == {"DONE": 2}
        assert standing.checkpoint_distribution == {"COMPLETED": 2}
        assert (standing.progress_percentage, standing.stuck_quotes, standing.failed_items) == (100.0, 0, 0)

    async def test_the_same_file_sent_twice_at_once_is_one_batch(self, library: Quotes) -> None:
        await library.default_project()

        sent = await asyncio.gather(*(library.create_batch(LIST, name="Lote") for _ in range(3)))

        assert len({id for id, _ in sent}) == 1
        assert sorted(new for _, new in sent) == [False, False, True]
        assert len(await library.quotes()) == 2

    async def test_a_list_without_items_leaves_nothing(self, library: Quotes) -> None:
        with pytest.raises(ConfigurationError):
            await library.create_batch(b"descricao\n\n", name="Lote")

        assert await library.batches() == []

    async def test_ten_thousand_items_are_one_transaction(self, library: Quotes) -> None:
        content = b"codigo;descricao\n" + b"".join(b"%d;Mesa %d\n" % (n, n) for n in range(10_000))

        id, _ = await library.create_batch(content, name="Muitos")
        standing = await library.batch_status(id)

        assert (standing.total_items, standing.batch_status) == (10_000, "PENDING")
        assert (await library.batch(id)).rows == 10_000

    async def test_resumed_with_its_errors_it_tries_them_again_and_pays_for_no_stage_twice(
        self, make: Make, bill: Bill
    ) -> None:
        market = a_market(bill, NONE)
        async with make(market) as app:
            library = Quotes(app)
            id, _ = await library.create_batch(b"descricao\nMesa\n", name="Lote")
            await drain(app)
            before, paid = await library.batch_status(id), len(bill.lines())
            resumed = await library.resume_batch(id, reset_errors=True)
            (waiting,) = await library.quotes(batch_id=id)
            await drain(app)
            after = await library.batch_status(id)

        assert (before.batch_status, before.failed_items) == ("ERROR", 1)
        assert (resumed.pending_quotes, resumed.reset_error_quotes, resumed.changed) == (1, 1, True)
        assert (waiting.status, waiting.error_message) == ("PENDING", None)
        assert (after.batch_status, after.failed_items) == ("ERROR", 1)
        assert len(bill.lines()) == paid

    async def test_a_cancelled_batch_keeps_what_is_done(self, library: Quotes) -> None:
        id, _ = await library.create_batch(LIST, name="Lote")

        assert await library.cancel_batch(id) == 2
        assert {each.status for each in await library.quotes(batch_id=id)} == {"CANCELLED"}
        assert (await library.batch_status(id)).batch_status == "CANCELLED"


class TestCancel:
    async def test_a_quote_that_waits_is_never_begun(self, library: Quotes, bill: Bill) -> None:
        id = await library.create("Mesa")
        quote = await library.cancel(id)
        await drain(library.app)

        assert (quote.status, (await library.quote(id)).status) == ("CANCELLED", "CANCELLED")
        assert quote.completed_at is not None
        assert bill.lines() == []

    async def test_one_that_is_done_is_cancelled_no_more(self, library: Quotes) -> None:
        id = await library.create("Mesa")
        await drain(library.app)

        with pytest.raises(Conflict):
            await library.cancel(id)
        assert (await library.quote(id)).status == "DONE"

    async def test_cancelled_while_a_worker_finishes_it_stays_cancelled(
        self, library: Quotes, psql: psycopg.Connection, bill: Bill
    ) -> None:
        id = await library.create("Mesa")
        # The row says so while the job does not know yet: as when the order comes between two steps.
        psql.execute("update quotes.quote_requests set status = 'CANCELLED', completed_at = now() where id = %s", [id])
        await drain(library.app)

        quote = await library.quote(id)
        assert (quote.status, quote.valor_medio) == ("CANCELLED", None)
        assert bill.lines() == []


class TestRequote:
    async def test_once_from_an_error_with_a_number_of_its_own(self, make: Make, bill: Bill) -> None:
        async with make(a_market(bill, NONE)) as app:
            library = Quotes(app)
            id = await library.create("Mesa", code="7")
            await drain(app)
            asked = await asyncio.gather(*(library.requote(id) for _ in range(2)), return_exceptions=True)
            (new,) = [each for each in asked if isinstance(each, int)]
            await drain(app)
            quote = await library.quote(new)

        assert [type(each) for each in asked if not isinstance(each, int)] == [Conflict]
        assert (quote.original_quote_id, quote.requote_number, quote.attempt_number) == (id, 1, 1)
        assert (quote.codigo_item, quote.status) == ("7", "ERROR")
        assert len(bill.lines("search")) == 2, "a new quote asks anew"

    async def test_one_that_is_done_is_not_quoted_again(self, library: Quotes) -> None:
        id = await library.create("Mesa")
        await drain(library.app)

        with pytest.raises(Conflict):
            await library.requote(id)


class TestDesk:
    async def test_a_quote_is_stuck_after_ten_minutes_without_a_sign_of_life(
        self, library: Quotes, psql: psycopg.Connection
    ) -> None:
        id = await library.create("Mesa " + "x" * 200)
        processing(psql, id)
        fresh = await library.stuck()
        psql.execute(STALE, [id])
        (stuck,) = await library.stuck()
        stats = await library.stats()

        assert fresh == []
        assert (stuck.id, stuck.checkpoint, stuck.worker_id) == (id, "SHOPPING_SEARCH_DONE", "ana#1")
        assert len(stuck.input_text) == 100
        assert (stats.total_processing, stats.stuck_count) == (1, 1)
        assert stats.by_checkpoint == {"SHOPPING_SEARCH_DONE": 1}

    async def test_recovery_clears_the_worker_counts_one_more_and_keeps_the_last_sign_of_life(
        self, library: Quotes, psql: psycopg.Connection
    ) -> None:
        id = await library.create("Mesa")
        processing(psql, id)
        psql.execute(STALE, [id])
        did, again = await library.recover_stuck(), await library.recover_stuck()
        quote = await library.quote(id)
        await drain(library.app)
        after = await library.quote(id)

        assert (did.recovered, again.recovered) == (1, 0)
        assert (quote.status, quote.worker_id, quote.attempt_number) == ("PENDING", None, 2)
        assert quote.last_heartbeat is not None
        assert (after.status, after.attempt_number) == ("DONE", 2)

    async def test_one_quote_is_recovered_at_once_unless_it_is_alive_or_not_in_processing(
        self, library: Quotes, psql: psycopg.Connection
    ) -> None:
        id = await library.create("Mesa")
        with pytest.raises(Conflict):
            await library.recover_quote(id)
        processing(psql, id)

        got = await library.recover_quote(id)

        assert (got.id, got.attempt_number, got.previous_checkpoint) == (id, 2, "SHOPPING_SEARCH_DONE")
        with pytest.raises(NotFound):
            await library.recover_quote(404)

    async def test_a_quote_that_somebody_holds_is_alive_whatever_its_row_says(
        self, library: Quotes, psql: psycopg.Connection
    ) -> None:
        id = await library.create("Mesa")
        processing(psql, id)
        psql.execute(STALE, [id])
        psql.execute(
            "with worker as (insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once,"
            " lease_seconds, lease_expires_at) values ('ana', 'h', 1, '1', '{}', '{}', 1, 30, now() + interval '1 min')"
            " returning id) update retoma.jobs set state = 'running', worker_id = worker.id, claimed_at = now(),"
            " attempt = 1, fence = 1 from worker"
        )

        assert await library.stuck() == []
        with pytest.raises(Conflict, match="alive"):
            await library.recover_quote(id)
        assert (await library.recover_stuck()).recovered == 0

    async def test_a_job_that_failed_is_told_at_once_and_written_by_the_next_round(
        self, library: Quotes, psql: psycopg.Connection
    ) -> None:
        id = await library.create("Mesa")
        processing(psql, id)
        psql.execute("update retoma.jobs set state = 'failed', error = 'poison', finished_at = now(), attempt = 1")
        told = await library.quote(id)
        did = await library.recover_stuck()
        (written,) = psql.execute("select status, error_message, worker_id from quotes.quote_requests").fetchall()

        assert (told.status, told.error_message) == ("ERROR", "poison")
        assert [each.id for each in await library.quotes(statuses=["ERROR"])] == [id]
        assert did.settled == 1
        assert written == ("ERROR", "poison", None)

    async def test_what_was_begun_a_day_ago_is_given_up_and_what_waited_a_day_is_not(
        self, library: Quotes, psql: psycopg.Connection, bill: Bill
    ) -> None:
        old, waiting = await library.create("Mesa"), await library.create("Cadeira")
        processing(psql, old)
        psql.execute("update quotes.quote_requests set created_at = now() - interval '3 days'")
        psql.execute("update quotes.quote_requests set started_at = now() - interval '25 hours' where id = %s", [old])

        assert await library.cleanup_old() == 1
        await drain(library.app)

        assert (await library.quote(old)).status == "ERROR"
        assert ((await library.quote(old)).error_message or "").startswith("given_up:")
        assert (await library.quote(waiting)).status == "DONE"
        assert bill.lines("understand") == ["understand Cadeira"], "the job of the old one asked for nothing"

    async def test_the_mean_is_of_those_that_are_done_with_two_decimals(
        self, library: Quotes, psql: psycopg.Connection
    ) -> None:
        assert (await library.stats()).avg_processing_time_seconds is None
        for seconds in (10, 20.555):
            id = await library.create("Mesa")
            psql.execute(
                "update quotes.quote_requests set status = 'DONE', started_at = now(),"
                " completed_at = now() + make_interval(secs => %s) where id = %s",
                [seconds, id],
            )

        assert (await library.stats()).avg_processing_time_seconds == Decimal("15.28")

    async def test_recovery_and_clean_up_come_by_the_clock(self) -> None:
        crons = {each.name: each.cron for each in QUOTES.load_pipelines() if each.cron}

        assert crons == {"recover-stuck-quotes": "*/5 * * * *", "cleanup-old-processing": "0 4 * * *"}


class TestReview:
    @pytest.fixture
    async def waiting(self, make: Make) -> Quotes:
        async with make(products=TWO) as app:
            library = Quotes(app)
            id = await library.create("Mesa")
            await drain(app)
            assert (await library.quote(id)).status == "AWAITING_REVIEW"
            yield library

    async def test_a_person_accepts_and_the_reason_is_kept(self, waiting: Quotes) -> None:
        quote = await waiting.accept(1, reason="Only two shops sell it.", by="ana")
        (review,) = await waiting.reviews(1)

        assert (quote.status, quote.error_message, quote.valor_medio) == ("DONE", None, Decimal("100.50"))
        assert (review.action, review.by, review.before, review.after) == ("accept", "ana", "AWAITING_REVIEW", "DONE")
        with pytest.raises(Conflict):
            await waiting.accept(1, reason="Once more.", by="ana")

    async def test_a_person_refuses_and_the_quote_may_be_asked_again(self, waiting: Quotes) -> None:
        quote = await waiting.refuse(1, reason="Other desks.", by="ana")

        assert (quote.status, quote.error_message) == ("ERROR", "refused: Other desks.")
        assert await waiting.requote(1) == 2

    @pytest.mark.parametrize("reason", ["", "  ", "ok"])
    async def test_a_decision_without_a_reason_is_refused(self, waiting: Quotes, reason: str) -> None:
        with pytest.raises(ConfigurationError):
            await waiting.accept(1, reason=reason, by="ana")

        assert await waiting.reviews(1) == []

    async def test_a_source_added_by_hand_counts_and_may_be_the_third(self, waiting: Quotes) -> None:
        quote = await waiting.add_source(
            1, title="Proposta", price=Decimal("102.555"), url="https://www.f.com.br/x", reason="Answered by mail.",
            by="ana",
        )  # fmt: skip
        added = (await waiting.sources(1))[-1]

        assert (quote.status, quote.valor_maximo) == ("DONE", Decimal("102.56"))
        assert (added.added_by, added.extraction_method, added.domain) == ("ana", "MANUAL", "f.com.br")
        assert (added.is_accepted, added.kind) == (True, "SUPPLIER")

    async def test_a_source_is_dropped_and_taken_again_and_the_value_follows(self, waiting: Quotes) -> None:
        first = (await waiting.sources(1))[0]
        dropped = await waiting.drop_source(1, first.id, reason="Used.", by="ana")
        taken = await waiting.take_source(1, first.id, reason="New after all.", by="bia")
        sold_out = next(each for each in await waiting.sources(1) if each.failure_reason == "SOLD_OUT")

        assert (dropped.valor_minimo, taken.valor_minimo) == (Decimal("101.00"), Decimal("100.00"))
        assert [each.action for each in await waiting.reviews(1)] == ["drop_source", "take_source"]
        with pytest.raises(Conflict):
            await waiting.take_source(1, sold_out.id, reason="I want it.", by="ana")

    async def test_a_closed_report_stays_and_closes_the_quote(self, waiting: Quotes, psql: psycopg.Connection) -> None:
        await waiting.accept(1, reason="Enough.", by="ana")
        report = await waiting.close_report('{"valor": "100.50"}', "0" * 64, quote_id=1, by="ana")

        assert (await waiting.closed_report(quote_id=1)).content == {"valor": "100.50"}
        with pytest.raises(Conflict):
            await waiting.close_report("{}", "1" * 64, quote_id=1, by="bia")
        with pytest.raises(Conflict):
            await waiting.add_source(1, title="Late", price=Decimal(1), reason="Too late.", by="ana")
        for change in ("update quotes.closed_reports set sha256 = 'x'", "delete from quotes.closed_reports"):
            with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
                psql.execute(change)
        assert report.closed_by == "ana"


class TestCosts:
    async def test_costs_are_told_per_provider_in_dollars_and_in_reais(self, library: Quotes) -> None:
        for model in ("search", "product"):
            await library.app.calls.set_price("shopping", model, unit=Decimal("0.01"))
        project = await library.create_project("P", reais_per_dollar="5.50")
        id, _ = await library.create_batch(b"descricao\nMesa\n", name="Lote", project_id=project.id)
        await drain(library.app)
        costs = {each.provider: each for each in await library.costs(id)}

        assert (costs["shopping"].calls, costs["shopping"].dollars) == (4, Decimal("0.04"))
        assert costs["shopping"].reais == Decimal("0.22")
        (quote,) = await library.quotes(batch_id=id)
        assert {each.provider: each.reais for each in await library.quote_costs(quote.id)}["shopping"] == Decimal(
            "0.22"
        )
        assert len(await library.calls(quote.id)) == 5

"""Each statement about quotes does what its comment says, and nothing where it must not."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg
import pytest
from psycopg import sql

from retoma.bench import quote_figures
from retoma.pipelines.quotes import requests, sources
from retoma.pipelines.quotes.model import Figures, RecoveredQuote, Share
from retoma.pipelines.quotes.progress import as_json
from retoma.pipelines.quotes.requests import NewQuote
from retoma.postgres.database import Database
from retoma.store.query import Query

ENDED = ("DONE", "AWAITING_REVIEW", "ERROR", "CANCELLED")
FOUND = Figures(mean=Decimal("15.00"), lowest=Decimal("10.00"), highest=Decimal("20.00"), spread=Decimal("66.67"))


def one(psql: psycopg.Connection, statement: str, *params: object) -> int:
    row = psql.execute(statement, params).fetchone()
    assert row is not None
    return int(row[0])


def project(psql: psycopg.Connection, name: str = "Obra") -> tuple[int, int]:
    """A project and its first configuration, made once."""
    psql.execute("insert into quotes.projects (name) values (%s) on conflict do nothing", [name])
    id = one(psql, "select id from quotes.projects where name = %s", name)
    psql.execute(
        "insert into quotes.configurations (project_id, version, terms, created_by) "
        "values (%s, 1, '{\"prices\": 3}', 'ana') on conflict do nothing",
        [id],
    )
    return id, one(psql, "select id from quotes.configurations where project_id = %s", id)


def batch(psql: psycopg.Connection, id: int) -> int:
    psql.execute(
        "insert into quotes.batch_quote_jobs (id, project_id, config_version_id, input_type, created_by) "
        "values (%s, %s, %s, 'TEXT', 'ana')",
        [id, *project(psql)],
    )
    return id


def worker(psql: psycopg.Connection, *, alive: bool, seen: bool = True) -> int:
    """A worker whose lease holds or is over; one that is alive was seen now, unless it is said that it was not."""
    return one(
        psql,
        "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds, seen_at, "
        "lease_expires_at) values ('box', 'here', 1, '1', '{}', '{}', 1, 60, now() - make_interval(hours => %s), "
        "now() + make_interval(mins => %s)) returning id",
        0 if alive and seen else 1,
        1 if alive else -1,
    )


def job(
    psql: psycopg.Connection, state: str = "queued", *, held_by: int | None = None, error: str | None = None
) -> int:
    return one(
        psql,
        "insert into retoma.jobs (queue, pipeline, input, max_attempts, timeout_seconds, state, worker_id, error, "
        "finished_at) values ('quotes', 'quotes', '{}', 5, 60, %s, %s, %s, "
        "case when %s in ('queued', 'running') then null else now() end) returning id",
        state,
        held_by,
        error,
        state,
    )


def quote(psql: psycopg.Connection, status: str = "PENDING", *, silent: int = 0, **columns: Any) -> int:
    """A row in this status, without a sign of life for so many minutes; its job waits unless another is given."""
    project_id, configuration = project(psql)
    given = {"input_text": "cadeira", "project_id": project_id, "config_version_id": configuration} | columns
    if "job_id" not in given:
        given["job_id"] = job(psql)
    statement = sql.SQL(
        "insert into quotes.quote_requests ({}, created_by, status, last_heartbeat, completed_at) values ({}, 'ana', "
        "{status}, now() - make_interval(mins => {silent}), case when {ended} then now() end) returning id"
    ).format(
        sql.SQL(", ").join(map(sql.Identifier, given)),
        sql.SQL(", ").join(map(sql.Literal, given.values())),
        status=status,
        silent=silent,
        ended=status in ENDED,
    )
    row = psql.execute(statement).fetchone()
    assert row is not None
    return int(row[0])


def seen(psql: psycopg.Connection, id: int, *columns: str) -> tuple[Any, ...]:
    names = sql.SQL(", ").join(map(sql.Identifier, columns))
    row = psql.execute(sql.SQL("select {} from quotes.quote_requests where id = {}").format(names, id)).fetchone()
    assert row is not None
    return row


def rewind(psql: psycopg.Connection, id: int, *, hours: int) -> None:
    psql.execute(
        "update quotes.quote_requests set started_at = now() - make_interval(hours => %s) where id = %s", [hours, id]
    )


class TestCreate:
    async def test_every_job_gets_a_waiting_row_with_its_item(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        project_id, configuration = project(psql)
        new = [
            NewQuote(job_id=job(psql), text="cadeira", code="C-1", quantity=Decimal("2.5"), index=1),
            NewQuote(job_id=job(psql), text="mesa", index=2),
        ]

        made = await database.all(
            requests.create(
                new,
                project_id=project_id,
                config_version_id=configuration,
                input_type="TEXT",
                researcher="Rui",
                by="ana",
                batch_id=batch(psql, 7),
            )
        )

        (first, one_index), (second, two_index) = made
        assert (one_index, two_index) == (1, 2)
        columns = ("job_id", "status", "input_text", "codigo_item", "quantity", "pesquisador", "batch_job_id")
        assert seen(psql, first, *columns) == (new[0].job_id, "PENDING", "cadeira", "C-1", Decimal("2.5"), "Rui", 7)
        assert seen(psql, second, *columns) == (new[1].job_id, "PENDING", "mesa", None, None, "Rui", 7)

    async def test_a_job_that_has_a_row_leaves_all_of_them_unwritten(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        project_id, configuration = project(psql)
        taken = job(psql)
        quote(psql, job_id=taken)
        again = requests.create(
            [NewQuote(job_id=job(psql), text="mesa"), NewQuote(job_id=taken, text="cadeira")],
            project_id=project_id,
            config_version_id=configuration,
            input_type="TEXT",
            researcher=None,
            by="ana",
        )

        with pytest.raises(psycopg.errors.UniqueViolation):
            await database.all(again)
        assert one(psql, "select count(*) from quotes.quote_requests") == 1


class TestWanted:
    async def test_a_job_gets_its_own_item_and_the_terms_it_was_made_with(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        mine, other = job(psql), job(psql)
        id = quote(psql, job_id=mine, codigo_item="C-1", unit="un")
        psql.execute(
            "insert into quotes.configurations (project_id, version, terms, created_by) values (%s, 2, '{}', 'ana')",
            [project(psql)[0]],
        )

        (wanted,) = await database.all(requests.wanted(mine))

        assert (wanted.quote_id, wanted.input_text, wanted.codigo_item, wanted.unit) == (id, "cadeira", "C-1", "un")
        assert wanted.terms == {"prices": 3}
        assert await database.all(requests.wanted(other)) == []


class TestInit:
    async def test_the_first_stage_is_reached_and_the_item_comes_with_its_terms(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        mine, late = job(psql), job(psql)
        id = quote(psql, "PROCESSING", job_id=mine, codigo_item="C-1")
        over = quote(psql, "CANCELLED", job_id=late)

        (wanted,) = await database.all(requests.init(mine, step="initializing", percentage=5))

        assert (wanted.quote_id, wanted.codigo_item, wanted.terms) == (id, "C-1", {"prices": 3})
        assert seen(psql, id, "processing_checkpoint", "current_step", "progress_percentage") == (
            "INIT", "initializing", 5,
        )  # fmt: skip
        assert await database.all(requests.init(late, step="initializing", percentage=5)) == []
        assert seen(psql, over, "processing_checkpoint") == (None,)


class TestBegin:
    async def test_the_holder_is_named_and_lost_attempts_are_counted(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        holder = worker(psql, alive=True)
        mine = job(psql, "running", held_by=holder)
        id = quote(psql, job_id=mine)
        for fence, ending in enumerate(("crashed", "lost", "failed"), start=1):
            psql.execute(
                "insert into retoma.attempts (job_id, fence, attempt, worker_id, ending, claimed_at) "
                "values (%s, %s, %s, %s, %s, now())",
                [mine, fence, fence, holder, ending],
            )

        assert await database.all(requests.begin(mine)) == [id]

        assert seen(psql, id, "status", "worker_id", "attempt_number") == ("PROCESSING", f"box#{holder}", 3)
        assert None not in seen(psql, id, "started_at", "last_heartbeat")

    async def test_an_error_begins_anew_but_not_what_was_given_up_or_has_ended(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        holder = worker(psql, alive=True)

        async def begun(status: str, error: str | None) -> bool:
            mine = job(psql, "running", held_by=holder)
            id = quote(psql, status, job_id=mine, error_message=error)
            before = seen(psql, id, "status", "error_message", "completed_at")
            found = await database.all(requests.begin(mine))
            after = seen(psql, id, "status", "error_message", "completed_at")
            assert after == (("PROCESSING", None, None) if found else before)
            return found == [id]

        assert await begun("ERROR", "The page was gone.")
        assert not await begun("ERROR", "given_up: too old.")
        assert not await begun("DONE", None)
        assert not await begun("CANCELLED", None)


class TestAdvance:
    async def test_a_step_is_told_and_what_it_does_not_bring_is_kept(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        id = quote(psql, "PROCESSING", silent=30)
        await database.all(
            requests.advance(id, step="search", percentage=40, checkpoint="SHOPPING", query="q", shopping='{"n": 1}')
        )
        saved = seen(psql, id, "shopping_response_saved_at")

        assert await database.all(requests.advance(id, step="prices", percentage=60)) == [id]

        assert seen(psql, id, "current_step", "progress_percentage") == ("prices", 60)
        assert seen(psql, id, "processing_checkpoint", "search_query_final") == ("SHOPPING", "q")
        assert seen(psql, id, "google_shopping_response_json") == ({"n": 1},)
        assert seen(psql, id, "shopping_response_saved_at") == saved != (None,)
        assert one(psql, "select count(*) from quotes.quote_requests where last_heartbeat > now() - interval '1 min'")

    @pytest.mark.parametrize("status", ["PENDING", *ENDED])
    async def test_a_quote_that_is_not_in_processing_stays_as_it_is(
        self, database: Database, psql: psycopg.Connection, status: str
    ) -> None:
        id = quote(psql, status)

        assert await database.all(requests.advance(id, step="late", percentage=90, checkpoint="LATE")) == []
        assert seen(psql, id, "status", "current_step", "processing_checkpoint") == (status, None, None)


class TestAdvanceTested:
    async def test_products_are_written_once_each_in_their_order_with_the_stage(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        id = quote(psql, "PROCESSING")
        at = {"step": "prices", "percentage": 60, "checkpoint": "PRICES"}
        one = told(
            sources.Tested(key="a", kind="SHOP", provider="p", title="Mesa", price=Decimal("10.50"), detail={"x": "1"})
        )
        two = told(
            sources.Tested(key="b", kind="SHOP", provider="p", title="Outra", reason="SOLD_OUT", message="Não há."), 1
        )

        assert await database.all(requests.advance_tested(id, as_json([one]), **at)) == [id]
        assert await database.all(requests.advance_tested(id, as_json([one, two]), **at)) == [id]

        rows = psql.execute(
            "select key, position, price_value, is_valid, failure_reason, failure_message, detail::text, is_accepted "
            "from quotes.quote_sources where quote_id = %s order by position",
            [id],
        ).fetchall()
        assert rows == [
            ("a", 1, Decimal("10.50"), True, None, None, '{"x":"1"}', False),
            ("b", 2, None, False, "SOLD_OUT", "Não há.", "{}", False),
        ]
        assert seen(psql, id, "processing_checkpoint", "progress_percentage") == ("PRICES", 60)

    async def test_a_quote_that_is_over_gets_nothing(self, database: Database, psql: psycopg.Connection) -> None:
        id = quote(psql, "CANCELLED")
        one = told(sources.Tested(key="a", kind="SHOP", provider="p", title="Mesa", price=Decimal(10)))

        assert await database.all(requests.advance_tested(id, as_json([one]), step="s", percentage=1)) == []
        assert psql.execute("select count(*) from quotes.quote_sources").fetchone() == (0,)


def told(tested: sources.Tested, number: int = 0) -> dict[str, Any]:
    return {"number": number, **sources.row(tested)}


class TestFinish:
    async def test_these_prices_count_and_no_others_and_a_refused_one_never(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        id, other = quote(psql, "PROCESSING"), quote(psql, "PROCESSING")
        for of in (id, other):
            for key, reason in (("a", None), ("b", None), ("c", "SOLD_OUT")):
                new = sources.Tested(key=key, kind="SHOP", provider="p", title="Mesa", price=Decimal(10), reason=reason)
                await database.all(sources.save(of, new))
        psql.execute("update quotes.quote_sources set is_accepted = true where key = 'a'")

        await database.all(requests.finish(id, "DONE", step="done", figures=FOUND, accepted=["b", "c"]))

        counts = "select quote_id, key from quotes.quote_sources where is_accepted order by quote_id, key"
        assert psql.execute(counts).fetchall() == [(id, "b"), (other, "a")]

    async def test_the_prices_of_one_that_is_over_stay_as_they_were(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        id = quote(psql, "CANCELLED")
        await database.all(
            sources.save(id, sources.Tested(key="a", kind="SHOP", provider="p", title="Mesa", price=Decimal(10)))
        )

        assert await database.all(requests.finish(id, "DONE", step="done", figures=FOUND, accepted=["a"])) == []
        assert psql.execute("select is_accepted from quotes.quote_sources").fetchall() == [(False,)]

    async def test_it_ends_with_its_values_and_nobody_holds_it(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        id = quote(psql, "PROCESSING", worker_id="box#1", processing_checkpoint="PRICES", progress_percentage=80)

        assert await database.all(requests.finish(id, "DONE", step="done", figures=FOUND)) == [id]

        assert seen(psql, id, "status", "current_step", "worker_id") == ("DONE", "done", None)
        assert seen(psql, id, "processing_checkpoint", "progress_percentage") == ("PRICES", 80)
        assert seen(psql, id, "valor_medio", "valor_minimo", "valor_maximo", "variacao_percentual") == (
            FOUND.mean,
            FOUND.lowest,
            FOUND.highest,
            FOUND.spread,
        )
        assert seen(psql, id, "completed_at") != (None,)

    async def test_one_that_was_cancelled_meanwhile_stays_cancelled(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        id = quote(psql, "CANCELLED")

        assert await database.all(requests.finish(id, "DONE", step="done", figures=FOUND)) == []
        assert seen(psql, id, "status", "valor_medio") == ("CANCELLED", None)


class TestPage:
    async def test_the_newest_come_first_and_each_filter_leaves_the_others_out(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        first = quote(psql, input_text="Cadeira azul", batch_job_id=batch(psql, 7))
        second = quote(psql, "DONE", input_text="mesa", codigo_item="C-2", resume_data='{"at": 1}')
        third = quote(psql, input_text="banco", project_id=project(psql, "Outra")[0])

        async def ids(**given: Any) -> list[int]:
            return [each.id for each in await database.all(requests.page(**given))]

        assert await ids() == [third, second, first]
        assert await ids(limit=1, before=third) == [second]
        assert await ids(statuses=["DONE"]) == [second]
        assert await ids(batch_id=7) == [first]
        assert await ids(project_id=project(psql, "Outra")[0]) == [third]
        assert await ids(search="cadeira") == [first]
        assert await ids(search="C-2") == [second]
        assert await ids(search="sofa") == []
        (short,) = await database.all(requests.page(id=second))
        (whole,) = await database.all(requests.page(id=second, whole=True))
        assert (short.resume_data, whole.resume_data) == (None, {"at": 1})

    async def test_a_job_that_failed_is_told_before_its_row_says_so(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        lost = quote(psql, "PROCESSING", job_id=job(psql, "failed", error="It broke."))
        done = quote(psql, "DONE", job_id=job(psql, "failed", error="It broke."))

        (told,) = await database.all(requests.page(statuses=["ERROR"]))

        assert (told.id, told.status, told.error_message, told.job_state) == (lost, "ERROR", "It broke.", "failed")
        assert [each.id for each in await database.all(requests.page(statuses=["DONE"]))] == [done]
        assert await database.all(requests.page(statuses=["PROCESSING"])) == []
        assert seen(psql, lost, "status") == ("PROCESSING",)


class TestStuck:
    async def test_only_what_shows_no_life_and_nobody_alive_holds_is_told(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        alive, dead = worker(psql, alive=True), worker(psql, alive=False)
        leased = worker(psql, alive=True, seen=False)
        waits = quote(psql, "PROCESSING", silent=20, processing_checkpoint="PRICES")
        orphan = quote(psql, "PROCESSING", silent=70, job_id=job(psql, "running", held_by=dead))
        quote(psql, "PROCESSING", silent=20, job_id=job(psql, "running", held_by=alive))
        quote(psql, "PROCESSING", silent=20, job_id=job(psql, "running", held_by=leased))
        quote(psql, "PROCESSING", silent=20, job_id=job(psql, "failed"))
        quote(psql, "PROCESSING", silent=5)
        quote(psql, "DONE", silent=20)

        found = await database.all(requests.stuck())

        assert [(each.id, each.checkpoint) for each in found] == [(orphan, None), (waits, "PRICES")]
        assert await database.all(requests.stuck(minutes=90)) == []
        assert await database.all(requests.stuck(batch_id=batch(psql, 7))) == []


class TestStats:
    async def test_the_figures_are_of_what_is_in_processing_and_the_mean_of_what_is_done(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        quote(psql, "PROCESSING", silent=20, processing_checkpoint="PRICES")
        quote(psql, "PROCESSING", processing_checkpoint="PRICES")
        quote(psql, "PROCESSING")
        quote(psql, "PROCESSING", silent=20, job_id=job(psql, "cancelled"))
        rewind(psql, quote(psql, "ERROR"), hours=9)
        for seconds in (10, 21):
            psql.execute(
                "update quotes.quote_requests set started_at = completed_at - make_interval(secs => %s) where id = %s",
                [seconds, quote(psql, "DONE")],
            )

        (stats,) = await database.all(requests.stats())

        assert (stats.total_processing, stats.stuck_count) == (3, 1)
        assert stats.by_checkpoint == {"PRICES": 2, "INIT": 1}
        assert stats.avg_processing_time_seconds == Decimal("15.50")

    async def test_without_quotes_there_is_nothing_to_count(self, database: Database) -> None:
        (stats,) = await database.all(requests.stats())

        assert (stats.total_processing, stats.stuck_count, stats.by_checkpoint) == (0, 0, {})
        assert stats.avg_processing_time_seconds is None


class TestAmongMany:
    """The desk looks at what is in processing, and not at what ended long ago."""

    @pytest.fixture
    def many(self, psql: psycopg.Connection) -> psycopg.Connection:
        for query in (
            quote_figures.project(),
            quote_figures.silent(),
            quote_figures.many(1, 40_000),
        ):
            psql.execute(query.sql, query.params)
        psql.execute("analyze quotes.quote_requests, retoma.jobs, retoma.workers")
        return psql

    @pytest.mark.parametrize("query", [requests.stats(), requests.stuck()], ids=["stats", "stuck"])
    def test_it_reads_few_pages_and_scans_no_table(self, many: psycopg.Connection, query: Query[Any]) -> None:
        (plan,) = many.execute(f"explain (analyze, buffers, format json) {query.sql}", query.params).fetchone() or ()

        whole = plan[0]["Plan"]
        assert whole["Shared Hit Blocks"] + whole["Shared Read Blocks"] < 400
        assert not {"quote_requests", "jobs"} & set(scanned(whole))

    def test_the_figures_are_those_of_the_rows(self, many: psycopg.Connection) -> None:
        (row,) = many.execute(requests.stats().sql, requests.stats().params).fetchall()
        stuck = many.execute(requests.stuck().sql, requests.stuck().params).fetchall()

        assert row[:2] == (40, 8)
        assert len(stuck) == 8


def scanned(node: dict[str, Any]) -> list[str]:
    """The tables that are read from one end to the other."""
    own = [node["Relation Name"]] if node["Node Type"] == "Seq Scan" else []
    return [*own, *(name for each in node.get("Plans", []) for name in scanned(each))]


class TestDistribution:
    async def test_a_batch_is_counted_as_its_jobs_stand_and_others_are_left_out(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        mine, other = batch(psql, 7), batch(psql, 8)
        quote(psql, batch_job_id=mine)
        quote(psql, "PROCESSING", silent=20, batch_job_id=mine, processing_checkpoint="PRICES")
        quote(psql, "PROCESSING", batch_job_id=mine, processing_checkpoint="PRICES")
        quote(psql, "PROCESSING", silent=20, batch_job_id=mine, job_id=job(psql, "failed"))
        quote(psql, "DONE", batch_job_id=other)

        assert await database.all(requests.distribution(mine)) == [
            Share("ERROR", "INIT", 1, 0),
            Share("PENDING", "INIT", 1, 0),
            Share("PROCESSING", "PRICES", 2, 1),
        ]
        assert await database.all(requests.distribution(9)) == []


class TestRecover:
    async def test_one_whose_job_waits_waits_again_with_one_attempt_more(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        id = quote(psql, "PROCESSING", silent=20, worker_id="box#1", processing_checkpoint="PRICES")
        heartbeat = seen(psql, id, "last_heartbeat")

        assert await database.all(requests.recover(id=id)) == [RecoveredQuote(id, 2, "PRICES")]

        assert seen(psql, id, "status", "worker_id", "attempt_number") == ("PENDING", None, 2)
        assert seen(psql, id, "last_heartbeat") == heartbeat
        assert await database.all(requests.recover(id=id)) == []

    async def test_one_that_shows_life_or_is_held_or_is_of_another_batch_is_left(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        held = job(psql, "running", held_by=worker(psql, alive=False))
        fresh = quote(psql, "PROCESSING", silent=5)
        running = quote(psql, "PROCESSING", silent=20, job_id=held)
        other = quote(psql, "PROCESSING", silent=20, batch_job_id=batch(psql, 8))

        assert await database.all(requests.recover(batch_id=batch(psql, 7))) == []
        assert await database.all(requests.recover(id=fresh)) == []
        assert await database.all(requests.recover(id=running)) == []
        assert [seen(psql, id, "status", "attempt_number") for id in (fresh, running, other)] == [("PROCESSING", 1)] * 3


class TestSettle:
    async def test_a_row_says_how_its_job_ended(self, database: Database, psql: psycopg.Connection) -> None:
        failed = quote(psql, "PROCESSING", worker_id="box#1", job_id=job(psql, "failed", error="It broke."))
        called_off = quote(psql, job_id=job(psql, "cancelled"))

        assert sorted(await database.all(requests.settle())) == [failed, called_off]

        columns = ("status", "current_step", "error_message", "worker_id")
        assert seen(psql, failed, *columns) == ("ERROR", "error", "It broke.", None)
        assert seen(psql, called_off, *columns) == ("CANCELLED", "cancelled", None, None)
        assert await database.all(requests.settle()) == []

    async def test_a_job_that_goes_on_and_a_row_that_has_its_end_are_left(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        waits = quote(psql, "PROCESSING")
        held = quote(psql, "PROCESSING", job_id=job(psql, "running", held_by=worker(psql, alive=True)))
        done = quote(psql, "DONE", job_id=job(psql, "failed", error="It broke."))

        assert await database.all(requests.settle()) == []
        assert [seen(psql, id, "status")[0] for id in (waits, held, done)] == ["PROCESSING", "PROCESSING", "DONE"]


class TestGiveUp:
    async def test_what_was_begun_too_long_ago_ends_and_is_not_begun_again(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        mine = job(psql)
        old = quote(psql, "PROCESSING", worker_id="box#1", job_id=mine)
        rewind(psql, old, hours=25)

        assert await database.all(requests.give_up()) == [old]

        status, step, error, holder = seen(psql, old, "status", "current_step", "error_message", "worker_id")
        assert (status, step, holder) == ("ERROR", "error", None)
        assert error == "given_up: it was begun more than 24 hours ago and did not end."
        assert await database.all(requests.begin(mine)) == []

    async def test_what_is_young_or_only_waited_or_has_ended_is_left(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        young, waited, done = quote(psql, "PROCESSING"), quote(psql), quote(psql, "DONE")
        rewind(psql, young, hours=23)
        rewind(psql, done, hours=25)
        psql.execute("update quotes.quote_requests set created_at = now() - interval '9 days' where id = %s", [waited])

        assert await database.all(requests.give_up()) == []
        assert [seen(psql, id, "status")[0] for id in (young, waited, done)] == ["PROCESSING", "PENDING", "DONE"]


class TestCancel:
    async def test_those_of_a_batch_that_have_not_ended_are_cancelled_with_their_jobs_told(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        mine, (one_job, two_job) = batch(psql, 7), (job(psql), job(psql))
        waits = quote(psql, batch_job_id=mine, job_id=one_job)
        works = quote(psql, "PROCESSING", batch_job_id=mine, job_id=two_job, worker_id="box#1")
        done = quote(psql, "DONE", batch_job_id=mine)
        other = quote(psql)

        assert sorted(await database.all(requests.cancel(batch_id=mine))) == [(waits, one_job), (works, two_job)]

        assert seen(psql, works, "status", "current_step", "worker_id") == ("CANCELLED", "cancelled", None)
        assert [seen(psql, id, "status")[0] for id in (waits, done, other)] == ["CANCELLED", "DONE", "PENDING"]

    async def test_without_a_name_nothing_is_cancelled(self, database: Database, psql: psycopg.Connection) -> None:
        id, done = quote(psql), quote(psql, "DONE")

        assert await database.all(requests.cancel()) == []
        assert await database.all(requests.cancel(id=done)) == []
        assert seen(psql, id, "status") == ("PENDING",)
        assert [each for each, _ in await database.all(requests.cancel(id=id))] == [id]


class TestReset:
    async def test_only_the_errors_of_the_batch_wait_again_and_keep_what_was_found(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        mine, other = batch(psql, 7), batch(psql, 8)
        broken = quote(
            psql, "ERROR", batch_job_id=mine, error_message="x", current_step="error", processing_checkpoint="PRICES"
        )
        done, called_off = quote(psql, "DONE", batch_job_id=mine), quote(psql, "CANCELLED", batch_job_id=mine)
        elsewhere = quote(psql, "ERROR", batch_job_id=other)

        assert await database.all(requests.reset(mine)) == [broken]

        columns = ("status", "error_message", "completed_at", "current_step", "processing_checkpoint")
        assert seen(psql, broken, *columns) == ("PENDING", None, None, None, "PRICES")
        left = [seen(psql, id, "status")[0] for id in (done, called_off, elsewhere)]
        assert left == ["DONE", "CANCELLED", "ERROR"]


class TestDecide:
    @pytest.mark.parametrize("status", ["AWAITING_REVIEW", "DONE"])
    async def test_what_a_person_made_of_it_counts(
        self, database: Database, psql: psycopg.Connection, status: str
    ) -> None:
        id = quote(psql, status, error_message="Too few prices.")

        assert await database.all(requests.decide(id, "DONE", step="done", figures=FOUND)) == [id]

        columns = ("status", "current_step", "valor_medio", "variacao_percentual", "error_message")
        assert seen(psql, id, *columns) == ("DONE", "done", FOUND.mean, FOUND.spread, None)

    @pytest.mark.parametrize("status", ["PENDING", "PROCESSING", "ERROR", "CANCELLED"])
    async def test_there_is_nothing_to_decide_in_any_other_state(
        self, database: Database, psql: psycopg.Connection, status: str
    ) -> None:
        id = quote(psql, status)

        assert await database.all(requests.decide(id, "DONE", step="done", figures=FOUND)) == []
        assert seen(psql, id, "status", "valor_medio") == (status, None)


class TestHold:
    async def test_the_row_is_locked_and_no_other(self, database_url: str, psql: psycopg.Connection) -> None:
        held, free = quote(psql, "DONE"), quote(psql)
        query, missing = requests.hold(held), requests.hold(free + 1)

        with psycopg.connect(database_url) as connection:
            assert connection.execute(query.sql, query.params).fetchall() == [("DONE",)]
            assert connection.execute(missing.sql, missing.params).fetchall() == []
            others = psql.execute("select id from quotes.quote_requests for no key update skip locked").fetchall()
        after = psql.execute(
            "select id from quotes.quote_requests order by id for no key update skip locked"
        ).fetchall()

        assert others == [(free,)]
        assert after == [(held,), (free,)]


class TestHoldMany:
    async def test_these_rows_are_locked_in_their_order_and_no_other(
        self, database_url: str, psql: psycopg.Connection
    ) -> None:
        first, free, last = quote(psql, "DONE"), quote(psql), quote(psql, "DONE")
        query = requests.hold_many([last, first, last + 1])

        with psycopg.connect(database_url) as connection:
            assert connection.execute(query.sql, query.params).fetchall() == [(first,), (last,)]
            others = psql.execute("select id from quotes.quote_requests for no key update skip locked").fetchall()

        assert others == [(free,)]

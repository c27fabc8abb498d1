"""Quotes whose workers are killed after each stage, and in the middle of reading prices: nothing is paid twice."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from fleet import Fleet, Member, until
from oracle import Oracle

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.model import Quote

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

# A checkpoint whose name is here is not saved before the test says so: what came before it is.
HALTS = """
create table halts (step text not null, skip integer not null);
create function halt() returns trigger language plpgsql as $$
begin
    if exists (select 1 from halts where new.step like halts.step and halts.skip <=
               (select count(*) from retoma.checkpoints as saved
                 where saved.job_id = new.job_id and saved.step like halts.step)) then
        perform pg_advisory_xact_lock(4711);
    end if;
    return new;
end $$;
create trigger halting before insert on retoma.checkpoints for each row execute function halt();
"""
WAITING = """
select pid from pg_locks
 where locktype = 'advisory' and objid = 4711 and not granted
   and database = (select oid from pg_database where datname = current_database())
"""
COST = Decimal("0.01")

# The step that is not saved, and the stage that the row has reached by then.
STAGES = {
    "INIT": None,
    "AI_ANALYSIS_START": "INIT",
    "AI_ANALYSIS": "AI_ANALYSIS_START",
    "AI_ANALYSIS_DONE": "AI_ANALYSIS_START",
    "SHOPPING_SEARCH_START": "AI_ANALYSIS_DONE",
    "search/shopping": "SHOPPING_SEARCH_START",
    "SHOPPING_SEARCH_DONE": "SHOPPING_SEARCH_START",
    "PRICE_EXTRACTION_START": "SHOPPING_SEARCH_DONE",
    "PRICE_EXTRACTION_DONE": "PRICE_EXTRACTION_PROGRESS",
    "FINALIZATION": "PRICE_EXTRACTION_DONE",
    "COMPLETED": "FINALIZATION",
}


@pytest.fixture
async def library(fleet: Fleet) -> AsyncIterator[Quotes]:
    async with Retoma(fleet.url, extensions=[QUOTES]) as app:
        for model in ("search", "product"):
            await app.calls.set_price("shopping", model, unit=COST)
        yield Quotes(app)


@pytest.fixture
def gate(fleet: Fleet) -> Any:
    with psycopg.connect(fleet.url, autocommit=True) as connection:
        connection.execute(HALTS)
        yield Gate(connection)


class Gate:
    """Holds a worker where it is about to save a step."""

    def __init__(self, connection: psycopg.Connection) -> None:
        self._connection = connection

    def close(self, step: str, *, skip: int = 0) -> None:
        self._connection.execute("select pg_advisory_lock(4711)")
        self._connection.execute("insert into halts values (%s, %s)", [step, skip])

    def waiting(self) -> list[int]:
        return [pid for (pid,) in self._connection.execute(WAITING).fetchall()]

    def open(self) -> None:
        """Whoever was killed there does not save after all."""
        for pid in self.waiting():
            self._connection.execute("select pg_terminate_backend(%s)", [pid])
        self._connection.execute("delete from halts")
        self._connection.execute("select pg_advisory_unlock(4711)")


def start(fleet: Fleet, label: str, **settings: object) -> Member:
    settings = {"watchdog_seconds": 0.5, **settings}
    return fleet.start(label, app="quotes_app:app", queues=["quotes"], at_once=5, **settings)


def bill(fleet: Fleet) -> Counter[str]:
    """How often each request was billed."""
    file = fleet.folder / "bill.log"
    return Counter(file.read_text().splitlines() if file.exists() else [])


async def done(library: Quotes, oracle: Oracle, id: int) -> Quote:
    def ended() -> bool:
        return bool(oracle.rows("select 1 from quotes.quote_requests where id = %s and status = 'DONE'", id))

    await until(ended, what=f"quote {id} is done")
    return await library.quote(id)


async def told(library: Quotes, id: int) -> list[Any]:
    """What a report would say of the sources, but for times."""
    return [
        (each.position, each.key, each.kind, each.url, each.price_value, each.is_accepted, each.failure_reason,
         each.evidence_sha256)
        for each in await library.sources(id)
    ]  # fmt: skip


def ledger(oracle: Oracle, job: int) -> tuple[int, int, Decimal]:
    """Calls to the shop that were answered, those in doubt, and what the first cost."""
    (row,) = oracle.rows(
        "select count(*) filter (where state = 'answered'), count(*) filter (where state = 'doubtful'),"
        " coalesce(sum(cost), 0) from retoma.calls where job_id = %s and provider = 'shopping'",
        job,
    )
    return row[0], row[1], row[2]


def same(one: Quote, other: Quote) -> bool:
    def fields(quote: Quote) -> list[Any]:
        return [quote.status, quote.valor_medio, quote.valor_minimo, quote.valor_maximo, quote.variacao_percentual,
                quote.resume_data, quote.google_shopping_response_json and
                quote.google_shopping_response_json["products"]]  # fmt: skip

    return fields(one) == fields(other)


async def test_killed_after_each_stage_a_quote_goes_on_and_no_call_is_paid_twice(
    fleet: Fleet, oracle: Oracle, library: Quotes, gate: Gate
) -> None:
    worker = start(fleet, "ana")
    whole = await done(library, oracle, await library.create("Mesa"))
    for number, (step, stage) in enumerate(STAGES.items()):
        before = bill(fleet)
        gate.close(step)
        id = await library.create(f"Mesa {number}")
        await until(gate.waiting, what=f"a worker is about to save {step}")
        (reached,) = oracle.rows("select processing_checkpoint, status from quotes.quote_requests where id = %s", id)
        worker.send(signal.SIGKILL, executors=True, supervisor=False)
        gate.open()
        quote = await done(library, oracle, id)
        paid = bill(fleet) - before
        answered, doubtful, cost = ledger(oracle, quote.job_id)

        assert reached == (stage, "PROCESSING"), step
        assert quote.attempt_number == 2, step
        assert (quote.requote_number, quote.worker_id) == (0, None)
        assert same(quote, whole), step
        assert await told(library, id) == await told(library, whole.id), step
        assert paid[f"search mesa {number}"] == 1, step
        shop = sum(times for line, times in paid.items() if line.startswith(("search ", "product ")))
        assert (shop, doubtful) == (answered, 0), f"the bill is the ledger, {step}"
        assert cost == COST * answered
    assert await library.app.system.verify() == []
    oracle.nothing_is_wrong()


async def test_killed_in_the_middle_of_price_extraction_it_continues_at_the_next_product(
    fleet: Fleet, oracle: Oracle, library: Quotes, gate: Gate
) -> None:
    first = start(fleet, "ana")
    whole = await done(library, oracle, await library.create("Mesa"))
    gate.close("page/%", skip=1)
    id = await library.create("Cadeira")
    await until(gate.waiting, what="a worker has read the second page")
    between = await library.quote(id)
    first.send(signal.SIGKILL, executors=True)
    gate.open()
    before = bill(fleet)
    start(fleet, "bruno")
    quote = await done(library, oracle, id)
    after = bill(fleet) - before

    assert (between.processing_checkpoint, between.status) == ("PRICE_EXTRACTION_PROGRESS", "PROCESSING")
    tested = [each["key"] for each in between.tested_products]
    assert tested == ["register|99.00", "a|100"]
    assert [each["key"] for each in quote.tested_products] == [*tested, "b|104"], "it went on at the next product"
    assert dict(after) == {"page https://b.com.br/b": 1}, "the page was not saved; all that was paid for was"
    assert quote.attempt_number == 2
    assert same(quote, whole)
    assert await told(library, id) == await told(library, whole.id)
    assert len(await library.sources(id)) == 3, "no source is there twice"


async def test_killed_before_an_answer_came_the_bill_is_the_ledger_and_what_is_in_doubt(
    fleet: Fleet, oracle: Oracle, library: Quotes
) -> None:
    halt = Path(fleet.folder / "halt")
    halt.mkdir()
    (halt / "product").touch()
    first = start(fleet, "ana")
    id = await library.create("Mesa")
    await until(lambda: bill(fleet)["product a"], what="the shop was asked for the product")
    first.send(signal.SIGKILL, executors=True)
    (halt / "product").unlink()
    start(fleet, "bruno")
    quote = await done(library, oracle, id)
    answered, doubtful, _ = ledger(oracle, quote.job_id)
    paid = sum(times for line, times in bill(fleet).items() if line.startswith(("search ", "product ")))

    assert (answered, doubtful) == (3, 1)
    assert paid == answered + doubtful
    assert bill(fleet)["search mesa"] == 1
    (cost,) = [each for each in await library.quote_costs(id) if each.provider == "shopping"]
    assert (cost.dollars, cost.in_doubt) == (COST * 3, COST)


@pytest.mark.parametrize("way", [signal.SIGTERM, signal.SIGINT], ids=["deploy", "stopped by hand"])
async def test_a_worker_that_is_told_to_stop_leaves_its_quote_to_the_next_and_that_is_no_recovery(
    fleet: Fleet, oracle: Oracle, library: Quotes, way: signal.Signals
) -> None:
    halt = Path(fleet.folder / "halt")
    halt.mkdir()
    (halt / "page").touch()
    first = start(fleet, "ana", drain_seconds=1)
    id = await library.create("Mesa")
    await until(lambda: bill(fleet)["page https://a.com.br/a"], what="a page is being read")
    first.send(way)
    await first.exit_code(seconds=60)
    between = await library.quote(id)
    (halt / "page").unlink()
    start(fleet, "bruno")
    quote = await done(library, oracle, id)

    assert between.status == "PROCESSING"
    assert not between.alive
    assert (quote.attempt_number, quote.status) == (1, "DONE")
    assert bill(fleet)["search mesa"] == bill(fleet)["product a"] == 1

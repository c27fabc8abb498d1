"""What a provider was paid, by its own bill, against what was written down: killed, short of money, limited, late."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AsyncExitStack, contextmanager
from decimal import Decimal
from operator import attrgetter
from pathlib import Path
from typing import Any

import paid_app
import pytest
from fleet import LEASE, Fleet, Member, until
from oracle import Oracle
from paid_app import INPUT, LIMIT, MODEL, OUTPUT, PROVIDER, Document

from retoma import Retoma
from retoma.model.batch import Batch
from retoma.postgres.database import Database
from retoma.store import limits
from retoma.testing.billing import Biller, Charge

# `make explore` takes more; more than that says a figure, and no other thing.
EXPLORE = bool(os.environ.get("EXPLORE"))
DOCUMENTS = int(os.environ.get("PROOF_DOCUMENTS", "400" if EXPLORE else "160"))
EXECUTORS = int(os.environ.get("PROOF_EXECUTORS", "6" if EXPLORE else "4"))

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600 + DOCUMENTS + 10 * EXECUTORS)]

Figure = Callable[[str, object], None]
Billing = Callable[..., Any]
KEY = attrgetter("key")
NOTHING = Decimal(0)

# Every change of a batch's money, so that no moment is missed.
PURSES = """
create table purses (place bigint generated always as identity, spent numeric, reserved numeric, budget numeric);
create function note_purse() returns trigger language plpgsql as $$
begin
    insert into purses (spent, reserved, budget) values (new.spent, new.reserved, new.budget);
    return null;
end $$;
create trigger every_purse after update of spent, reserved, budget on retoma.batches
    for each row execute function note_purse();
"""


@pytest.fixture
async def app(fleet: Fleet, oracle: Oracle) -> AsyncIterator[Retoma]:
    oracle.connection.execute(PURSES)
    async with Retoma(fleet.url, pipelines=paid_app.PIPELINES, providers=paid_app.PROVIDERS) as app:
        await app.calls.set_price(PROVIDER, MODEL, input=INPUT, output=OUTPUT)
        yield app


@pytest.fixture
def billing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Billing:
    @contextmanager
    def billing(**options: Any) -> Iterator[Biller]:
        with Biller(tmp_path / "bill.jsonl", **options) as biller:
            monkeypatch.setenv("PAID_URL", biller.base_url)
            yield biller

    return billing


def start(fleet: Fleet, label: str, *, at_once: int = 4, processes: int = 1, **settings: object) -> Member:
    """A busy machine must not cost it its lease, where that is not the story."""
    settings = {"lease_seconds": 30, **settings}
    return fleet.start(label, app="paid_app:app", at_once=at_once, processes=processes, **settings)


async def until_state(oracle: Oracle, batch: Batch, state: str, *, seconds: float = 240.0) -> None:
    await until(lambda: oracle.batch(batch.id)[0] == state, seconds=seconds, what=f"{batch.name} is {state}")


async def answered(app: Retoma, oracle: Oracle, batch: Batch, papers: list[Document], *, revived: bool = False) -> None:
    """Every document is done, once, with the answers to its own questions."""
    jobs = oracle.jobs(batch.id)
    assert oracle.states(jobs) == {"completed": len(papers)}
    for job, paper in zip(jobs, papers, strict=True):
        assert await app.jobs.output(paid_app.inquire, job) == [paper.text(number) for number in range(paper.questions)]
    assert oracle.effects() == {(job, "record"): 1 for job in jobs}
    oracle.nothing_is_wrong(revived=revived)
    assert await app.system.verify() == []


def money(oracle: Oracle, batch: Batch) -> tuple[Decimal, Decimal]:
    """What the batch says that it has spent and holds back."""
    (row,) = oracle.rows("select spent, reserved from retoma.batches where id = %s", batch.id)
    return row[0], row[1]


def accounts_for(oracle: Oracle, bill: list[Charge], batch: Batch) -> Counter[str]:
    """Hold the ledger against the bill, line by line; how many calls were paid, known, in doubt and lost."""
    known: dict[str, list[Decimal]] = defaultdict(list)
    names: dict[str, str] = {}
    doubts: dict[str, list[Decimal]] = defaultdict(list)
    calls = "select key, state, cost, reserved, request_id from retoma.calls where batch_id = %s"
    for key, state, cost, reserved, request in oracle.rows(calls, batch.id):
        assert state in {"answered", "doubtful"}, f"a call is {state}"
        if state == "doubtful":
            doubts[key].append(reserved)
        else:
            known[key].append(cost)
            names[request.removeprefix("chat-")] = key
    lines: dict[str, list[Decimal]] = defaultdict(list)
    for charge in bill:
        lines[names[charge.request[:24]]].append(charge.cost)  # a line that nobody wrote down has no name here

    assert lines.keys() == known.keys()
    assert doubts.keys() <= known.keys(), "a question was never answered"
    lost = NOTHING
    for key, costs in lines.items():
        assert len(known[key]) <= len(costs) <= len(known[key]) + len(doubts[key]), "a line is not accounted for"
        assert {*costs} == {*known[key]}
        lost += sum(costs[len(known[key]) :], NOTHING)
    ledger = sum((cost for costs in known.values() for cost in costs), NOTHING)
    held = sum((cost for costs in doubts.values() for cost in costs), NOTHING)
    assert ledger == sum((charge.cost for charge in bill), NOTHING) - lost
    assert money(oracle, batch) == (ledger, held)
    assert lost <= held
    return Counter(
        paid=len(bill),
        distinct=len(known),
        known=sum(map(len, known.values())),
        doubtful=sum(map(len, doubts.values())),
        lost=len(bill) - sum(map(len, known.values())),
    )


# — killed —


async def test_what_was_paid_twice_is_bounded_by_the_kills_and_the_ledger_is_the_bill(
    fleet: Fleet, oracle: Oracle, app: Retoma, billing: Billing, figure: Figure
) -> None:
    chance = random.Random(20_264)
    papers = [Document(number, chance.randrange(40, 400), questions=2) for number in range(DOCUMENTS)]
    members: dict[str, Member] = {}
    kills: Counter[str] = Counter()
    waiting = (
        "select worker.pid from retoma.calls as call join retoma.workers as worker on worker.id = call.worker_id"
        " where call.state = 'open' and worker.stopped_at is null"
    )

    def keep_alive() -> None:
        for label in ("ana", "bruno", "clara"):
            if label not in members or members[label].ended:
                members[label] = start(fleet, label, at_once=3, lease_seconds=LEASE)

    def asking() -> list[Member]:
        """Those who wait for an answer right now."""
        pids = {pid for (pid,) in oracle.rows(waiting)}
        return [members[label] for label in sorted(members) if pids & {*members[label].executors()}]

    with billing(seconds=0.2) as biller:
        keep_alive()
        batch = await app.batch(paid_app.inquire, papers, name="killed", key=KEY, stall_seconds=300)
        await until(lambda: oracle.jobs(batch.id, "completed"), what="it is at work")
        end = time.monotonic() + DOCUMENTS / 25
        while (time.monotonic() < end or kills.total() < 5) and oracle.jobs(batch.id, "queued"):
            keep_alive()
            await asyncio.sleep(chance.uniform(0.3, 1.2))
            kind = chance.choices(["executor", "supervisor", "both"], weights=[3, 1, 1])[0]
            if victims := asking():
                kills[kind] += 1
                victim = chance.choice(victims)
                victim.send(signal.SIGKILL, executors=kind != "supervisor", supervisor=kind != "executor")
        keep_alive()
        await until_state(oracle, batch, "completed", seconds=240 + DOCUMENTS)
        quarantined = oracle.jobs(batch.id, "failed")
        assert all(oracle.job(job)[1] == "quarantine" for job in quarantined)
        if quarantined:  # three kills from outside look like a document that kills: a person looks, and tries again
            await app.batches.retry_failed(batch.id)
            await until_state(oracle, batch, "completed")
        bill = biller.bill.calls

    counts = accounts_for(oracle, bill, batch)
    lost = oracle.lost()
    figure("kills", dict(kills))
    figure("calls", dict(counts))
    figure("attempts lost", lost)
    figure("quarantined", len(quarantined))
    figure("bill, ledger, held", (sum(each.cost for each in bill), *money(oracle, batch)))
    assert kills.total() >= 5
    assert counts["doubtful"], "no call was under way when its worker was killed"
    assert counts["distinct"] == 2 * len(papers)
    assert counts["paid"] <= counts["distinct"] + lost
    assert not oracle.rows("select * from purses where reserved < 0")
    await answered(app, oracle, batch, papers, revived=bool(quarantined))


async def test_a_pilot_whose_worker_is_killed_pays_nothing_twice_and_is_released_once(
    fleet: Fleet, oracle: Oracle, app: Retoma, billing: Billing
) -> None:
    papers = [Document(number, 80 + 4 * number) for number in range(60)]
    with billing(seconds=0.1) as biller:
        first = start(fleet, "ana", at_once=2, lease_seconds=LEASE)
        batch = await app.batch(paid_app.inquire, papers, name="piloted", key=KEY, stall_seconds=300, pilot=20)
        await until(lambda: len(oracle.jobs(batch.id, "completed")) >= 3, what="the pilot is at work")
        first.send(signal.SIGKILL, executors=True)
        start(fleet, "bruno", at_once=2, lease_seconds=LEASE)
        await until(lambda: len(oracle.jobs(batch.id, "completed")) == 20, what="the pilot is over")

        pilot = await app.batches.pilot(batch.id)
        paid_by_pilot = len(biller.bill.calls)
        assert (pilot.over, pilot.held, len(oracle.jobs(batch.id, "queued"))) == (True, 40, 40)
        assert pilot.cost is not None
        assert pilot.cost.low <= float(sum(each.cost for each in papers)) <= pilot.cost.high
        assert (await app.batches.explain(batch.id)).verdict == "piloted"

        # Several people press the button at once, and the worker is killed while the rest is taken.
        await asyncio.gather(*(app.batches.release(batch.id, by=name) for name in ("ana", "rui", "eva")))
        await until(lambda: len(oracle.jobs(batch.id, "completed")) >= 25, what="the rest is at work")
        fleet.clear_away()
        start(fleet, "clara", at_once=4, lease_seconds=LEASE)
        await until_state(oracle, batch, "completed")
        bill = biller.bill.calls

    counts = accounts_for(oracle, bill, batch)
    assert counts["distinct"] == len(papers)
    assert counts["paid"] <= counts["distinct"] + oracle.lost()
    assert paid_by_pilot <= 20 + oracle.lost()
    assert oracle.one(f"select count(*) from retoma.events where batch_id = {batch.id} and kind = 'released'") == 1
    await answered(app, oracle, batch, papers)


@pytest.mark.parametrize("killed", [False, True], ids=["in-peace", "the-one-who-asks-is-killed"])
async def test_equal_requests_of_several_workers_at_the_same_moment_are_paid_once(
    fleet: Fleet, oracle: Oracle, app: Retoma, billing: Billing, *, killed: bool
) -> None:
    papers = [Document(0, 200)] * 12
    with billing(seconds=1.0) as biller:
        members = [start(fleet, label, processes=2) for label in ("ana", "bruno")]
        for member in members:
            await member.ready(2)
        batch = await app.batch(paid_app.inquire, papers, name="equal", stall_seconds=300)
        await until(biller.heard, what="the provider was asked")
        if killed:
            asks = oracle.one("select worker_id from retoma.calls where state = 'open'")
            os.kill(oracle.one(f"select pid from retoma.workers where id = {asks}"), signal.SIGKILL)
        await until_state(oracle, batch, "completed")
        bill = biller.bill.calls

    assert oracle.one("select count(distinct worker_id) from retoma.attempts") > 1
    counts = accounts_for(oracle, bill, batch)
    assert (counts["known"], counts["doubtful"]) == (1, int(killed))
    assert len(bill) <= 1 + killed, "a line for the answer, and one for that which was lost"
    await answered(app, oracle, batch, papers)


# — short of money —


async def test_a_budget_is_never_passed_by_several_workers_and_raising_it_completes_the_batch(
    fleet: Fleet, oracle: Oracle, app: Retoma, billing: Billing, figure: Figure
) -> None:
    chance = random.Random(20_265)
    papers = [Document(number, chance.randrange(40, 400)) for number in range(160)]
    whole = sum((paper.cost for paper in papers), NOTHING)
    with billing(seconds=0.05) as biller:
        for label in ("ana", "bruno"):
            await start(fleet, label, processes=2).ready(2)
        batch = await app.batch(paid_app.inquire, papers, name="half", key=KEY, budget=whole / 2, stall_seconds=300)
        await until_state(oracle, batch, "paused")
        await until(lambda: not oracle.jobs(batch.id, "running"), what="nothing of it runs")
        assert oracle.batch(batch.id)[:2] == ("paused", "budget")
        paid = biller.bill.cost
        rests, done = money(oracle, batch), len(oracle.jobs(batch.id, "completed"))
        assert rests == (paid, NOTHING)
        assert whole / 4 < paid <= whole / 2
        assert not oracle.rows("select * from purses where spent + reserved > budget")

        await app.batches.change(batch.id, budget=2 * whole)
        await until_state(oracle, batch, "completed")
        bill = biller.bill.calls

    figure("done, paid, budget when paused", (done, paid, whole / 2))
    assert not oracle.rows("select * from purses where spent + reserved > budget")
    assert oracle.one("select max(reserved) from purses") > 8 * max(paper.cost for paper in papers) / 2, "one at a time"
    assert accounts_for(oracle, bill, batch) == {"paid": 160, "distinct": 160, "known": 160, "doubtful": 0, "lost": 0}
    assert money(oracle, batch) == (whole, NOTHING)
    await answered(app, oracle, batch, papers)


# — limited —


async def test_those_who_take_at_the_same_moment_are_given_no_more_than_is_allowed(fleet: Fleet, app: Retoma) -> None:
    requests, clock = 600, time.monotonic
    await app.calls.set_limit(LIMIT, requests=requests)
    async with AsyncExitStack() as opened:
        databases = [Database(fleet.url, app.settings) for _ in range(6)]
        for database in databases:
            await database.open()
            opened.push_async_callback(database.close)
        taken, began = 0.0, clock()

        async def take(database: Database, worker: int) -> None:
            nonlocal taken
            query = limits.take(LIMIT, worker_id=worker, requests=4, least_tokens=1, places=4, busy=0, horizon=0.0)
            while clock() - began < 5:
                (slice_,) = await database.all(query)
                taken += slice_.requests
                await asyncio.sleep(0.02)

        await asyncio.gather(*(take(database, number) for number, database in enumerate(databases, 1)))
        seconds = clock() - began

    assert taken <= 1 + requests * (0.025 + 0.95 * seconds / 60)


async def test_many_executors_use_what_a_provider_allows_and_are_hardly_ever_refused(
    fleet: Fleet, oracle: Oracle, app: Retoma, billing: Billing, figure: Figure
) -> None:
    requests, minute = 600 if EXPLORE else 240, 60.0
    tokens = 57 * requests
    chance = random.Random(20_266)
    papers = [Document(number, chance.randrange(40, 200)) for number in range(5 * requests)]
    await app.calls.set_limit(LIMIT, requests=requests, tokens=tokens)
    with billing(seconds=0.05, rpm=requests, tpm=tokens, window=minute) as biller:
        for label in ("ana", "bruno"):
            start(fleet, label, processes=EXECUTORS // 2)
        alive = "select count(*) from retoma.workers where stopped_at is null"
        await until(lambda: oracle.one(alive) == EXECUTORS, seconds=30 + 10 * EXECUTORS, what="all are at work")
        batch = await app.batch(paid_app.inquire, papers, name="limited", key=KEY, stall_seconds=300)
        # All of them, so that the minute that is measured is one in which all ask.
        asking = "select count(distinct worker_id) from retoma.calls"
        await until(lambda: oracle.one(asking) == EXECUTORS, seconds=30 + 10 * EXECUTORS, what="all of them ask")
        # A little longer than the provider's minute: only then can it refuse anybody.
        await asyncio.sleep(minute + 3)
        until_now, counts = time.time(), biller.counts()
        bill = [each for each in biller.bill.calls if until_now - minute <= each.at < until_now]

        fewer = requests // 4
        limit = await app.calls.set_limit(LIMIT, requests=fewer, tokens=tokens)
        await asyncio.sleep(2)  # what was taken ahead is used up or too old
        began = biller.counts()["billed"]
        await asyncio.sleep(10)
        slower = biller.counts()["billed"] - began
        refused = biller.counts()
        await app.batches.cancel(batch.id)
        await until(lambda: not oracle.jobs(batch.id, "queued", "running"), what="the rest is called off")

    executors = oracle.one("select count(distinct worker_id) from retoma.calls")
    used = len(bill) / requests, sum(each.input_tokens + each.output_tokens for each in bill) / tokens
    figure("executors", executors)
    figure("billed, limited", (counts, refused))
    figure("use of requests, tokens", [round(each, 3) for each in used])
    figure("billed in 10 s at a quarter", slower)
    assert executors >= EXECUTORS, "one whose heartbeat came too late is replaced"
    assert counts["limited"] < 0.005 * sum(counts.values())
    assert refused["limited"] == counts["limited"], "fewer are asked for, and some are refused"
    assert max(used) > 0.9
    assert limit.requests == fewer
    most = fewer * 0.025 + fewer * 0.95 * 10 / minute
    assert 0.5 * most < slower <= most + executors, "the new limit is obeyed"
    assert await app.system.verify() == []


async def test_a_provider_that_allows_few_requests_is_asked_all_the_same(
    fleet: Fleet, oracle: Oracle, app: Retoma, billing: Billing
) -> None:
    await app.calls.set_limit(LIMIT, requests=10)
    with billing(rpm=10) as biller:
        start(fleet, "ana")
        batch = await app.batch(paid_app.inquire, [Document(0)], name="few", key=KEY, stall_seconds=300)
        (job,) = oracle.jobs(batch.id)
        await until(lambda: oracle.attempts(job), what="it was tried")

    assert oracle.attempts(job)[0][0] == "completed", oracle.attempts(job)
    assert len(biller.bill.calls) == 1


# — late —


@pytest.mark.parametrize("whole", [False, True], ids=["executor-first", "all-at-once"])
async def test_a_late_answer_is_written_down_and_changes_nothing_of_the_job(
    fleet: Fleet, oracle: Oracle, app: Retoma, billing: Billing, *, whole: bool
) -> None:
    papers = [Document(0, 200)]
    with billing(seconds=1.0) as biller:
        frozen = start(fleet, "ana", lease_seconds=LEASE)
        await frozen.ready()
        batch = await app.batch(paid_app.inquire, papers, name="late", key=KEY, stall_seconds=300)
        await until(biller.heard, what="the provider was asked")
        frozen.send(signal.SIGSTOP, executors=True)
        assert oracle.rows("select kind, state from retoma.calls") == [("first", "open")]
        start(fleet, "bruno", lease_seconds=LEASE)
        await until_state(oracle, batch, "completed")
        (job,) = oracle.jobs(batch.id)
        before = oracle.job(job), oracle.attempts(job), oracle.rows("select * from retoma.checkpoints")
        assert oracle.rows("select kind, state from retoma.calls order by id") == [
            ("first", "doubtful"), ("again", "answered")
        ]  # fmt: skip
        assert money(oracle, batch)[1] > 0

        if not whole:
            for pid in frozen.executors():
                os.kill(pid, signal.SIGCONT)
            late = "select count(*) from retoma.calls where kind = 'first' and state = 'answered'"
            await until(lambda: oracle.one(late), what="the late answer is kept")
        frozen.wake()
        await until(lambda: frozen.executors() and frozen.events("executor.crashed"), what="it has begun anew")
        bill = biller.bill.calls

    assert [ending for ending, *_ in before[1]] == ["lost", "completed"]
    assert (oracle.job(job), oracle.attempts(job), oracle.rows("select * from retoma.checkpoints")) == before
    assert len(bill) == 2
    counts = accounts_for(oracle, bill, batch)
    if whole:
        # Its supervisor ends the thawed executor at once: whether the answer is written before that is chance, and
        # the ledger knows of it either way.
        assert counts["known"] + counts["lost"] == 2
    else:
        assert (counts["known"], counts["lost"]) == (2, 0)
        assert money(oracle, batch) == (2 * papers[0].cost, NOTHING)
    await answered(app, oracle, batch, papers)


async def test_stopping_one_plain_handler_takes_no_other_along(
    fleet: Fleet, oracle: Oracle, app: Retoma, billing: Billing
) -> None:
    with billing(seconds=4.0) as biller:
        member = start(fleet, "ana", at_once=6)
        documents = [Document(number) for number in range(6)]
        jobs = [receipt.id for receipt in await app.enqueue_many(paid_app.inquire_plainly, documents)]
        await until(lambda: len(biller.heard()) == 6, what="all six have asked")
        before = member.executors()

        await app.jobs.cancel(jobs[2])
        await until(lambda: oracle.state(jobs[2]) == "cancelled", what="it lets go while its answer is on its way")
        assert oracle.states(jobs) == {"cancelled": 1, "running": 5}
        await until(oracle.all_ended, what="the others end")

        assert oracle.states(jobs) == {"cancelled": 1, "completed": 5}
        assert member.executors() == before
        assert not member.events("executor.killed")
        assert set(biller.bill.by_request.values()) == {1}
        answered = "select count(*) from retoma.calls where state = 'answered'"
        await until(lambda: oracle.one(answered) == 6, what="also the answer that nobody waited for is written down")
        assert len(biller.bill.calls) == 6


async def test_before_an_executor_is_ended_the_answers_on_their_way_are_written_down(
    fleet: Fleet, oracle: Oracle, app: Retoma, billing: Billing
) -> None:
    with billing(seconds=4.0) as biller:
        member = start(fleet, "ana", at_once=6)
        deaf = (await app.enqueue(paid_app.deaf, 60.0, timeout=2, attempts=1)).id
        documents = [Document(number) for number in range(5)]
        jobs = [receipt.id for receipt in await app.enqueue_many(paid_app.inquire, documents)]
        await until(lambda: len(biller.heard()) == 5, what="all five have asked")

        await until(oracle.all_ended, what="all end")

        assert oracle.job(deaf)[:3] == ("failed", "timeout", 1)
        (killed,) = member.events("executor.killed")
        assert f"job {deaf} (step 'sleep')" in killed["reason"]
        assert oracle.states(jobs) == {"completed": 5}
        assert {oracle.job(job)[2:4] for job in jobs} == {(1, 0)}, "a neighbour paid with an attempt or a crash"
        assert len(biller.bill.calls) == 5, "an answer was paid twice"
        oracle.nothing_is_wrong()

"""Lanes take turns, and some let only a few of their jobs run at the same time."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from retoma import Pipeline, Retoma, Retry, Run, pipeline
from retoma.testing import age, drain
from retoma.testing.draining import an_executor
from retoma.worker.executor import Executor

AppWith = Callable[..., Awaitable[Retoma]]


@asynccontextmanager
async def working(app: Retoma, *, at_once: int) -> AsyncIterator[Executor]:
    """An executor that works as in a worker: it fetches ahead and looks for hints."""
    async with an_executor(app, at_once, None) as executor:
        running = asyncio.create_task(executor.run())
        yield executor
        executor.stop()
        await running


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.01)


# — turns —


@pytest.mark.parametrize("at_once", [1, 10])
async def test_a_large_lane_does_not_starve_a_small_one(app_with: AppWith, at_once: int) -> None:
    done: list[str] = []

    @pipeline("fair", lane=lambda lane: lane)
    async def fair(lane: str, _run: Run) -> None:
        done.append(lane)
        await asyncio.sleep(0)

    app = await app_with(fair)
    await app.enqueue_many(fair, ["large"] * 2_000)
    await app.enqueue_many(fair, ["small"] * 3)
    async with working(app, at_once=at_once):
        await until(lambda: done.count("small") == 3)

    before = len(done[: len(done) - done[::-1].index("small")])
    assert before <= 10 + 10 * at_once, f"{before} jobs ended before the small lane was through"


async def test_a_small_lane_that_comes_later_waits_only_for_what_was_fetched(app_with: AppWith) -> None:
    done: list[str] = []

    @pipeline("fair", lane=lambda lane: lane)
    async def fair(lane: str, _run: Run) -> None:
        done.append(lane)
        await asyncio.sleep(0)

    app = await app_with(fair)
    await app.enqueue_many(fair, ["large"] * 4_000)
    async with working(app, at_once=5):
        await until(lambda: len(done) >= 500)
        await app.enqueue_many(fair, ["small"] * 3)
        queued = len(done)
        await until(lambda: done.count("small") == 3)

    assert done.index("small") - queued < 500
    assert len(done) < 4_000


async def test_two_hundred_lanes_all_move(app_with: AppWith) -> None:
    done: list[str] = []

    @pipeline("many", lane=lambda lane: lane)
    async def many(lane: str, _run: Run) -> None:
        done.append(lane)

    app = await app_with(many)
    lanes = [f"lane-{number}" for number in range(200)]
    await app.enqueue_many(many, [lane for lane in lanes for _ in range(10)])
    async with working(app, at_once=10):
        await until(lambda: len(set(done)) == 200)
        when = len(done)
        await until(lambda: len(done) == 2_000)

    assert when <= 1_000, "every lane had a turn before any had all of theirs"
    assert set(Counter(done).values()) == {10}


async def test_a_drain_sees_what_is_behind_many_lanes_that_have_nothing_ready(app_with: AppWith) -> None:
    @pipeline("many", lane=lambda lane: lane)
    async def many(_lane: str, _run: Run) -> None: ...

    app = await app_with(many)
    await app.enqueue_many(many, [f"lane-{number}" for number in range(150)], delay=3600)
    last = await app.enqueue(many, "the last")

    assert await drain(app) == 1
    assert (await app.jobs.get(last.id)).state.ended


async def test_a_worker_sees_what_is_behind_many_lanes_that_have_nothing_ready(app_with: AppWith) -> None:
    done: list[str] = []

    @pipeline("a-first", lane=lambda lane: lane)
    async def first(lane: str, _run: Run) -> None:
        done.append(lane)

    @pipeline("b-second", lane=lambda lane: lane)
    async def second(lane: str, _run: Run) -> None:
        done.append(lane)

    app = await app_with(first, second, poll_seconds=0.02)
    for line in (first, second):
        await app.enqueue_many(line, [f"lane-{number}" for number in range(100)], delay=3600)
    for line in (first, second):
        await app.enqueue_many(line, [f"lane-{number}" for number in range(40, 100)])
    async with working(app, at_once=10):
        await until(lambda: len(done) == 120)


async def test_an_idle_worker_does_not_look_without_rest(app_with: AppWith) -> None:
    @pipeline("many", lane=lambda lane: lane)
    async def many(_lane: str, _run: Run) -> None: ...

    app = await app_with(many)
    await app.enqueue_many(many, [f"lane-{number}" for number in range(150)], delay=3600)
    looks = 0

    async with working(app, at_once=4) as executor:
        claim = executor._claimer.claim

        async def counted(limit: int, **how: bool) -> Any:
            nonlocal looks
            looks += 1
            return await claim(limit, **how)

        executor._claimer.claim = counted  # type: ignore[method-assign]
        await asyncio.sleep(1.0)

    assert looks < 40, "nothing is ready in any lane: a few looks a second are enough"


async def test_priority_counts_before_turns(app_with: AppWith) -> None:
    done: list[str] = []

    @pipeline("urgent", lane=lambda lane: lane)
    async def urgent(lane: str, _run: Run) -> None:
        done.append(lane)

    app = await app_with(urgent)
    await app.enqueue_many(urgent, ["usual"] * 5)
    await app.enqueue_many(urgent, ["other"] * 5)
    await app.enqueue_many(urgent, ["urgent"] * 3, priority=-1)
    await drain(app, at_once=1)

    assert done[:3] == ["urgent"] * 3


# — limits —


def tracked(psql: psycopg.Connection, **options: Any) -> Pipeline[str, None]:
    """A pipeline whose jobs write down when they begin and when they end, in a table that only grows."""
    psql.execute("create table moments (lane text, job bigint, change int, at bigserial)")

    async def note(connection: psycopg.AsyncConnection[Any], lane: str, job: int, change: int) -> None:
        await connection.execute("insert into moments (lane, job, change) values (%s, %s, %s)", [lane, job, change])

    @pipeline("tracked", retry=Retry(attempts=1), **options)
    async def handler(lane: str, run: Run) -> None:
        await run.transact("begin", note, lane, run.job, 1)
        await asyncio.sleep(0.002)
        await run.transact("end", note, lane, run.job, -1)

    return handler


def overlap(psql: psycopg.Connection, *, after: int = 0) -> dict[str, int]:
    """The most jobs of each lane that ran at the same time."""
    running: Counter[str] = Counter()
    most: Counter[str] = Counter()
    for lane, change, at in psql.execute("select lane, change, at from moments order by at").fetchall():
        running[lane] += change
        if at > after:
            most[lane] = max(most[lane], running[lane])
    return dict(most)


async def test_no_more_jobs_of_a_lane_run_than_it_lets_whoever_runs_them(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    line = tracked(psql, lane=lambda lane: lane, lane_at_once=2)
    app = await app_with(line, poll_seconds=0.02)
    await app.enqueue_many(line, ["a", "b", "c"] * 25)
    async with working(app, at_once=8) as one, working(app, at_once=8) as other:
        await until(lambda: one.totals.completed + other.totals.completed == 75)

    most = overlap(psql)
    assert set(most) == {"a", "b", "c"}
    assert max(most.values()) <= 2
    assert psql.execute("select count(*), count(distinct job) from moments where change = 1").fetchone() == (75, 75)


async def test_a_lane_that_is_full_does_not_hold_up_the_others(app_with: AppWith) -> None:
    free = asyncio.Event()
    done: list[str] = []

    @pipeline("full", lane=lambda lane: lane)
    async def full(lane: str, _run: Run) -> None:
        if lane == "slow":
            await free.wait()
        done.append(lane)

    app = await app_with(full, poll_seconds=0.02)
    await app.queues.limit_lane("full", "slow", at_once=1)
    await app.enqueue_many(full, ["slow"] * 20)
    await app.enqueue_many(full, ["quick"] * 20)
    async with working(app, at_once=4):
        await until(lambda: done.count("quick") == 20)
        assert done.count("slow") == 0
        free.set()
        await until(lambda: done.count("slow") == 20)


async def test_a_full_lane_goes_on_as_soon_as_a_place_is_free(app_with: AppWith) -> None:
    done: list[int] = []

    @pipeline("full", lane=lambda _: "one", lane_at_once=1)
    async def full(number: int, _run: Run) -> None:
        done.append(number)

    app = await app_with(full, poll_seconds=60.0)
    await app.enqueue_many(full, range(50))
    async with working(app, at_once=4):
        await until(lambda: len(done) == 50)

    assert done == list(range(50))


async def test_a_place_is_free_again_however_its_job_ended(app_with: AppWith) -> None:
    @pipeline("endings", lane=lambda _: "one", lane_at_once=1, timeout=0.15, retry=Retry(attempts=2, wait=0.0))
    async def endings(how: str, run: Run) -> None:
        match how:
            case "fail":
                raise ValueError
            case "timeout":
                await asyncio.sleep(30)
            case "sleep":
                await run.sleep("nap", 3600)
            case "wait":
                await run.wait_for("answer", int)

    app = await app_with(endings)
    await app.enqueue_many(endings, ["fail", "timeout", "sleep", "wait", "complete"])
    await drain(app)
    await age(app, hours=2)
    await app.jobs.signal(4, "answer", 1)
    await drain(app)

    assert {job.id: job.state.value for job in await app.jobs.find()} == {
        1: "failed", 2: "failed", 3: "completed", 4: "completed", 5: "completed",
    }  # fmt: skip


async def test_a_limit_may_be_raised_while_jobs_run(app_with: AppWith, psql: psycopg.Connection) -> None:
    line = tracked(psql, lane=lambda lane: lane, lane_at_once=1)
    app = await app_with(line, poll_seconds=0.02)
    await app.enqueue_many(line, ["a"] * 60)
    async with working(app, at_once=8) as executor:
        await until(lambda: executor.totals.completed >= 5)
        assert overlap(psql) == {"a": 1}
        await app.queues.limit_lane("tracked", "a", at_once=4)
        await until(lambda: executor.totals.completed == 60)

    assert 1 < overlap(psql)["a"] <= 4


async def test_a_limit_may_be_lowered_while_jobs_run(app_with: AppWith) -> None:
    running = 0
    seen: list[int] = []
    gates = [asyncio.Event() for _ in range(3)]

    @pipeline("lowered", lane=lambda _: "one", lane_at_once=3)
    async def lowered(number: int, _run: Run) -> None:
        nonlocal running
        running += 1
        seen.append(running)
        if number < 3:
            await gates[number].wait()
        running -= 1

    app = await app_with(lowered, poll_seconds=0.02)
    await app.enqueue_many(lowered, range(6))
    async with working(app, at_once=8) as executor:
        await until(lambda: running == 3)
        await app.queues.limit_lane("lowered", "one", at_once=1)
        for gate in gates:
            gate.set()
            await asyncio.sleep(0.1)  # time enough for a job that should not begin yet
        await until(lambda: executor.totals.completed == 6)

    assert seen == [1, 2, 3, 1, 1, 1]


async def test_a_limit_may_be_lifted_and_set_again(app_with: AppWith, psql: psycopg.Connection) -> None:
    line = tracked(psql, lane=lambda lane: lane, lane_at_once=1)
    app = await app_with(line, poll_seconds=0.02)
    await app.queues.limit_lane("tracked", "a", at_once=None)
    await app.enqueue_many(line, ["a"] * 30)
    await drain(app, at_once=6)
    assert overlap(psql)["a"] > 1

    (last,) = psql.execute("select max(at) from moments").fetchone() or (0,)
    await app.queues.limit_lane("tracked", "a", at_once=2)
    await app.enqueue_many(line, ["a"] * 30)
    async with working(app, at_once=8) as executor:
        await until(lambda: executor.totals.completed == 30)
    assert overlap(psql, after=last)["a"] <= 2


async def test_a_lane_of_a_job_may_be_named_at_the_enqueue(app_with: AppWith) -> None:
    @pipeline("named", lane=lambda lane: lane)
    async def named(_lane: str, _run: Run) -> None: ...

    @pipeline("laneless")
    async def laneless(_: str, _run: Run) -> None: ...

    app = await app_with(named, laneless)
    usual = await app.enqueue(named, "usual")
    other = await app.enqueue(named, "usual", lane="other")
    given = await app.enqueue(laneless, "a", lane="given")
    none = await app.enqueue(laneless, "a")

    lanes = [(await app.jobs.get(receipt.id)).lane for receipt in (usual, other, given, none)]
    assert lanes == ["usual", "other", "given", None]
    assert await drain(app) == 4

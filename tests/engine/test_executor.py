"""An executor as it works in a worker: hints, fetching ahead, stopping, losing, and a database that goes away."""

import asyncio
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import psycopg
import pytest

from retoma import JobState, Retoma, Retry, Run, SyncRun, pipeline
from retoma.errors import LeaseLost
from retoma.model.job import AttemptEnding, Ended, NewCheckpoint
from retoma.postgres.dedicated import Line
from retoma.providers import Answer, Chat, Prompt, Usage
from retoma.store import jobs
from retoma.store.query import Query
from retoma.telemetry.events import DatabaseLost, Event, HintsUnheard, JobLost
from retoma.testing import drain
from retoma.testing.draining import an_executor
from retoma.values.fingerprints import checksum
from retoma.worker.executor import Executor

AppWith = Callable[..., Awaitable[Retoma]]


@asynccontextmanager
async def working(app: Retoma, *, at_once: int = 4, now: bool = False) -> AsyncIterator[Executor]:
    async with an_executor(app, at_once, None) as executor:
        running = asyncio.create_task(executor.run())
        yield executor
        executor.stop(now=now)
        async with asyncio.timeout(20):
            await running


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(20):
        while not condition():
            await asyncio.sleep(0.005)


# — taking —


@pytest.mark.skipif(sys.platform != "linux", reason="only there has a thread a niceness of its own")
@pytest.mark.parametrize("nice", [10, 0])
async def test_threads_that_compute_give_way_and_the_loop_that_claims_and_writes_does_not(
    app_with: AppWith, nice: int
) -> None:
    found: dict[str, int] = {}

    def look(where: str) -> None:
        found[where] = os.getpriority(os.PRIO_PROCESS, 0)

    @pipeline("computing")
    async def computing(_input: None, _run: Run) -> None:
        look("loop")
        await asyncio.to_thread(look, "step")

    @pipeline("plain")
    def plain(_input: None, _run: SyncRun) -> None:
        look("handler")

    here = os.getpriority(os.PRIO_PROCESS, 0)
    app = await app_with(computing, plain, worker_nice=nice)
    async with working(app):
        await app.enqueue(computing, None)
        await app.enqueue(plain, None)
        await until(lambda: len(found) == 3)

    further = min(here + nice, 19)
    assert found == {"loop": here, "step": further, "handler": further}


async def test_a_hint_wakes_an_executor_that_would_sleep_for_long(app_with: AppWith) -> None:
    done: list[int] = []

    @pipeline("hinted")
    async def hinted(number: int, _run: Run) -> None:
        done.append(number)

    app = await app_with(hinted, poll_seconds=3600.0)
    async with working(app):
        await app.enqueue(hinted, 1)
        await until(lambda: done == [1])
        for number in range(2, 12):
            await app.enqueue(hinted, number)
        await until(lambda: sorted(done) == list(range(1, 12)))


async def test_what_was_taken_begins_before_more_is_asked_for_and_once_nothing_is_left_it_rests(
    app_with: AppWith, monkeypatch: pytest.MonkeyPatch
) -> None:
    order: list[str] = []

    @pipeline("begun")
    async def begun(number: int, _run: Run) -> None:
        order.append(f"begun {number}")

    app = await app_with(begun, poll_seconds=3600.0)
    async with working(app) as executor:
        ask = Line.all

        async def noted(line: Line, query: Query[Any]) -> list[Any]:
            if query.sql == jobs.SQL["claim"]:
                order.append("claim")
            return await ask(line, query)

        await app.enqueue(begun, 1)
        await until(lambda: executor.totals.completed == 1)
        await asyncio.sleep(0.5)  # by now it listens, and has seen that there is no more
        order.clear()
        monkeypatch.setattr(Line, "all", noted)
        await app.enqueue(begun, 2)
        await until(lambda: executor.totals.completed == 2)
        await asyncio.sleep(0.5)

    assert order == ["claim", "begun 2", "claim"]


async def test_without_hints_an_executor_looks_by_itself(app_with: AppWith, heard: list[Event]) -> None:
    done: list[int] = []

    @pipeline("polled")
    async def polled(number: int, _run: Run) -> None:
        done.append(number)

    app = await app_with(polled, pooler="transaction", poll_seconds=0.05)
    async with working(app):
        await app.enqueue(polled, 1)
        await until(lambda: done == [1])
        await app.enqueue(polled, 2)
        await until(lambda: done == [1, 2])

    assert any(isinstance(event, HintsUnheard) for event in heard)


async def test_a_job_whose_hour_comes_is_taken_without_a_hint(app_with: AppWith) -> None:
    done: list[int] = []

    @pipeline("later")
    async def later(number: int, _run: Run) -> None:
        done.append(number)

    app = await app_with(later, poll_seconds=0.05)
    async with working(app):
        await app.enqueue(later, 1, delay=0.2)
        await until(lambda: done == [1])


async def test_short_jobs_are_fetched_ahead_and_long_ones_are_not(app_with: AppWith) -> None:
    gate = asyncio.Event()
    held: list[int] = []

    @pipeline("long")
    async def long(number: int, _run: Run) -> None:
        held.append(number)
        await gate.wait()

    app = await app_with(long)
    await app.enqueue_many(long, range(50))
    async with working(app, at_once=3) as executor:
        await until(lambda: len(held) == 3)
        await asyncio.sleep(0.3)
        assert executor.totals.claimed == 3, "another worker may want the rest"
        gate.set()
        await until(lambda: len(held) == 50)


async def test_no_more_than_at_once_run_at_the_same_time(app_with: AppWith) -> None:
    running, most = 0, 0

    @pipeline("counted")
    async def counted(_: int, run: Run) -> None:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await run.step("breathe", asyncio.sleep, 0.001)
        running -= 1

    app = await app_with(counted)
    await app.enqueue_many(counted, range(200))
    async with working(app, at_once=3) as executor:
        await until(lambda: executor.totals.completed == 200)

    assert most == 3


# — stopping —


async def test_a_drain_finishes_the_step_at_hand_and_hands_back_the_rest(app_with: AppWith) -> None:
    begun = asyncio.Event()
    gate = asyncio.Event()

    async def wait() -> str:
        begun.set()
        await gate.wait()
        return "done"

    @pipeline("steps", retry=Retry(attempts=1))
    async def steps(_: None, run: Run) -> str:
        first = await run.step("one", wait)
        await run.step("two", str.upper, first)
        return first

    app = await app_with(steps)
    receipts = await app.enqueue_many(steps, [None, None])
    async with working(app, at_once=1) as executor:
        await begun.wait()
        executor.stop()
        gate.set()

    first, second = [await app.jobs.get(receipt.id) for receipt in receipts]
    assert (first.state, first.attempt, first.reason) == (JobState.QUEUED, 0, "draining")
    assert [each.step for each in await app.jobs.checkpoints(first.id)] == ["one"], "what was paid for is kept"
    assert (second.state, second.attempt) == (JobState.QUEUED, 0)
    assert [each.ending for each in await app.jobs.attempts(first.id)] == ["released"]
    gate.set()
    assert await drain(app) == 2
    assert [each.step for each in await app.jobs.checkpoints(first.id)] == ["one", "two"]


async def test_a_stop_now_does_not_wait_for_the_step(app_with: AppWith) -> None:
    begun = asyncio.Event()

    async def wait() -> None:
        begun.set()
        await asyncio.sleep(60)

    @pipeline("steps", retry=Retry(attempts=1))
    async def steps(_: None, run: Run) -> None:
        await run.step("endless", wait)

    app = await app_with(steps)
    receipt = await app.enqueue(steps, None)
    async with working(app, now=True):
        await begun.wait()

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.attempt) == (JobState.QUEUED, 0)


async def test_a_job_that_is_stopped_before_its_handler_began_is_handed_back(app_with: AppWith) -> None:
    begun: list[int] = []

    @pipeline("quick")
    async def quick(number: int, _run: Run) -> None:
        begun.append(number)

    app = await app_with(quick)
    receipt = await app.enqueue(quick, 1)
    async with an_executor(app, 1, None) as executor:
        executor._ready.extend(await executor._claimer.claim(1))
        executor._start()
        executor.stop(now=True)  # in the same turn of the loop: its task has not run yet
        await asyncio.sleep(0.1)
        await executor.journal.settled()

        assert executor._running == {}, "it would never come to an end"
        job = await app.jobs.get(receipt.id)
        assert (job.state, job.attempt) == (JobState.QUEUED, 0)


async def test_jobs_that_were_fetched_ahead_go_back_untouched(app_with: AppWith) -> None:
    @pipeline("quick")
    async def quick(_: int, _run: Run) -> None:
        await asyncio.sleep(0)

    app = await app_with(quick)
    await app.enqueue_many(quick, range(3_000))
    async with working(app, at_once=10) as executor:
        await until(lambda: executor.totals.completed > 300)

    left = await app.jobs.find(state="queued", limit=3_000)
    assert {job.attempt for job in left} == {0}
    assert len(left) + len(await app.jobs.find(state="completed", limit=3_000)) == 3_000


# — cancelling and losing —


async def test_a_job_that_waits_here_is_cancelled_before_it_begins(app_with: AppWith) -> None:
    gate = asyncio.Event()
    begun: list[int] = []

    @pipeline("held")
    async def held(number: int, _run: Run) -> None:
        begun.append(number)
        await gate.wait()

    app = await app_with(held)
    receipts = await app.enqueue_many(held, range(3))
    async with an_executor(app, 1, None) as executor:
        executor._ready.extend(await executor._claimer.claim(3))
        executor._start()
        await app.jobs.cancel(receipts[2].id)
        executor.call_off(receipts[2].id, 1, AttemptEnding.CANCELLED)
        gate.set()
        await executor.drain()

    assert begun == [0, 1]
    assert (await app.jobs.get(receipts[2].id)).state is JobState.CANCELLED


async def test_the_ending_of_a_job_that_was_given_to_another_is_dropped(
    app_with: AppWith, psql: psycopg.Connection, heard: list[Event]
) -> None:
    @pipeline("late")
    async def late(_: None, _run: Run) -> str:
        psql.execute("update retoma.jobs set fence = fence + 1")
        return "stale"

    app = await app_with(late)
    receipt = await app.enqueue(late, None)
    async with an_executor(app, 1, None) as executor:
        await executor.drain()
        assert (await app.jobs.get(receipt.id)).output is None
        assert executor.totals.completed == 0

    assert [event.job for event in heard if isinstance(event, JobLost)] == [receipt.id]


async def test_an_executor_that_is_cut_off_begins_no_step_and_takes_no_job(app_with: AppWith) -> None:
    paid: list[int] = []

    @pipeline("cut-off")
    async def cut_off(_: None, run: Run) -> None:
        executor.board.beat = time.monotonic() - 61
        await run.step("pay", paid.append, 1)

    app = await app_with(cut_off, lease_seconds=60.0)
    await app.enqueue(cut_off, None)
    async with working(app, at_once=1) as executor:
        await until(lambda: executor.totals.claimed > 0)
        await asyncio.sleep(0.3)

        assert paid == []
        assert executor.totals.claimed == 1, "what it takes, it could not keep"


async def test_a_worker_that_was_given_up_for_lost_takes_nothing_more(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    @pipeline("quick")
    async def quick(_: int, _run: Run) -> None: ...

    app = await app_with(quick)
    await app.enqueue(quick, 1)
    async with an_executor(app, 1, None) as executor:
        psql.execute("update retoma.workers set stopped_at = now()")
        await executor.drain()
        assert executor.totals.claimed == 0


async def test_a_plain_handler_that_waits_is_woken_when_it_is_cancelled(app_with: AppWith) -> None:
    asked, heard, answers = threading.Event(), [], []

    class Slow:
        provider, model = "slow", "clerk"

        async def chat(self, _prompt: Prompt, *, timeout: float) -> Answer:
            asked.set()
            await asyncio.sleep(0.5)
            answers.append(timeout)
            return Answer(raw="late", text="late", model="clerk", usage=Usage())

    @pipeline("patient")
    def patient(_: None, run: SyncRun, *, chat: Chat) -> str:
        try:
            return run.ask("question", chat, "why?")
        except Exception:
            heard.append("an error")
            raise
        finally:
            heard.append("stopped")

    app = await app_with(patient, providers={Chat: Slow()})
    receipt = await app.enqueue(patient, None)
    async with working(app) as executor:
        await until(asked.is_set)
        await app.jobs.cancel(receipt.id)
        executor.call_off(receipt.id, 1, AttemptEnding.CANCELLED)
        await until(lambda: not executor._running)
        assert answers == [], "it did not wait for the answer"

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.reason) == (JobState.CANCELLED, "person")
    assert heard == ["stopped"], "an except Exception lets it pass"
    assert [call.state for call in await app.calls.find()] == ["answered"], (
        "what is paid for is written down all the same"
    )


async def test_a_plain_handler_past_its_time_is_woken_and_tried_again(app_with: AppWith) -> None:
    begun: list[int] = []

    class Deaf:
        provider, model = "deaf", "clerk"

        async def chat(self, _prompt: Prompt, *, timeout: float) -> Answer:
            begun.append(1)
            if len(begun) == 1:
                await asyncio.sleep(min(timeout, 5.0))
            return Answer(raw="yes", text="yes", model="clerk", usage=Usage())

    @pipeline("hurried", timeout=2, retry=Retry(attempts=2, wait=0.01))
    def hurried(number: int, run: SyncRun, *, chat: Chat) -> str:
        return run.ask("question", chat, f"{number}, attempt {run.attempt}?")

    app = await app_with(hurried, providers={Chat: Deaf()}, poll_seconds=0.05)
    receipt = await app.enqueue(hurried, 1)
    async with working(app, now=True) as executor:
        await until(lambda: executor.totals.completed == 1)

    assert [(each.ending, each.reason) for each in await app.jobs.attempts(receipt.id)] == [
        ("failed", "timeout"),
        ("completed", None),
    ]


# — a database that goes away —


def cut_connections(psql: psycopg.Connection) -> int:
    """How many there were."""
    return psql.execute(
        "select pg_terminate_backend(pid) from pg_stat_activity"
        " where pid <> pg_backend_pid() and datname = current_database() and application_name = 'retoma'"
    ).rowcount


async def test_work_goes_on_when_every_connection_was_cut(app_with: AppWith, psql: psycopg.Connection) -> None:
    effects: list[int] = []

    @pipeline("steady", retry=Retry(attempts=1))
    async def steady(number: int, run: Run) -> int:
        await run.step("one", asyncio.sleep, 0.002)
        effects.append(await run.step("two", lambda: number))
        return number

    app = await app_with(steady, poll_seconds=0.05)
    await app.enqueue_many(steady, range(150))
    async with working(app, at_once=8) as executor:
        for cut in range(1, 4):
            await until(lambda cut=cut: executor.totals.completed >= 30 * cut)  # type: ignore[misc]
            await until(lambda: cut_connections(psql) > 0)
        await until(lambda: executor.totals.completed == 150)

    assert sorted(effects) == list(range(150))
    states = psql.execute("select state, count(*) from retoma.jobs group by 1").fetchall()
    assert states == [("completed", 150)]
    assert psql.execute("select count(*), max(generation) from retoma.checkpoints").fetchone() == (300, 1)


async def test_what_a_claim_took_is_not_lost_with_its_answer(app_with: AppWith, heard: list[Event]) -> None:
    @pipeline("quick")
    async def quick(_: int, _run: Run) -> None: ...

    app = await app_with(quick)
    await app.enqueue_many(quick, range(5))
    async with an_executor(app, 5, None) as executor:
        ask = executor.database.all
        lost = []

        async def all_but_the_answer(query: Query[Any]) -> list[Any]:
            rows = await ask(query)
            if query.sql == jobs.SQL["claim"] and not lost:
                lost.append(rows)
                raise psycopg.OperationalError("the answer was lost")
            return rows

        executor.database.all = all_but_the_answer  # type: ignore[method-assign]
        await executor.drain()

        assert len(lost[0]) == 5
        assert executor.totals.completed == 5
    assert {job.attempt for job in await app.jobs.find()} == {1}
    assert [event.doing for event in heard if isinstance(event, DatabaseLost)] == ["claiming"]


@pytest.mark.parametrize("statement", ["save", "end"])
async def test_what_was_written_is_not_written_twice_when_the_answer_is_lost(
    app_with: AppWith, psql: psycopg.Connection, statement: str
) -> None:
    @pipeline("quick")
    async def quick(number: int, run: Run) -> int:
        return await run.step("double", lambda: 2 * number)

    app = await app_with(quick)
    await app.enqueue_many(quick, range(5))
    async with an_executor(app, 5, None) as executor:
        ask = executor.database.all
        lost = []

        async def all_but_the_answer(query: Query[Any]) -> list[Any]:
            rows = await ask(query)
            if (
                not lost
                and query.sql.startswith("--")
                and (
                    "insert into retoma.checkpoints" in query.sql
                    if statement == "save"
                    else query.sql == jobs.SQL["end_alone"]
                )
            ):
                lost.append(rows)
                raise psycopg.OperationalError("the answer was lost")
            return rows

        executor.database.all = all_but_the_answer  # type: ignore[method-assign]
        await executor.drain()

        assert lost
        assert executor.totals.completed == 5
    assert psql.execute("select count(*), max(generation) from retoma.checkpoints").fetchone() == (5, 1)
    assert psql.execute("select count(*) from retoma.attempts").fetchone() == (5,)


async def test_two_holders_of_a_job_here_do_not_wait_for_each_others_words(app_with: AppWith) -> None:
    @pipeline("twice")
    async def twice(_: None, _run: Run) -> None: ...

    app = await app_with(twice)
    receipt = await app.enqueue(twice, None)
    async with an_executor(app, 1, None) as executor:
        [stale] = await executor._claimer.claim(1)
        executor.journal.end(Ended(stale, "released"))
        await executor.journal.settled()
        [held] = await executor._claimer.claim(1)
        saves = [
            executor.journal.save(NewCheckpoint(claim.id, claim.fence, "one", "1", checksum("1"), "int", None, 0.0))
            for claim in (stale, held, stale)
        ]
        async with asyncio.timeout(10):
            first, second, third = await asyncio.gather(*saves, return_exceptions=True)
        assert isinstance(first, LeaseLost)
        assert second is None
        assert isinstance(third, LeaseLost)
        for claim, ending in ((held, "completed"), (stale, "failed")):
            executor.journal.end(Ended(claim, ending, output="1"))
        await executor.journal.settled()

    assert (await app.jobs.get(receipt.id)).state is JobState.COMPLETED
    assert [each.step for each in await app.jobs.checkpoints(receipt.id)] == ["one"]


# — the board —


async def test_the_earliest_deadline_of_the_steps_under_way_is_on_the_board(app_with: AppWith) -> None:
    notes: list[tuple[str | None, bool]] = []

    def rest(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    @pipeline("siblings", timeout=100, step_timeout=20)
    async def siblings(_: None, run: Run) -> None:
        long = asyncio.create_task(run.step("long", rest, 0.5))
        await asyncio.sleep(0.1)
        due = executor.board.notes()[0].deadline
        for number in range(3):
            await run.step(f"short/{number}", rest, 0.01)
            (note,) = executor.board.notes()
            notes.append((note.step, note.deadline == due))
        await long
        (note,) = executor.board.notes()
        notes.append((note.step, note.deadline > due + 60))

    app = await app_with(siblings)
    await app.enqueue(siblings, None)
    async with an_executor(app, 1, None) as executor:
        await executor.drain()

    assert notes == [("long", True)] * 3 + [("short/2", True)]


async def test_what_the_policy_says_of_a_time_out_is_on_the_board(app_with: AppWith) -> None:
    notes: list[float | None] = []

    @pipeline("again", retry=Retry(attempts=3, wait=7, jitter=0))
    async def again(_: None, _run: Run) -> None:
        notes.extend(note.again for note in executor.board.notes())

    @pipeline("never", retry=Retry(attempts=3, never=(TimeoutError,)))
    async def never(_: None, _run: Run) -> None:
        notes.extend(note.again for note in executor.board.notes())

    app = await app_with(again, never)
    async with an_executor(app, 1, None) as executor:
        for each in (again, never):
            await app.enqueue(each, None)
            await executor.drain()

    assert notes == [7.0, None]


async def test_the_board_says_what_is_being_done(app_with: AppWith) -> None:
    notes = []

    @pipeline("noted", timeout=50)
    async def noted(_: None, run: Run) -> None:
        async def look() -> None:
            notes.extend(executor.board.notes())

        await look()
        await run.step("chapter/1", look)

    @pipeline("noted-plainly", timeout=50, step_timeout=9)
    def noted_plainly(_: None, run: SyncRun) -> None:
        run.step("plain", lambda: notes.extend(executor.board.notes()))

    app = await app_with(noted, noted_plainly)
    first = await app.enqueue(noted, None)
    async with an_executor(app, 2, None) as executor:
        await executor.drain()
        second = await app.enqueue(noted_plainly, None)
        await executor.drain()
        assert executor.board.notes() == []

    assert [(note.job, note.fence, note.step) for note in notes] == [
        (first.id, 1, None),
        (first.id, 1, "chapter/1"),
        (second.id, 1, "plain"),
    ]
    now = time.monotonic()
    assert 30 < notes[1].deadline - now <= 50
    assert notes[2].deadline - now <= 9

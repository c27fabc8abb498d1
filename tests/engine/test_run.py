"""An attempt, from claimed to ended: every way a handler may go."""

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import psycopg
import pytest

from retoma import Job, JobState, Pipeline, Postpone, Reject, Retoma, Retry, Review, Run, Skip, SyncRun, pipeline
from retoma.errors import Conflict, NotFound
from retoma.model import compat
from retoma.telemetry.events import AttemptEnded, AttemptStarted, Event
from retoma.testing import age, drain
from retoma.testing.draining import an_executor

AppWith = Callable[..., Awaitable[Retoma]]
AT_ONCE_AGAIN = Retry(attempts=3, wait=0.0)


class Broken(Exception):
    """What a handler raises in these tests."""


async def ended(app: Retoma, line: Pipeline[Any, Any], input: Any = None, **options: Any) -> Job:
    """The job, after everything that was ready has run."""
    receipt = await app.enqueue(line, input, **options)
    await drain(app)
    return await app.jobs.get(receipt.id)


# — what a run says of itself —


async def test_a_run_knows_its_job(app_with: AppWith) -> None:
    @pipeline("self")
    async def self_aware(_: None, run: Run) -> list[Any]:
        return [run.job, run.key, run.attempt, run.batch, run.correlation_id, run.token]

    @pipeline("plain-self")
    def plainly_self_aware(_: None, run: SyncRun) -> list[Any]:
        return [run.job, run.key, run.attempt, run.batch, run.correlation_id, run.token]

    app = await app_with(self_aware, plainly_self_aware)
    for line in (self_aware, plainly_self_aware):
        job = await ended(app, line, key="mine", correlation_id="request-7")

        assert await app.jobs.output(line, job.id) == [job.id, "mine", 1, None, "request-7", f"{job.id}:1"]


async def test_a_handler_gets_what_it_asked_for(app_with: AppWith) -> None:
    class Chat:
        def ask(self, question: str) -> str:
            return f"{question}!"

    @pipeline("asking")
    async def asking(question: str, _run: Run, *, chat: Chat, loud: bool = True) -> str:
        return chat.ask(question).upper() if loud else chat.ask(question)

    app = await app_with(asking, providers={Chat: Chat()})
    job = await ended(app, asking, "why")

    assert await app.jobs.output(asking, job.id) == "WHY!"


async def test_an_attempt_is_told_from_beginning_to_end(app_with: AppWith, heard: list[Event]) -> None:
    @pipeline("told", retry=AT_ONCE_AGAIN)
    async def told(_: None, run: Run) -> None:
        if run.attempt == 1:
            raise Broken("first\nsecond line")

    job = await ended(await app_with(told), told, correlation_id="c")

    events = [event for event in heard if isinstance(event, AttemptStarted | AttemptEnded)]
    assert [type(event).__name__ for event in events] == ["AttemptStarted", "AttemptEnded"] * 2
    first = events[1]
    assert isinstance(first, AttemptEnded)
    assert (first.job, first.state, first.ending, first.reason) == (job.id, "queued", "failed", "Broken")
    assert (first.error, first.correlation) == ("Broken: first", "c")


# — endings —


@pipeline("ending", retry=AT_ONCE_AGAIN)
async def ending(how: str, run: Run) -> str:  # noqa: C901 - every way, in one place
    def end(_: int = 0) -> None:
        match how.partition("/")[0]:
            case "skip":
                raise Skip("already classified")
            case "reject":
                raise Reject("the PDF is encrypted")
            case "review":
                raise Review({"label": "petition"}, "confidence below 0.6")
            case "postpone":
                raise Postpone("provider is busy", minutes=10)

    match how.partition("/")[2]:
        case "step":
            await run.step("end", end)
        case "map":
            await run.map("end", end, [1, 2])
        case "group":
            async with asyncio.TaskGroup() as group:
                group.create_task(run.step("end", end))
        case "swallow":
            try:
                end()
            except Exception:  # noqa: BLE001 - an ending is not an Exception
                return "swallowed"
        case _:
            end()
    return "not reached"


@pipeline("plain-ending", retry=AT_ONCE_AGAIN)
def plain_ending(how: str, run: SyncRun) -> str:
    def end(_: int = 0) -> None:
        match how.partition("/")[0]:
            case "skip":
                raise Skip("already classified")
            case "reject":
                raise Reject("the PDF is encrypted")
            case "review":
                raise Review({"label": "petition"}, "confidence below 0.6")
            case "postpone":
                raise Postpone("provider is busy", minutes=10)

    if how.endswith("/step"):
        run.step("end", end)
    elif how.endswith("/map"):
        run.map("end", end, [1, 2])
    end()
    return "not reached"


ENDINGS = {
    "skip": (JobState.SKIPPED, "already classified", None, None, 1),
    "reject": (JobState.FAILED, "rejected", None, "the PDF is encrypted", 1),
    "review": (JobState.REVIEW, "confidence below 0.6", '{"label":"petition"}', None, 1),
    "postpone": (JobState.QUEUED, "provider is busy", None, None, 0),
}


@pytest.mark.parametrize(
    ("line", "places"),
    [(ending, ["", "/step", "/map", "/group", "/swallow"]), (plain_ending, ["", "/step", "/map"])],
    ids=["async", "plain"],
)
async def test_an_ending_is_heard_from_anywhere_below_the_handler(
    app_with: AppWith, line: Pipeline[str, str], places: list[str]
) -> None:
    app = await app_with(line)
    hows = [how + where for how in ENDINGS for where in places]
    await app.enqueue_many(line, hows)
    await drain(app)

    seen = {
        json.loads(job.input): (job.state, job.reason, job.output, job.error, job.attempt)
        for job in await app.jobs.find()
    }
    assert seen == {how: ENDINGS[how.partition("/")[0]] for how in hows}


async def test_what_is_postponed_comes_back_in_its_time_at_no_cost(app_with: AppWith) -> None:
    @pipeline("later", retry=Retry(attempts=1))
    async def later(_: None, run: Run) -> str:
        if not await run.step("look", lambda: True) or len(await app.jobs.attempts(run.job)) < 3:
            raise Postpone(minutes=10)
        return "at last"

    app = await app_with(later)
    job = await ended(app, later)
    for _ in range(3):
        assert (await app.jobs.get(job.id)).state is JobState.QUEUED
        await age(app, job, minutes=11)
        await drain(app)

    assert await app.jobs.output(later, job.id) == "at last"
    assert [attempt.attempt for attempt in await app.jobs.attempts(job.id)] == [1, 1, 1, 1]


async def test_what_is_postponed_until_an_hour_waits_for_it(app_with: AppWith) -> None:
    hour = datetime.now(UTC) + timedelta(hours=3)

    @pipeline("later")
    async def later(_: None, _run: Run) -> None:
        raise Postpone(until=hour)

    job = await ended(await app_with(later), later)

    assert (job.state, job.run_at) == (JobState.QUEUED, hour)


async def test_a_proposal_that_cannot_be_kept_fails_and_says_so(app_with: AppWith) -> None:
    @pipeline("proposal", retry=AT_ONCE_AGAIN)
    async def proposal(_: None, _run: Run) -> None:
        raise Review(float("nan"), "look")

    job = await ended(await app_with(proposal), proposal)

    assert (job.state, job.reason, job.attempt) == (JobState.FAILED, "unstorable", 1)


# — failures —


async def test_a_failure_is_tried_again_after_a_while_and_then_no_more(app_with: AppWith) -> None:
    @pipeline("failing", retry=Retry(attempts=3, wait=100.0, factor=2.0, jitter=0.0))
    async def failing(_: None, run: Run) -> None:
        raise Broken(f"attempt {run.attempt}")

    app = await app_with(failing)
    job = await ended(app, failing)
    waits = []
    for _ in range(2):
        now = await app.jobs.get(job.id)
        assert now.claimed_at is not None
        waits.append(round((now.run_at - now.claimed_at).total_seconds(), -1))
        assert (now.state, now.reason) == (JobState.QUEUED, "Broken")
        await age(app, job, minutes=1)
        assert await drain(app) == 0, "it is too early"
        await age(app, job, minutes=3)
        await drain(app)

    now = await app.jobs.get(job.id)
    assert (now.state, now.attempt, now.reason) == (JobState.FAILED, 3, "Broken")
    assert now.error is not None
    assert now.error.startswith("Broken: attempt 3")
    assert "Traceback" in now.error
    assert waits == [100, 200]
    assert [(each.attempt, each.ending) for each in await app.jobs.attempts(job.id)] == [
        (1, "failed"),
        (2, "failed"),
        (3, "failed"),
    ]


async def test_retry_after_is_a_floor(app_with: AppWith) -> None:
    class Busy(Exception):
        retry_after = 500.0

    @pipeline("busy", retry=Retry(attempts=2, wait=1.0))
    async def busy(_: None, _run: Run) -> None:
        raise Busy

    job = await ended(await app_with(busy), busy)

    assert job.claimed_at is not None
    assert (job.run_at - job.claimed_at).total_seconds() >= 500


async def test_what_is_never_to_be_retried_is_not(app_with: AppWith) -> None:
    @pipeline("never", retry=Retry(attempts=3, wait=0.0, never=(KeyError,)))
    async def never(_: None, _run: Run) -> None:
        raise KeyError("no such thing")

    job = await ended(await app_with(never), never)

    assert (job.state, job.attempt) == (JobState.FAILED, 1)


@pytest.mark.parametrize("error", [SystemExit(3), KeyboardInterrupt()], ids=repr)
async def test_a_handler_that_wants_to_end_the_process_ends_only_its_job(
    app_with: AppWith, error: BaseException
) -> None:
    @pipeline("exiting")
    async def exiting(_: None, _run: Run) -> None:
        raise error

    @pipeline("exiting-plainly")
    def exiting_plainly(_: None, _run: SyncRun) -> None:
        raise error

    app = await app_with(exiting, exiting_plainly)
    for line in (exiting, exiting_plainly):
        job = await ended(app, line)

        assert (job.state, job.reason) == (JobState.FAILED, type(error).__name__)


@pytest.mark.timeout(20)
async def test_a_handler_that_waits_for_something_cancelled_has_failed(app_with: AppWith) -> None:
    @pipeline("cancelling", retry=Retry(attempts=2, wait=0.0))
    async def cancelling(_: None, _run: Run) -> None:
        waiting = asyncio.ensure_future(asyncio.sleep(30))
        waiting.cancel()
        await waiting

    app = await app_with(cancelling)
    receipt = await app.enqueue(cancelling, None)
    async with asyncio.timeout(10):
        await drain(app)

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.attempt) == (JobState.FAILED, 2), "given back at no cost it would run for ever"


async def test_an_error_with_strange_or_endless_words_is_kept(app_with: AppWith) -> None:
    @pipeline("strange", retry=Retry(attempts=1))
    async def strange(_: None, _run: Run) -> None:
        raise Broken("nul \0 half \ud83d " + "x" * 100_000)

    job = await ended(await app_with(strange), strange)

    assert job.state is JobState.FAILED
    assert job.error is not None
    assert job.error.startswith("Broken: nul")
    assert len(job.error) <= 20_000


@pytest.mark.timeout(20)
async def test_whatever_a_handler_raises_its_job_ends(app_with: AppWith) -> None:
    class Mute(Exception):
        def __str__(self) -> str:
            raise RuntimeError("no words")

    class Busy(Exception):
        def __init__(self, retry_after: Any) -> None:
            self.retry_after = retry_after

    class Rude(Exception):
        @property
        def retry_after(self) -> float:
            raise RuntimeError("no answer")

    strange: dict[str, BaseException] = {
        "mute": Mute(),
        "rude": Rude(),
        "text": Busy("30"),
        "date": Busy("Wed, 21 Oct 2026 07:28:00 GMT"),
        "span": Busy(timedelta(minutes=5)),
        "infinite": Busy(float("inf")),
        "not a number": Busy(float("nan")),
        "negative": Busy(-1),
        "endless": Busy(10**300),
        "review": Review(object(), "look"),
        "connection": Review(asyncio.Lock(), "look"),
        "half": Skip("half a character: \ud83d, and a nul: \0"),
        "half rejected": Reject("half a character: \ud83d, and a nul: \0"),
        "half postponed": Postpone("half a character: \ud83d, and a nul: \0", hours=1),
        "half reviewed": Review("a", "half a character: \ud83d, and a nul: \0"),
        "group": BaseExceptionGroup("all", [Mute(), SystemExit(1)]),
    }

    @pipeline("strange", retry=Retry(attempts=2, wait=1.0))
    async def raising(what: str, _run: Run) -> None:
        raise strange[what]

    app = await app_with(raising)
    await app.enqueue_many(raising, strange)
    async with an_executor(app, 4, None) as executor:
        await executor.drain()
        jobs = {json.loads(job.input): job for job in await app.jobs.find()}

    assert {what: job.state.value for what, job in jobs.items() if job.state is JobState.RUNNING} == {}
    assert {what: job.state.value for what, job in jobs.items() if job.state is not JobState.QUEUED} == {
        "review": "failed",
        "connection": "failed",
        "half": "skipped",
        "half rejected": "failed",
        "half reviewed": "review",
        "group": "failed",
    }
    waits = {what: (job.run_at - job.claimed_at).total_seconds() for what, job in jobs.items() if job.claimed_at}
    assert 29 < waits["text"] < 40
    assert 299 < waits["span"] < 310
    assert waits["date"] < 10
    assert waits["infinite"] <= waits["endless"] <= 31 * 86_400
    assert jobs["half"].reason == "half a character: \ufffd, and a nul: \ufffd"


async def test_an_output_that_is_not_what_was_promised_is_refused(app_with: AppWith) -> None:
    @pipeline("liar", retry=AT_ONCE_AGAIN)
    async def liar(_: None, _run: Run) -> int:
        return "one"  # type: ignore[return-value]

    job = await ended(await app_with(liar), liar)

    assert (job.state, job.attempt, job.reason) == (JobState.FAILED, 1, "Unstorable")


async def test_an_input_that_no_longer_fits_is_rejected(app_with: AppWith, psql: psycopg.Connection) -> None:
    @pipeline("number", retry=AT_ONCE_AGAIN)
    async def number(value: int, _run: Run) -> int:
        return value

    app = await app_with(number)
    receipt = await app.enqueue(number, 1)
    psql.execute("""update retoma.jobs set input = '{"old": "shape"}'""")
    await drain(app)

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.attempt, job.reason) == (JobState.FAILED, 1, "rejected")


# — time —


async def test_an_async_handler_is_held_to_its_time(app_with: AppWith) -> None:
    @pipeline("slow", timeout=0.2, retry=Retry(attempts=2, wait=0.0))
    async def slow(_: None, run: Run) -> None:
        await run.step("first", int)
        await run.step("endless", asyncio.sleep, 30)

    app = await app_with(slow)
    job = await ended(app, slow)

    assert (job.state, job.reason, job.attempt) == (JobState.FAILED, "timeout", 2)
    assert job.error == "The handler took longer than 0.2 s and was stopped in step 'endless'."
    assert [(each.ending, each.step) for each in await app.jobs.attempts(job.id)] == [("failed", "endless")] * 2


async def test_the_time_of_one_job_may_be_its_own(app_with: AppWith) -> None:
    @pipeline("slow", timeout=60, retry=Retry(attempts=1))
    async def slow(_: None, _run: Run) -> None:
        await asyncio.sleep(30)

    job = await ended(await app_with(slow), slow, timeout=0.1)

    assert (job.state, job.reason) == (JobState.FAILED, "timeout")


async def test_a_plain_handler_that_is_past_its_time_begins_no_further_step(app_with: AppWith) -> None:
    begun = []

    @pipeline("slow", timeout=0.2, retry=Retry(attempts=1))
    def slow(_: None, run: SyncRun) -> None:
        run.step("one", time.sleep, 0.5)
        run.step("two", begun.append, 2)

    job = await ended(await app_with(slow), slow)

    assert (job.state, job.reason) == (JobState.FAILED, "timeout")
    assert begun == []


# — cancelling —


async def test_a_waiting_job_is_cancelled_at_once(app_with: AppWith) -> None:
    done = []

    @pipeline("waiting")
    async def waiting(_: None, _run: Run) -> None:
        done.append(1)

    app = await app_with(waiting)
    receipt = await app.enqueue(waiting, None)
    job = await app.jobs.cancel(receipt.id, reason="not needed")
    again = await app.jobs.cancel(receipt.id)
    await drain(app)

    assert (job.state, job.reason) == (JobState.CANCELLED, "not needed")
    assert again.state is JobState.CANCELLED, "to cancel twice is no harm"
    assert done == []
    with pytest.raises(NotFound):
        await app.jobs.cancel(receipt.id + 1)


async def test_an_ended_job_cannot_be_cancelled(app_with: AppWith) -> None:
    @pipeline("quick")
    async def quick(_: None, _run: Run) -> None: ...

    app = await app_with(quick)
    job = await ended(app, quick)

    with pytest.raises(Conflict, match="is completed and cannot be cancelled"):
        await app.jobs.cancel(job.id)


async def test_a_running_handler_is_stopped_with_the_next_heartbeat(app_with: AppWith) -> None:
    stopped = asyncio.Event()

    @pipeline("endless")
    async def endless(_: None, run: Run) -> None:
        await app.jobs.cancel(run.job)
        try:
            await run.step("sleep", asyncio.sleep, 30)
        finally:
            stopped.set()

    app = await app_with(endless, heartbeat_seconds=0.05)
    job = await ended(app, endless)

    assert stopped.is_set()
    assert (job.state, job.reason) == (JobState.CANCELLED, "person")
    assert [each.ending for each in await app.jobs.attempts(job.id)] == ["cancelled"]


async def test_a_job_that_was_asked_to_stop_does_not_come_back(app_with: AppWith) -> None:
    @pipeline("failing", retry=AT_ONCE_AGAIN)
    async def failing(_: None, run: Run) -> None:
        await app.jobs.cancel(run.job)
        raise Broken

    app = await app_with(failing)
    job = await ended(app, failing)

    assert (job.state, job.attempt) == (JobState.CANCELLED, 1)


async def test_a_job_that_is_done_before_it_hears_the_request_has_completed(app_with: AppWith) -> None:
    @pipeline("quick")
    async def quick(_: None, run: Run) -> int:
        await app.jobs.cancel(run.job)
        return 1

    app = await app_with(quick)
    job = await ended(app, quick)

    assert job.state is JobState.COMPLETED


# — many at once —


async def test_twelve_plain_handlers_with_steps_do_not_wait_for_each_other(app_with: AppWith) -> None:
    def wait(seconds: float) -> float:
        time.sleep(seconds)
        return seconds

    @pipeline("plain")
    def plain(_: int, run: SyncRun) -> float:
        return sum(run.map("wait", wait, [0.01, 0.01])) + run.step("last", wait, 0.01)

    app = await app_with(plain)
    await app.enqueue_many(plain, range(24))

    assert await drain(app, at_once=12) == 24


async def test_plain_handlers_with_transactions_do_not_wait_for_each_other(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    psql.execute("create table numbers (number int)")

    def store(connection: psycopg.Connection[Any], number: int) -> int:
        connection.execute("insert into numbers values (%s)", [number])
        return number

    @pipeline("plain")
    def plain(number: int, run: SyncRun) -> int:
        return run.transact("store", store, number) + run.transact("again", store, -number)

    app = await app_with(plain)
    await app.enqueue_many(plain, range(12))

    assert await drain(app, at_once=12) == 12
    assert psql.execute("select count(*), sum(number) from numbers").fetchone() == (24, 0)


async def test_async_handlers_with_transactions_do_not_wait_for_each_other(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    psql.execute("create table numbers (number int)")

    async def store(connection: psycopg.AsyncConnection[Any], number: int) -> int:
        await connection.execute("insert into numbers values (%s)", [number])
        return number

    @pipeline("transact")
    async def transact(number: int, run: Run) -> int:
        return await run.transact("store", store, number) + await run.step("after", abs, number)

    app = await app_with(transact)
    await app.enqueue_many(transact, range(60))

    assert await drain(app, at_once=30) == 60
    assert psql.execute("select count(*) from numbers").fetchone() == (60,)


async def test_a_job_that_was_there_when_two_executors_died_runs_alone(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    running: set[int] = set()
    seen: dict[int, int] = {}

    @pipeline("suspect")
    async def suspect(number: int, _run: Run) -> None:
        running.add(number)
        for other in running:
            seen[other] = max(seen.get(other, 0), len(running))
        await asyncio.sleep(0.01)
        running.discard(number)

    app = await app_with(suspect)
    receipts = await app.enqueue_many(suspect, range(8))
    psql.execute("update retoma.jobs set crashes = 1 where id = %s", [receipts[1].id])
    psql.execute("update retoma.jobs set crashes = 2 where id = any (%s)", [[receipts[3].id, receipts[4].id]])
    await drain(app, at_once=4)

    assert sorted(seen) == list(range(8))
    assert (seen[3], seen[4]) == (1, 1)
    assert seen[1] > 1, "after one death it is like any other"


async def test_only_pipelines_that_are_known_here_are_taken(app_with: AppWith) -> None:
    @pipeline("known", queue="shared")
    async def known(_: None, _run: Run) -> None: ...

    @pipeline("unknown", queue="shared")
    async def unknown(_: None, _run: Run) -> None: ...

    app = await app_with(known)
    waiting = await app.enqueue(unknown, None)
    done = await app.enqueue(known, None)

    assert await drain(app) == 1
    assert (await app.jobs.get(done.id)).state is JobState.COMPLETED
    assert (await app.jobs.get(waiting.id)).state is JobState.QUEUED


async def test_what_a_worker_did_is_counted(app_with: AppWith) -> None:
    @pipeline("counted", retry=Retry(attempts=2, wait=0.0))
    async def counted(how: str, run: Run) -> None:
        if how == "fail" or (how == "retry" and run.attempt == 1):
            raise Broken
        if how == "skip":
            raise Skip("nothing to do")

    app = await app_with(counted, worker_label="ana")
    await app.enqueue_many(counted, ["complete", "skip", "fail", "retry"])

    assert await drain(app) == 4
    metrics = await app.workers.metrics("ana")
    assert (metrics.jobs_claimed, metrics.jobs_completed, metrics.jobs_failed, metrics.jobs_retried) == (6, 3, 1, 2)
    assert (metrics.jobs_recovered, metrics.stuck_job_count) == (0, 0)
    assert compat.figures(metrics).keys() == {
        "jobsClaimed", "jobsCompleted", "jobsFailed", "jobsRetried", "jobsRecovered", "avgJobDurationMs",
        "stuckJobCount",
    }  # fmt: skip


async def test_a_deep_recursion_in_a_handler_fails_only_its_job(app_with: AppWith) -> None:
    @pipeline("deep", retry=Retry(attempts=1))
    async def deep(_: None, _run: Run) -> int:
        def down(level: int) -> int:
            return down(level + 1)

        return down(0)

    job = await ended(await app_with(deep), deep)

    assert (job.state, job.reason) == (JobState.FAILED, "RecursionError")
    assert sys.getrecursionlimit() >= 1000


async def test_two_executors_never_run_the_same_job(app_with: AppWith) -> None:
    runs: list[int] = []

    @pipeline("once")
    async def once(number: int, run: Run) -> None:
        runs.append(number)
        await run.step("breathe", asyncio.sleep, 0)

    app = await app_with(once)
    await app.enqueue_many(once, range(300))
    async with an_executor(app, 5, None) as one, an_executor(app, 5, None) as other:
        await asyncio.gather(one.drain(), other.drain())
        shares = one.totals.completed, other.totals.completed

    assert sorted(runs) == list(range(300))
    assert sum(shares) == 300
    assert min(shares) > 0


async def test_a_transaction_whose_connection_is_cut_costs_no_attempt(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    cuts: list[int] = []

    async def write(connection: psycopg.AsyncConnection) -> int:
        if not cuts:
            cuts.append(1)
            psql.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
        await connection.execute("select 1")
        return 1

    @pipeline("cut", retry=Retry(attempts=1))
    async def cut(_: None, run: Run) -> int:
        return await run.transact("write", write)

    app = await app_with(cut)
    receipt = await app.enqueue(cut, None)
    await drain(app)
    handed_back = await app.jobs.get(receipt.id)
    await age(app, receipt.id, seconds=5)
    await drain(app)

    assert (handed_back.state, handed_back.reason, handed_back.attempt) == (JobState.QUEUED, "database", 0)
    assert (await app.jobs.get(receipt.id)).state == JobState.COMPLETED

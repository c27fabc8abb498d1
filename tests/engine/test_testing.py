"""The kit for users' tests: rehearse, drain, crash, age."""

import asyncio
import importlib.util
import os
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retoma import JobState, Postpone, Reject, Retoma, Retry, Review, Run, Settings, Skip, SyncRun, isolated, pipeline
from retoma.errors import ConfigurationError, Conflict, NotFound, RetomaError
from retoma.testing import age, crash, drain, rehearse

AppWith = Callable[..., Awaitable[Retoma]]
PROGRAM = Path(__file__).with_name("testing_program.py")


@dataclass(frozen=True)
class Chapter:
    number: int
    text: str


@dataclass(frozen=True)
class Summary:
    number: int
    text: str


class Chat:
    def __init__(self) -> None:
        self.asked: list[str] = []

    async def ask(self, question: str) -> str:
        self.asked.append(question)
        return f"about {question}"


@pipeline("summarize-book")
async def summarize(book: str, run: Run, *, chat: Chat) -> list[Summary]:
    async def summary_of(chapter: Chapter) -> Summary:
        return Summary(chapter.number, await chat.ask(chapter.text))

    def split(text: str) -> list[Chapter]:
        return [Chapter(number, part) for number, part in enumerate(text.split(), start=1)]

    chapters = await run.step("split", split, book)
    return await run.map("chapter", summary_of, chapters, key=lambda chapter: chapter.number)


@isolated(seconds=20, megabytes=512)
def process_of(_text: str) -> int:
    return os.getpid()


# — rehearse —


async def test_a_rehearsal_says_what_was_done_and_what_came_out() -> None:
    chat = Chat()
    rehearsal = await rehearse(summarize, "one two", chat=chat)

    assert rehearsal.output == [Summary(1, "about one"), Summary(2, "about two")]
    assert rehearsal.done == ["split", "chapter/1", "chapter/2"]
    assert (rehearsal.ending, rehearsal.restored, rehearsal.set_aside) == ("completed", [], {})
    assert (rehearsal.reason, rehearsal.error, rehearsal.raised) == (None, None, None)
    assert rehearsal.checkpoints["split"] == [{"number": 1, "text": "one"}, {"number": 2, "text": "two"}]
    assert chat.asked == ["one", "two"]


async def test_only_the_missing_chapter_is_summarized() -> None:
    rehearsal = await rehearse(
        summarize,
        "ignored",
        chat=Chat(),
        saved={"split": [Chapter(1, "one"), Chapter(2, "two")], "chapter/1": {"number": 1, "text": "kept"}},
    )

    assert [summary.text for summary in rehearsal.output] == ["kept", "about two"]
    assert rehearsal.done == ["chapter/2"]
    assert rehearsal.restored == ["split", "chapter/1"]
    assert sorted(rehearsal.checkpoints) == ["chapter/1", "chapter/2", "split"]


async def test_a_checkpoint_that_no_longer_fits_is_done_again() -> None:
    rehearsal = await rehearse(summarize, "one", chat=Chat(), saved={"split": [{"title": "an older shape"}]})

    assert rehearsal.done == ["split", "chapter/1"]
    assert rehearsal.restored == []
    assert "is not a" in rehearsal.set_aside["split"]


async def test_a_plain_handler_is_rehearsed_in_the_same_words() -> None:
    @pipeline("count-words")
    def count_words(book: str, run: SyncRun) -> int:
        words = run.step("words", book.split)
        return run.step("count", len, words)

    rehearsal = await rehearse(count_words, "a b c", saved={"words": ["x", "y"]})

    assert (rehearsal.output, rehearsal.done, rehearsal.restored) == (2, ["count"], ["words"])


async def test_every_ending_of_a_handler_can_be_rehearsed() -> None:
    failure = ValueError("no")

    @pipeline("ending", retry=Retry(attempts=2, wait=7.0, jitter=0.0))
    async def ending(how: str, run: Run) -> str:
        match how:
            case "skip":
                raise Skip("nothing to do")
            case "reject":
                raise Reject("encrypted")
            case "review":
                raise Review("petition", "not sure")
            case "postpone":
                raise Postpone(minutes=10)
            case "sleep":
                await run.sleep("nap", 3600)
            case "wait":
                return await run.wait_for("answer", str)
            case "fail":
                raise failure
        return how

    seen = {
        how: await rehearse(ending, how) for how in ("skip", "reject", "review", "postpone", "sleep", "wait", "fail")
    }

    assert {how: (each.ending, each.reason) for how, each in seen.items()} == {
        "skip": ("skipped", "nothing to do"),
        "reject": ("failed", "rejected"),
        "review": ("review", "not sure"),
        "postpone": ("postponed", "postponed"),
        "sleep": ("postponed", "sleeping"),
        "wait": ("waiting", "waiting"),
        "fail": ("failed", "ValueError"),
    }
    assert seen["review"].output == "petition"
    assert seen["reject"].error == "encrypted"
    assert (seen["reject"].again, seen["fail"].again, seen["fail"].delay) == (False, True, 7.0)
    assert seen["fail"].raised is failure
    with pytest.raises(AssertionError, match="ended failed and has no output: ValueError: no") as caught:
        _ = seen["fail"].output
    assert caught.value.__cause__ is failure


async def test_the_past_and_the_outside_world_are_given_by_hand() -> None:
    @pipeline("long")
    async def long(_: None, run: Run) -> list[str]:
        await run.sleep("nap", 3600)
        try:
            late = await run.wait_for("late", str, timeout=60)
        except TimeoutError:
            late = "nobody came"
        return [await run.wait_for("answer", str), late, str(run.attempt)]

    rehearsal = await rehearse(
        long, None, saved={"nap": 3600.0, "signal/late/until": 60.0}, signals={"answer": "yes"}, attempt=3
    )

    assert rehearsal.output == ["yes", "nobody came", "3"]
    assert rehearsal.done == ["signal/answer"]


async def test_a_transaction_gets_the_connection_that_was_given_or_says_that_there_is_none() -> None:
    class FakeConnection:
        def __init__(self) -> None:
            self.rows: list[str] = []

        async def execute(self, _sql: str, words: list[str]) -> None:
            self.rows.extend(words)

    async def store(connection: psycopg.AsyncConnection[Any], word: str) -> int:
        await connection.execute("insert into words values (%s)", [word])
        return 1

    @pipeline("store")
    async def storing(word: str, run: Run) -> int:
        return await run.transact("store", store, word)

    @pipeline("store-plainly")
    def storing_plainly(word: str, run: SyncRun) -> int:
        return run.transact("store", lambda connection: connection.append(word) or 1)  # type: ignore[attr-defined]

    fake = FakeConnection()
    plain: list[str] = []
    assert (await rehearse(storing, "a", connection=fake)).done == ["store"]
    assert (await rehearse(storing_plainly, "a", connection=plain)).output == 1
    assert (fake.rows, plain) == (["a"], ["a"])
    for line in (storing, storing_plainly):
        nothing = await rehearse(line, "a")
        assert isinstance(nothing.raised, ConfigurationError)
        assert "connection=" in nothing.raised.next


async def test_isolated_functions_run_in_their_child_or_plainly() -> None:
    @pipeline("read")
    async def read(path: str, run: Run) -> int:
        return await run.step("read", process_of, path)

    @pipeline("read-plainly")
    def read_plainly(path: str, run: SyncRun) -> int:
        return run.step("read", process_of, path)

    for line in (read, read_plainly):
        assert (await rehearse(line, "a", isolated=False)).output == os.getpid()
        assert (await rehearse(line, "a")).output != os.getpid()


async def test_a_rehearsal_refuses_what_the_engine_would_refuse() -> None:
    @pipeline("twice")
    async def twice(_: None, run: Run) -> None:
        await run.step("same", int)
        await run.step("same", int)

    with pytest.raises(ConfigurationError, match="asks for chat") as caught:
        await rehearse(summarize, "a")
    assert "chat=" in caught.value.next
    with pytest.raises(ConfigurationError, match=r"saved\['split'\] cannot be written as JSON"):
        await rehearse(summarize, "a", chat=Chat(), saved={"split": object()})
    assert isinstance((await rehearse(twice, None)).raised, ConfigurationError)


async def test_a_step_that_is_too_slow_is_too_slow_in_a_rehearsal() -> None:
    @pipeline("slow", step_timeout=0.02)
    async def slow(_: None, run: Run) -> None:
        await run.step("nap", asyncio.sleep, 30)

    assert (await rehearse(slow, None)).reason == "TimeoutError"


# — drain —


@pipeline("double")
async def double(number: int, run: Run) -> int:
    if number < 0:
        raise Reject("negative")
    return await run.step("double", lambda: number * 2)


async def test_draining_runs_everything_that_is_ready_and_says_how_many_ended(settings: Settings) -> None:
    app = Retoma(settings=settings, pipelines=[double])
    async with app:
        receipts = await app.enqueue_many(double, [1, 2, -3])
        await app.enqueue(double, 4, delay=3600)

    assert await drain(app) == 3, "it opens the app by itself"
    assert await drain(app) == 0
    async with app:
        assert await app.jobs.output(double, receipts[1].id) == 4
        assert [each.alive for each in await app.workers.all(gone=True)] == [False, False]


async def test_what_a_handler_enqueues_is_drained_too(app_with: AppWith) -> None:
    @pipeline("count-down")
    async def count_down(number: int, _run: Run) -> None:
        if number:
            await app.enqueue(count_down, number - 1)

    app = await app_with(count_down)
    await app.enqueue(count_down, 4)

    assert await drain(app) == 5


async def test_a_drain_that_is_broken_off_gives_its_jobs_back(app_with: AppWith) -> None:
    @pipeline("endless")
    async def endless(_: None, _run: Run) -> None:
        await asyncio.sleep(60)

    app = await app_with(endless)
    receipt = await app.enqueue(endless, None)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.3):
            await drain(app)

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.attempt) == (JobState.QUEUED, 0)


async def test_an_app_without_pipelines_has_nothing_to_drain(app_with: AppWith) -> None:
    with pytest.raises(ConfigurationError, match="no pipelines"):
        await drain(await app_with())


# — age —


async def test_time_passes_for_one_job_only(app_with: AppWith) -> None:
    app = await app_with(double)
    old, young = await app.enqueue_many(double, [1, 2], delay=3600, expires=7200.0)
    before = [await app.jobs.get(receipt.id) for receipt in (old, young)]
    await age(app, old, minutes=30, seconds=30)
    now = [await app.jobs.get(receipt.id) for receipt in (old, young)]

    for moment in ("run_at", "created_at", "expires_at"):
        assert (getattr(before[0], moment) - getattr(now[0], moment)).total_seconds() == 1830
    assert now[1] == before[1]
    with pytest.raises(NotFound):
        await age(app, young.id + 1, hours=1)


async def test_an_app_or_any_connection_will_do(app_with: AppWith, psql: psycopg.Connection, database_url: str) -> None:
    app = await app_with(double)
    receipt = await app.enqueue(double, 1, delay=3600)
    await age(psql, receipt.id, minutes=20)
    async with await psycopg.AsyncConnection.connect(database_url) as connection:
        await age(connection, await app.jobs.get(receipt.id), minutes=20)
    assert await drain(app) == 0
    await age(app, minutes=21)

    assert await drain(app) == 1, "all jobs are older when none is named"


async def test_a_worker_that_has_been_silent_for_so_long_loses_its_job(app_with: AppWith) -> None:
    seen = []

    @pipeline("held", retry=Retry(attempts=3, wait=0.0))
    async def held(_: None, run: Run) -> int:
        if run.attempt == 1:
            await age(app, run.job, seconds=30)
            seen.append([each.id for each in await app.jobs.recover()])
            await age(app, run.job, seconds=31)
            seen.append([each.id for each in await app.jobs.recover()])
        return run.attempt

    app = await app_with(held, lease_seconds=60.0)
    receipt = await app.enqueue(held, None)
    await drain(app)
    await drain(app)

    assert seen == [[], [receipt.id]]
    assert await app.jobs.output(held, receipt.id) == 2
    assert [each.ending for each in await app.jobs.attempts(receipt.id)] == ["lost", "completed"]


async def test_a_worker_that_is_alive_keeps_its_job(app_with: AppWith, psql: psycopg.Connection) -> None:
    app = await app_with(hold := pipeline("hold")(_hold))
    job = await app.enqueue(hold, None)
    psql.execute("update retoma.jobs set run_at = now() where id = %s", (job.id,))
    worker = psql.execute(
        "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds, hint,"
        " lease_expires_at) values ('w', 'h', 1, '0', '{hold}', '{hold}', 1, 60, 4712, now() + interval '1 min')"
        " returning id"
    ).fetchone()
    assert worker is not None
    psql.execute(
        "update retoma.jobs set state = 'running', worker_id = %s, claimed_at = now() where id = %s",
        (worker[0], job.id),
    )
    lease = "select lease_expires_at from retoma.workers"
    before = psql.execute(lease).fetchone()

    psql.execute("select pg_advisory_lock_shared(4712)")
    with pytest.raises(Conflict, match=f"Job {job.id} is in the hands of a worker that is alive"):
        await age(app, job, minutes=2)
    with pytest.raises(Conflict):
        await age(app, minutes=2)
    assert psql.execute(lease).fetchone() == before

    psql.execute("select pg_advisory_unlock_shared(4712)")  # as when it is killed
    await age(app, job, minutes=2)
    assert psql.execute(lease).fetchone() != before


async def _hold(_: None, run: Run) -> None:
    raise AssertionError(run)


# — crash —


def program_at(database_url: str, settings: Settings) -> Retoma:
    spec = importlib.util.spec_from_file_location("testing_program", PROGRAM)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    app: Retoma = module.app
    app.registry.settings = settings.model_copy(update={"database_url": database_url})
    return app


@pytest.mark.crash
async def test_a_worker_killed_in_the_middle_loses_and_repeats_nothing(
    database_url: str, settings: Settings, psql: psycopg.Connection
) -> None:
    psql.execute("create table effects (job bigint, step text, at timestamptz default clock_timestamp())")
    app = program_at(database_url, settings)
    line = app.registry.pipelines["two-steps"]
    async with app:
        await app.enqueue_many(line, range(30))
        ended = await crash(app, after=5, at_once=4, reference=f"{PROGRAM}:app")
        running = await app.jobs.find(state="running")

        assert ended >= 5
        assert running, "it was killed with jobs in its hands"
        assert await app.jobs.recover() == [], "their lease is not over"

        await age(app, minutes=2)
        assert await drain(app) >= 30 - ended - 8
        assert {job.state for job in await app.jobs.find()} == {JobState.COMPLETED}

    effects = psql.execute("select job, step, count(*) from effects group by 1, 2").fetchall()
    assert len(effects) == 60
    assert {count for _, _, count in effects} == {1}


@pytest.mark.crash
async def test_after_a_crash_the_dead_worker_changes_nothing_more(
    database_url: str, settings: Settings, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    psql.execute("create table effects (job bigint, step text)")
    monkeypatch.setenv("LATE_URL", database_url)
    app = program_at(database_url, settings)
    async with app:
        await app.enqueue(app.registry.pipelines["late-statement"], 3.0)
        await crash(app, steps=1, reference=f"{PROGRAM}:app")

        assert psql.execute("select step from effects").fetchall() == [("late",)], "the server ended its statement"


@pytest.mark.crash
async def test_a_crash_may_wait_for_steps_and_says_when_it_cannot_happen(
    database_url: str, settings: Settings, psql: psycopg.Connection, tmp_path: Path
) -> None:
    psql.execute("create table effects (job bigint, step text)")
    app = program_at(database_url, settings)
    here = f"{PROGRAM}:app"
    async with app:
        with pytest.raises(ConfigurationError, match="needs after= or steps="):
            await crash(app, reference=here)
        with pytest.raises(RetomaError, match="All jobs ended before"):
            await crash(app, after=1, reference=here)

        receipt = await app.enqueue(app.registry.pipelines["two-steps"], 1)
        with pytest.raises(RetomaError, match="ended by itself: There is no file"):
            await crash(app, after=1, reference=f"{tmp_path}/nothing.py:app")
        await crash(app, steps=1, reference=here)
        assert [each.step for each in await app.jobs.checkpoints(receipt.id)][:1] == ["one"]

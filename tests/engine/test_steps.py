"""A step is done once; what it gave is given back, and only if it is still what it was."""

import asyncio
import contextlib
import functools
import threading
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import psycopg
import pytest

from retoma import Job, JobState, Pipeline, Retoma, Retry, Run, SyncRun, fingerprint, pipeline
from retoma.errors import Conflict, NotFound, StepsFailed, Unstorable
from retoma.telemetry.events import CheckpointSetAside, Event, JobLost, StepCompleted, StepRestored
from retoma.testing import age, drain
from retoma.values.fingerprints import checksum

AppWith = Callable[..., Awaitable[Retoma]]
AT_ONCE_AGAIN = Retry(attempts=3, wait=0.0)


@dataclass(frozen=True)
class Chapter:
    number: int
    text: str


class Broken(Exception):
    """What a handler raises in these tests."""


async def ended(app: Retoma, line: Pipeline[Any, Any], input: Any = None, **options: Any) -> Job:
    """The job, after everything that was ready has run."""
    receipt = await app.enqueue(line, input, **options)
    await drain(app)
    return await app.jobs.get(receipt.id)


def kept(psql: psycopg.Connection) -> list[tuple[Any, ...]]:
    rows = psql.execute(
        "select step, generation, set_aside_at is null from retoma.checkpoints order by step, generation"
    )
    return rows.fetchall()


# — done once —


async def test_a_step_that_is_done_is_not_done_again(app_with: AppWith) -> None:
    done = []

    def note(name: str) -> str:
        done.append(name)
        return name

    @pipeline("two", retry=AT_ONCE_AGAIN)
    async def two(_: None, run: Run) -> str:
        one = await run.step("one", note, "one")
        if run.attempt == 1:
            raise Broken
        return one + await run.step("two", note, "two")

    app = await app_with(two)
    job = await ended(app, two)

    assert (job.state, job.attempt) == (JobState.COMPLETED, 2)
    assert await app.jobs.output(two, job.id) == "onetwo"
    assert done == ["one", "two"]


async def test_a_step_of_a_plain_handler_is_not_done_again(app_with: AppWith) -> None:
    done = []

    def note(name: str) -> str:
        done.append((name, threading.get_ident()))
        return name

    @pipeline("two", retry=AT_ONCE_AGAIN)
    def two(_: None, run: SyncRun) -> bool:
        run.step("one", note, "one")
        if run.attempt == 1:
            raise Broken
        run.step("two", note, "two")
        return done[-1][1] == threading.get_ident()

    app = await app_with(two)
    job = await ended(app, two)

    assert [name for name, _ in done] == ["one", "two"]
    assert await app.jobs.output(two, job.id) is True, "a step of a plain handler belongs in the handler's own thread"


async def test_what_is_given_back_has_the_type_of_the_annotation(app_with: AppWith) -> None:
    seen = []

    async def split(text: str) -> list[Chapter]:
        return [Chapter(number, part) for number, part in enumerate(text.split())]

    @pipeline("split", retry=AT_ONCE_AGAIN)
    async def book(text: str, run: Run) -> None:
        seen.append(await run.step("split", split, text))
        if run.attempt == 1:
            raise Broken

    await ended(await app_with(book), book, "a b")

    assert seen == [[Chapter(0, "a"), Chapter(1, "b")]] * 2


async def test_any_kind_of_callable_may_be_a_step(app_with: AppWith) -> None:
    class Doubler:
        async def __call__(self, number: int) -> int:
            return 2 * number

        async def triple(self, number: int) -> int:
            return 3 * number

    async def power(number: int, *, exponent: int) -> int:
        return number**exponent

    @pipeline("kinds")
    async def kinds(number: int, run: Run) -> list[int]:
        return [
            await run.step("lambda", lambda: number),
            await run.step("object", Doubler(), number),
            await run.step("method", Doubler().triple, number),
            await run.step("partial", functools.partial(power, exponent=3), number),
            await run.step("keyword", power, number, exponent=2),
            await run.step("builtin", abs, -number),
        ]

    app = await app_with(kinds)
    job = await ended(app, kinds, 2)

    assert job.error is None
    assert await app.jobs.output(kinds, job.id) == [2, 4, 6, 8, 4, 2]


async def test_a_blocking_step_of_an_async_handler_leaves_the_loop_free(app_with: AppWith) -> None:
    @pipeline("blocking")
    async def blocking(_: None, run: Run) -> bool:
        return await run.step("where", threading.get_ident) != threading.get_ident()

    app = await app_with(blocking)
    job = await ended(app, blocking)

    assert await app.jobs.output(blocking, job.id) is True


async def test_the_envelope_says_what_a_checkpoint_was_made_of(app_with: AppWith) -> None:
    @pipeline("envelope")
    async def envelope(_: None, run: Run) -> int:
        return await run.step("length", len, "four")

    app = await app_with(envelope)
    job = await ended(app, envelope)
    (checkpoint,) = await app.jobs.checkpoints(job.id)

    assert (checkpoint.value, checkpoint.checksum) == ("4", checksum("4"))
    assert checkpoint.input_hash == fingerprint(("four",), {})
    assert (checkpoint.fence, checkpoint.generation, checkpoint.set_aside_at) == (1, 1, None)
    assert checkpoint.fingerprint


async def test_a_step_that_is_given_other_arguments_later_says_so(app_with: AppWith, heard: list[Event]) -> None:
    @pipeline("changing", retry=AT_ONCE_AGAIN)
    async def changing(_: None, run: Run) -> int:
        length = await run.step("length", len, "x" * run.attempt)
        await run.step("same", len, "same")
        if run.attempt == 1:
            raise Broken
        return length

    app = await app_with(changing)
    job = await ended(app, changing)

    assert await app.jobs.output(changing, job.id) == 1
    restored = [(event.step, event.input_changed) for event in heard if isinstance(event, StepRestored)]
    assert restored == [("length", True), ("same", False)]
    assert [event.step for event in heard if isinstance(event, StepCompleted)] == ["length", "same"]


async def test_a_step_needs_a_name_that_is_a_path(app_with: AppWith) -> None:
    @pipeline("nameless", timeout=10, retry=AT_ONCE_AGAIN)
    async def nameless(name: str, run: Run) -> int:
        return await run.step(name.replace("nul", "a \0 nul") if run.job != 5 else "half \ud83d", int)

    app = await app_with(nameless)
    await app.enqueue_many(nameless, ["", "/read", "x" * 201, "nul", "half"])
    await drain(app)

    jobs = await app.jobs.find()
    assert [(job.state, job.attempt, job.reason) for job in jobs] == [(JobState.FAILED, 1, "ConfigurationError")] * 5


async def test_one_name_for_two_steps_is_refused_and_not_tried_again(app_with: AppWith) -> None:
    @pipeline("twice", retry=AT_ONCE_AGAIN)
    async def twice(_: None, run: Run) -> int:
        return await run.step("same", int) + await run.step("same", int)

    job = await ended(await app_with(twice), twice)

    assert (job.state, job.attempt, job.reason) == (JobState.FAILED, 1, "ConfigurationError")
    assert job.error is not None
    assert "'same' was done already" in job.error


async def test_one_name_for_two_steps_at_the_same_time_is_refused_too(app_with: AppWith) -> None:
    @pipeline("twice", timeout=10, retry=Retry(attempts=1))
    async def twice(_: None, run: Run) -> list[int]:
        return await asyncio.gather(run.step("same", int), run.step("same", int))

    job = await ended(await app_with(twice), twice)

    assert (job.state, job.reason) == (JobState.FAILED, "ConfigurationError")


async def test_a_step_that_failed_may_be_tried_again_in_the_same_run(app_with: AppWith) -> None:
    tries = []

    def second_time_lucky() -> int:
        tries.append(1)
        if len(tries) == 1:
            raise Broken
        return len(tries)

    @pipeline("lucky")
    async def lucky(_: None, run: Run) -> int:
        try:
            return await run.step("luck", second_time_lucky)
        except Broken:
            return await run.step("luck", second_time_lucky)

    app = await app_with(lucky)
    job = await ended(app, lucky)

    assert await app.jobs.output(lucky, job.id) == 2


async def test_a_step_is_held_to_its_time(app_with: AppWith) -> None:
    @pipeline("slow", step_timeout=0.05, retry=Retry(attempts=1))
    async def slow(_: None, run: Run) -> None:
        await run.step("nap", asyncio.sleep, 30)

    job = await ended(await app_with(slow), slow)

    assert (job.state, job.reason) == (JobState.FAILED, "TimeoutError")
    assert (job.error or "").startswith(f"TimeoutError: Step 'nap' of job {job.id} took longer than 0.05 s.")


async def test_a_transaction_is_held_to_the_time_of_a_step_and_leaves_nothing(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    psql.execute("create table notes (text text)")

    async def write(connection: Any) -> None:
        await connection.execute("insert into notes values ('half')")
        await asyncio.sleep(30)

    @pipeline("slow", step_timeout=0.2, retry=Retry(attempts=1))
    async def slow(_: None, run: Run) -> None:
        await run.transact("write", write)

    job = await ended(await app_with(slow), slow)

    assert "Step 'write'" in (job.error or "")
    assert psql.execute("select count(*) from notes").fetchone() == (0,)


# — checkpoints that no longer fit —


@pipeline("keeper", retry=Retry(attempts=5, wait=0.0))
async def keeper(_: None, run: Run) -> Chapter:
    def make() -> Chapter:
        return Chapter(run.attempt, "made")

    chapter = await run.step("make", make)
    if run.attempt < 3:
        await run.sleep(f"pause/{run.attempt}", 3600)
    return chapter


async def test_a_damaged_checkpoint_is_set_aside_and_made_again(
    app_with: AppWith, psql: psycopg.Connection, heard: list[Event]
) -> None:
    app = await app_with(keeper)
    receipt = await app.enqueue(keeper, None)
    await drain(app)
    psql.execute("""update retoma.checkpoints set value = '{"number":1,"text":"mads"}' where step = 'make'""")
    await age(app, receipt, hours=2)
    await drain(app)

    damaged, made, *_ = [each for each in await app.jobs.checkpoints(receipt.id) if each.step == "make"]
    assert damaged.set_aside_at is not None
    assert damaged.reason is not None
    assert "checksum" in damaged.reason
    assert (made.generation, made.set_aside_at) == (2, None)
    (told,) = [event for event in heard if isinstance(event, CheckpointSetAside)]
    assert (told.job, told.step, told.generation) == (receipt.id, "make", 1)


async def test_the_generation_before_a_damaged_one_is_used(app_with: AppWith, psql: psycopg.Connection) -> None:
    app = await app_with(keeper)
    receipt = await app.enqueue(keeper, None, attempts=9)
    await drain(app)
    psql.execute(
        "insert into retoma.checkpoints (job_id, step, generation, value, checksum, fingerprint, fence)"
        " select job_id, step, 2, '{}', 'wrong', fingerprint, fence from retoma.checkpoints where step = 'make'"
    )
    await age(app, receipt, hours=2)
    await drain(app)

    makes = [each for each in await app.jobs.checkpoints(receipt.id) if each.step == "make"]
    assert [(each.generation, each.set_aside_at is None) for each in makes] == [(1, True), (2, False)]


async def test_a_checkpoint_whose_type_changed_is_set_aside_and_made_again(app_with: AppWith) -> None:
    @dataclass(frozen=True)
    class Page:
        folio: int

    @pipeline("keeper", retry=Retry(attempts=5, wait=0.0))
    async def newer(_: None, run: Run) -> Page:
        def make() -> Page:
            return Page(7)

        return await run.step("make", make)

    receipt = await (app := await app_with(keeper)).enqueue(keeper, None)
    await drain(app)
    await age(app, receipt, hours=2)
    await drain(await app_with(newer))

    assert await app.jobs.output(newer, receipt.id) == Page(7)
    before, after = [each for each in await app.jobs.checkpoints(receipt.id) if each.step == "make"]
    assert before.reason is not None
    assert "not a Page any more" in before.reason
    assert before.fingerprint != after.fingerprint


async def test_a_wider_type_still_fits_what_was_saved(app_with: AppWith) -> None:
    @dataclass(frozen=True)
    class Wider:
        number: int
        text: str
        author: str = "unknown"

    @pipeline("keeper")
    async def newer(_: None, run: Run) -> Wider:
        def make() -> Wider:
            raise AssertionError("this was done before")

        return await run.step("make", make)

    receipt = await (app := await app_with(keeper)).enqueue(keeper, None)
    await drain(app)
    await age(app, receipt, hours=2)
    await drain(await app_with(newer))

    assert await app.jobs.output(newer, receipt.id) == Wider(1, "made")


# — values that cannot be kept —


def deep() -> Any:
    value: Any = 1
    for _ in range(150):
        value = [value]
    return value


UNSTORABLE: dict[str, Callable[[], Any]] = {
    "NaN": lambda: float("nan"),
    "infinity": lambda: {"price": float("inf")},
    "deep": deep,
    "large": lambda: "x" * 16_000_001,
    "tuple": lambda: (1, 2),
    "object": object,
    "bytes": lambda: b"\xff",
}


async def test_a_step_that_gives_what_cannot_be_kept_is_never_paid_twice(app_with: AppWith) -> None:
    paid = []

    def pay(what: str) -> Any:
        paid.append(what)
        return UNSTORABLE[what]()

    @pipeline("unstorable", retry=AT_ONCE_AGAIN)
    async def unstorable(what: str, run: Run) -> None:
        await run.step("pay", pay, what)

    app = await app_with(unstorable)
    await app.enqueue_many(unstorable, UNSTORABLE)
    await drain(app)

    assert sorted(paid) == sorted(UNSTORABLE)
    for job in await app.jobs.find():
        assert (job.state, job.attempt, job.reason) == (JobState.FAILED, 1, "Unstorable")
        assert job.error is not None
        assert "what step 'pay'" in job.error


async def test_an_output_that_cannot_be_kept_fails_at_once(app_with: AppWith) -> None:
    @pipeline("unstorable", retry=AT_ONCE_AGAIN)
    async def unstorable(what: str, _run: Run) -> Any:
        return UNSTORABLE[what]()

    app = await app_with(unstorable)
    await app.enqueue_many(unstorable, UNSTORABLE)
    await drain(app)

    jobs = await app.jobs.find()
    assert [(job.state, job.attempt, job.reason) for job in jobs] == [(JobState.FAILED, 1, "Unstorable")] * 7


async def test_characters_that_postgresql_cannot_hold_are_replaced_for_good(app_with: AppWith) -> None:
    seen = []

    @pipeline("characters", retry=AT_ONCE_AGAIN)
    async def characters(_: None, run: Run) -> str:
        seen.append(await run.step("read", lambda: "a\0b\ud800c"))
        if run.attempt == 1:
            raise Broken("its words hold \0 and \ud800 too")
        return seen[0]

    app = await app_with(characters)
    job = await ended(app, characters)

    assert seen == ["a\ufffdb\ufffdc"] * 2, "the first attempt must see what a second one would"
    assert await app.jobs.output(characters, job.id) == seen[0]


async def test_one_value_that_cannot_be_kept_leaves_its_neighbours_alone(app_with: AppWith) -> None:
    @pipeline("neighbours", retry=AT_ONCE_AGAIN)
    async def neighbours(number: int, run: Run) -> int:
        return await run.step("number", lambda: float("nan") if number == 3 else number)

    app = await app_with(neighbours)
    await app.enqueue_many(neighbours, range(6))
    await drain(app)

    assert [job.state for job in await app.jobs.find(state="failed")] == [JobState.FAILED]
    assert len(await app.jobs.find(state="completed")) == 5


# — map —


async def test_the_siblings_of_a_failed_step_are_finished_and_saved_first(app_with: AppWith) -> None:
    done = []
    failed = asyncio.Event()

    async def price(number: int) -> int:
        if number == 2 and not failed.is_set():
            failed.set()
            raise Broken("two")
        await failed.wait()
        done.append(number)
        return 10 * number

    @pipeline("map", retry=AT_ONCE_AGAIN)
    async def mapped(numbers: list[int], run: Run) -> list[int]:
        return await run.map("price", price, numbers, key=str)

    app = await app_with(mapped)
    job = await ended(app, mapped, [3, 2, 1])

    assert await app.jobs.output(mapped, job.id) == [30, 20, 10]
    assert sorted(done[:2]) == [1, 3]
    assert done[2:] == [2], "only the one that failed is done again"
    first, second = await app.jobs.attempts(job.id)
    assert (first.reason, second.ending) == ("Broken", "completed")
    assert {each.step for each in await app.jobs.checkpoints(job.id)} == {"price/1", "price/2", "price/3"}


async def test_several_failed_steps_of_a_map_are_told_as_one(app_with: AppWith) -> None:
    raised = []

    async def price(number: int) -> int:
        if number % 2:
            raise Broken(f"odd {number}")
        return number

    @pipeline("map", retry=Retry(attempts=1))
    async def mapped(numbers: list[int], run: Run) -> list[int]:
        try:
            return await run.map("price", price, numbers)
        except StepsFailed as error:
            raised.append(error)
            raise

    app = await app_with(mapped)
    job = await ended(app, mapped, [0, 1, 2, 3])

    assert (job.state, job.reason) == (JobState.FAILED, "StepsFailed")
    assert [(step, str(error)) for step, error in raised[0].failures] == [("price/1", "odd 1"), ("price/3", "odd 3")]
    assert {each.step for each in await app.jobs.checkpoints(job.id)} == {"price/0", "price/2"}


async def test_a_map_runs_so_many_at_once_and_keeps_the_order(app_with: AppWith) -> None:
    running, most = 0, 0

    async def nap(number: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.001)
        running -= 1
        return number

    @pipeline("map")
    async def mapped(numbers: list[int], run: Run) -> list[int]:
        return await run.map("nap", nap, iter(numbers), at_once=3)

    app = await app_with(mapped)
    job = await ended(app, mapped, list(range(20)))

    assert await app.jobs.output(mapped, job.id) == list(range(20))
    assert most == 3


async def test_two_values_with_one_key_are_refused(app_with: AppWith) -> None:
    @pipeline("map", timeout=10, retry=Retry(attempts=1))
    async def mapped(numbers: list[int], run: Run) -> list[int]:
        return await run.map("same", lambda number: number, numbers, key=lambda _: "key")

    job = await ended(await app_with(mapped), mapped, [1, 2])

    assert (job.state, job.reason) == (JobState.FAILED, "ConfigurationError")


async def test_a_plain_map_also_finishes_the_siblings_first(app_with: AppWith) -> None:
    done = []

    def price(number: int) -> int:
        done.append(number)
        if number == 1 and done.count(1) == 1:
            raise Broken
        return 10 * number

    @pipeline("map", retry=AT_ONCE_AGAIN)
    def mapped(numbers: list[int], run: SyncRun) -> list[int]:
        return run.map("price", price, numbers, key=str)

    app = await app_with(mapped)
    job = await ended(app, mapped, [0, 1, 2])

    assert await app.jobs.output(mapped, job.id) == [0, 10, 20]
    assert done == [0, 1, 2, 1]


# — transact —


@pytest.fixture
def words(psql: psycopg.Connection) -> Callable[[], list[str]]:
    """The user's own table; a call reads it."""
    psql.execute("create table words (word text)")
    return lambda: [word for (word,) in psql.execute("select word from words").fetchall()]


async def store(connection: psycopg.AsyncConnection[Any], word: str) -> str:
    await connection.execute("insert into words values (%s)", [word])
    return word.upper()


def store_plainly(connection: psycopg.Connection[Any], word: str) -> str:
    connection.execute("insert into words values (%s)", [word])
    return word.upper()


async def test_rows_and_checkpoint_commit_together(app_with: AppWith, words: Callable[[], list[str]]) -> None:
    @pipeline("transact", retry=AT_ONCE_AGAIN)
    async def transact(word: str, run: Run) -> str:
        answer = await run.transact("store", store, word)
        if run.attempt == 1:
            raise Broken
        return answer

    app = await app_with(transact)
    job = await ended(app, transact, "once")

    assert words() == ["once"]
    assert await app.jobs.output(transact, job.id) == "ONCE"


async def test_rows_and_checkpoint_of_a_plain_handler_commit_together(
    app_with: AppWith, words: Callable[[], list[str]]
) -> None:
    @pipeline("transact", retry=AT_ONCE_AGAIN)
    def transact(word: str, run: SyncRun) -> str:
        answer = run.transact("store", store_plainly, word)
        if run.attempt == 1:
            raise Broken
        return answer

    app = await app_with(transact)
    job = await ended(app, transact, "once")

    assert words() == ["once"]
    assert await app.jobs.output(transact, job.id) == "ONCE"


async def test_a_transaction_that_rests_for_too_long_is_ended_and_its_rows_roll_back(
    app_with: AppWith, words: Callable[[], list[str]]
) -> None:
    async def rest(connection: psycopg.AsyncConnection[Any], word: str, run: Run) -> str:
        await store(connection, f"{word} {run.attempt}")
        if run.attempt == 1:
            await asyncio.sleep(2.0)  # four times as long as it may
        return word

    @pipeline("transact", retry=AT_ONCE_AGAIN)
    async def transact(word: str, run: Run) -> str:
        return await run.transact("rest", rest, word, run)

    app = await app_with(transact, idle_seconds=0.5)
    job = await ended(app, transact, "once")

    assert (words(), job.state) == (["once 2"], "completed")


async def test_rows_of_a_step_that_fails_roll_back(app_with: AppWith, words: Callable[[], list[str]]) -> None:
    async def break_off(connection: psycopg.AsyncConnection[Any], word: str) -> Any:
        await store(connection, word)
        if word == "fail":
            raise Broken
        return object()  # cannot be kept

    def break_off_plainly(connection: psycopg.Connection[Any], word: str) -> Any:
        store_plainly(connection, word)
        if word == "fail":
            raise Broken
        return object()

    @pipeline("transact", retry=Retry(attempts=2, wait=0.0))
    async def transact(word: str, run: Run) -> None:
        await run.transact("store", break_off, word)

    @pipeline("transact-plainly", retry=Retry(attempts=2, wait=0.0))
    def transact_plainly(word: str, run: SyncRun) -> None:
        run.transact("store", break_off_plainly, word)

    app = await app_with(transact, transact_plainly)
    for line in (transact, transact_plainly):
        failed = await ended(app, line, "fail")
        unstorable = await ended(app, line, "unstorable")

        assert (failed.reason, failed.attempt) == ("Broken", 2)
        assert (unstorable.reason, unstorable.attempt) == ("Unstorable", 1)
    assert words() == []


async def test_rows_of_a_job_that_was_given_to_another_roll_back(
    app_with: AppWith, words: Callable[[], list[str]], psql: psycopg.Connection, heard: list[Event]
) -> None:
    def give_away() -> None:
        psql.execute("update retoma.jobs set fence = fence + 1")

    async def store_late(connection: psycopg.AsyncConnection[Any]) -> None:
        await store(connection, "late")
        give_away()

    def store_late_plainly(connection: psycopg.Connection[Any]) -> None:
        store_plainly(connection, "late")
        give_away()

    @pipeline("transact", retry=AT_ONCE_AGAIN)
    async def transact(_: None, run: Run) -> None:
        await run.transact("store", store_late)

    @pipeline("transact-plainly", retry=AT_ONCE_AGAIN)
    def transact_plainly(_: None, run: SyncRun) -> None:
        run.transact("store", store_late_plainly)

    app = await app_with(transact, transact_plainly)
    for line in (transact, transact_plainly):
        await app.enqueue(line, None)
        await drain(app)
        psql.execute(
            "update retoma.jobs set state = 'cancelled', worker_id = null, finished_at = now()"
            " where state in ('running', 'queued')"
        )

    assert words() == []
    assert kept(psql) == []
    assert len([event for event in heard if isinstance(event, JobLost)]) == 2


# — a lost lease —


async def test_what_a_step_gave_after_its_job_was_given_away_is_dropped(
    app_with: AppWith, psql: psycopg.Connection, heard: list[Event]
) -> None:
    def give_away() -> int:
        psql.execute("update retoma.jobs set fence = fence + 1")
        return 1

    @pipeline("late")
    async def late(_: None, run: Run) -> int:
        return await run.step("late", give_away)

    app = await app_with(late)
    receipt = await app.enqueue(late, None)
    await drain(app)

    assert kept(psql) == []
    assert psql.execute("select ending, output from retoma.attempts, retoma.jobs").fetchall() == [("released", None)]
    assert any(isinstance(event, JobLost) and event.job == receipt.id for event in heard)


async def test_a_handler_that_swallows_every_error_begins_no_step_of_a_job_that_is_lost(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    paid = []

    def give_away() -> None:
        psql.execute("update retoma.jobs set fence = fence + 1")

    @pipeline("deaf")
    async def deaf(_: None, run: Run) -> None:
        for name, function in (("one", give_away), ("two", lambda: paid.append(1))):
            with contextlib.suppress(Exception):
                await run.step(name, function)

    app = await app_with(deaf)
    await app.enqueue(deaf, None)
    await drain(app)

    assert paid == []


# — sleeping and waiting —


async def test_a_durable_sleep_gives_up_its_place_and_costs_no_attempt(app_with: AppWith) -> None:
    woken = []

    @pipeline("sleeper", retry=Retry(attempts=1))
    async def sleeper(_: None, run: Run) -> int:
        await run.sleep("nap", 3600)
        woken.append(run.attempt)
        return run.attempt

    app = await app_with(sleeper)
    job = await ended(app, sleeper)
    assert (job.state, job.reason, job.attempt, job.worker_id) == (JobState.QUEUED, "sleeping", 0, None)
    assert 3500 < (job.run_at - job.created_at).total_seconds() < 3700

    await age(app, job, minutes=59)
    assert await drain(app) == 0
    assert woken == []

    await age(app, job, minutes=2)
    assert await drain(app) == 1
    assert await app.jobs.output(sleeper, job.id) == 1
    assert [attempt.ending for attempt in await app.jobs.attempts(job.id)] == ["postponed", "completed"]


async def test_a_sleep_that_is_woken_early_goes_on_sleeping(app_with: AppWith, psql: psycopg.Connection) -> None:
    @pipeline("sleeper")
    def sleeper(_: None, run: SyncRun) -> None:
        run.sleep("nap", 3600)

    app = await app_with(sleeper)
    job = await ended(app, sleeper)
    await age(app, job, minutes=20)
    psql.execute("update retoma.jobs set run_at = now()")
    await drain(app)

    now = await app.jobs.get(job.id)
    assert now.state is JobState.QUEUED
    assert (now.run_at - job.created_at).total_seconds() < 3700, "forty minutes are left, not sixty"


async def test_a_short_sleep_is_slept_where_it_is(app_with: AppWith) -> None:
    @pipeline("blink")
    async def blink(_: None, run: Run) -> None:
        await run.sleep("blink", 0.01)

    @pipeline("blink-plainly")
    def blink_plainly(_: None, run: SyncRun) -> None:
        run.sleep("blink", 0.01)

    app = await app_with(blink, blink_plainly)

    assert (await ended(app, blink)).fence == 1
    assert (await ended(app, blink_plainly)).fence == 1


@pipeline("asker", retry=Retry(attempts=1))
async def asker(timeout: float | None, run: Run) -> int:
    try:
        return await run.wait_for("answer", int, timeout=timeout)
    except TimeoutError:
        return -1


@pipeline("plain-asker", retry=Retry(attempts=1))
def plain_asker(timeout: float | None, run: SyncRun) -> int:
    try:
        return run.wait_for("answer", int, timeout=timeout)
    except TimeoutError:
        return -1


@pytest.mark.parametrize("line", [asker, plain_asker], ids=lambda line: line.name)
async def test_a_job_waits_without_a_worker_until_it_is_told(
    app_with: AppWith, line: Pipeline[float | None, int]
) -> None:
    app = await app_with(line)
    job = await ended(app, line)
    assert (job.state, job.reason, job.attempt) == (JobState.QUEUED, "waiting", 0)

    assert await app.jobs.signal(job.id, "answer", 42) is True
    await drain(app)

    assert await app.jobs.output(line, job.id) == 42


async def test_a_signal_may_come_before_anybody_waits_for_it(app_with: AppWith) -> None:
    app = await app_with(asker)
    receipt = await app.enqueue(asker, None)
    await app.jobs.signal(receipt.id, "answer", 1)
    await drain(app)

    assert await app.jobs.output(asker, receipt.id) == 1
    assert (await app.jobs.get(receipt.id)).fence == 1


async def test_a_signal_that_comes_while_the_handler_gives_up_its_place_wakes_it(app_with: AppWith) -> None:
    @pipeline("racer")
    async def racer(_: None, run: Run) -> int:
        try:
            return await run.wait_for("answer", int)
        except BaseException:
            # It has looked, and has not been written down as waiting: the worst moment.
            await app.jobs.signal(run.job, "answer", 7)
            raise

    app = await app_with(racer)
    job = await ended(app, racer)

    assert await app.jobs.output(racer, job.id) == 7
    assert (job.state, job.attempt) == (JobState.COMPLETED, 1)


async def test_waiting_ends_after_its_time_and_not_later_for_being_woken(app_with: AppWith) -> None:
    app = await app_with(asker)
    job = await ended(app, asker, 3600.0)
    await age(app, job, minutes=40)
    await app.jobs.signal(job.id, "something-else")
    await drain(app)
    assert (await app.jobs.get(job.id)).reason == "waiting"

    await age(app, job, minutes=21)
    await drain(app)

    assert await app.jobs.output(asker, job.id) == -1


async def test_what_was_heard_once_stays(app_with: AppWith) -> None:
    @pipeline("asker", retry=AT_ONCE_AGAIN)
    async def hearer(_: None, run: Run) -> int:
        answer = await run.wait_for("answer", int)
        if run.attempt == 1:
            raise Broken
        return answer

    app = await app_with(hearer)
    receipt = await app.enqueue(hearer, None)
    assert await app.jobs.signal(receipt.id, "answer", 1) is True
    assert await app.jobs.signal(receipt.id, "answer", 2) is False
    await drain(app)

    assert await app.jobs.output(hearer, receipt.id) == 1
    with pytest.raises(Conflict, match="hears no more signals"):
        await app.jobs.signal(receipt.id, "late", 1)
    with pytest.raises(NotFound):
        await app.jobs.signal(receipt.id + 1, "answer", 1)
    with pytest.raises(Unstorable):
        await app.jobs.signal((await app.enqueue(hearer, None)).id, "answer", float("nan"))


async def test_a_signal_of_the_wrong_type_is_told_and_pays_nothing_twice(app_with: AppWith) -> None:
    app = await app_with(asker)
    receipt = await app.enqueue(asker, None, attempts=3)
    await app.jobs.signal(receipt.id, "answer", "forty-two")
    await drain(app)

    job = await app.jobs.get(receipt.id)
    assert (job.state, job.reason, job.attempt) == (JobState.FAILED, "rejected", 1)
    assert job.error is not None
    assert "signalled under 'answer'" in job.error


async def test_a_map_of_none_at_once_is_refused(app_with: AppWith) -> None:
    @pipeline("none", timeout=10, retry=AT_ONCE_AGAIN)
    async def none(_: None, run: Run) -> list[int]:
        return await run.map("none", abs, [1], at_once=0)

    job = await ended(await app_with(none), none)

    assert (job.state, job.attempt, job.reason) == (JobState.FAILED, 1, "ConfigurationError")

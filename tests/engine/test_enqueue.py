"""A job is written down once, in its place, and can be found, tried again, begun anew and removed."""

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from math import inf, nan
from typing import Any

import psycopg
import pytest

from retoma import JobState, Retoma, Retry, Review, Run, pipeline
from retoma.commands import jobs as job_commands
from retoma.errors import ConfigurationError, Conflict, KeyTaken, NotFound, Unstorable
from retoma.testing import age, drain

from .conftest import BLOCKED

AppWith = Callable[..., Awaitable[Retoma]]


class Broken(Exception):
    """What a handler raises in these tests."""


@pipeline("note", retry=Retry(attempts=2, wait=0.0))
async def note(text: str, run: Run) -> str:
    said = await run.step("say", str.upper, text)
    if text == "fail":
        raise Broken
    if text == "review":
        raise Review(said, "look")
    return said


def inputs(psql: psycopg.Connection, order: str = "id") -> list[Any]:
    return [value for (value,) in psql.execute(f"select input from retoma.jobs order by {order}").fetchall()]


# — one and many —


async def test_a_receipt_says_which_job_and_that_it_is_new(app_with: AppWith) -> None:
    app = await app_with(note)
    receipt = await app.enqueue(note, "a", key="k", correlation_id="c", lane="ana", priority=-3, timeout=7, attempts=9)
    job = await app.jobs.get(receipt.id)

    assert (receipt.key, receipt.state, receipt.new) == ("k", JobState.QUEUED, True)
    assert (job.input, job.key, job.correlation_id, job.lane) == ('"a"', "k", "c", "ana")
    assert (job.priority, job.timeout_seconds, job.max_attempts, job.queue) == (-3, 7, 9, "note")


@pytest.mark.parametrize(
    "options",
    [
        {},
        {"priority": -3, "timeout": 7.5, "attempts": 9, "queue": "night"},
        {"correlation_id": "c", "lane": "ana"},
        {"correlation_id": str.upper, "key": "k"},
        {"delay": 90.0, "expires": 60.0},
        {"run_at": datetime(2031, 5, 6, 7, 8, tzinfo=UTC)},
    ],
    ids=lambda options: "-".join(options) or "nothing said",
)
async def test_one_is_queued_as_many_are(app_with: AppWith, options: dict[str, Any]) -> None:
    @pipeline("other", lane=lambda text: text, priority=4, timeout=11, expires=300, retry=Retry(attempts=5))
    async def other(_: str, _run: Run) -> None: ...

    app = await app_with(note, other)
    for each in (note, other):
        async with app.transaction() as connection:  # so that it is the same moment for both
            one = await app.enqueue(each, "a", conn=connection, **options)
            first = await app.jobs.get(one.id, conn=connection)
            await connection.execute("delete from retoma.jobs")
            (many,) = await app.enqueue_many(each, ["a"], conn=connection, **options)
            second = await app.jobs.get(many.id, conn=connection)

        assert replace(one, id=0) == replace(many, id=0)
        assert replace(first, id=0) == replace(second, id=0)


async def test_receipts_come_in_the_order_of_the_inputs(app_with: AppWith, psql: psycopg.Connection) -> None:
    app = await app_with(note)
    await app.enqueue(note, "old", key="b")
    receipts = await app.enqueue_many(note, ["z", "b", "", "a"], key=lambda text: text or "empty")

    assert [receipt.key for receipt in receipts] == ["z", "b", "empty", "a"]
    assert [receipt.new for receipt in receipts] == [True, False, True, True]
    by_id = dict(psql.execute("select id, input from retoma.jobs").fetchall())
    assert [by_id[receipt.id] for receipt in receipts] == ["z", "old", "", "a"]


async def test_ten_thousand_jobs_go_in_one_call(app_with: AppWith, psql: psycopg.Connection) -> None:
    app = await app_with(note)
    receipts = await app.enqueue_many(note, (str(number) for number in range(10_000)))

    assert len({receipt.id for receipt in receipts}) == 10_000
    assert inputs(psql) == [str(number) for number in range(10_000)]


async def test_many_are_queued_all_or_none(app_with: AppWith, psql: psycopg.Connection) -> None:
    def some() -> Iterator[str]:
        yield from (str(number) for number in range(5_000))
        raise Broken

    app = await app_with(note)
    with pytest.raises(Broken):
        await app.enqueue_many(note, some())
    with pytest.raises(Unstorable, match="the input of a 'note' job"):
        await app.enqueue_many(note, ["a", 3])  # type: ignore[list-item]

    assert inputs(psql) == []
    assert await app.enqueue_many(note, []) == []


async def test_an_input_that_postgresql_cannot_hold_is_cleaned(app_with: AppWith) -> None:
    app = await app_with(note)
    receipt = await app.enqueue(note, "a\0b")

    assert json.loads((await app.jobs.get(receipt.id)).input) == "a\ufffdb"


SENSELESS: list[tuple[dict[str, Any], str]] = [
    ({"run_at": datetime(2030, 1, 1)}, "no time zone"),  # noqa: DTZ001
    ({"run_at": datetime(2030, 1, 1, tzinfo=UTC), "delay": 5}, "both say when the job may begin"),
    ({"priority": 1001}, "priority must be a whole number from -1000 to 1,000, and is 1001"),
    ({"priority": 1.5}, "priority must be a whole number"),
    ({"delay": -1.0}, "delay must not be negative"),
    ({"delay": nan}, "delay must not be negative.* and is nan"),
    ({"delay": inf}, "delay must not be negative.* and is inf"),
    ({"delay": "5"}, "delay must not be negative.* and is '5'"),
    ({"timeout": nan}, "timeout must be more than 0 seconds and at most 100 years, and is nan"),
    ({"timeout": 1e300}, "timeout must be more than 0 seconds and at most 100 years"),
    ({"expires": 1e300}, "expires must be more than 0 seconds and at most 100 years"),
    ({"attempts": 10**12}, "attempts must be a whole number from 1 to 1,000,000, and is 10{12}"),
    ({"queue": "Bad Queue"}, "A queue cannot be called 'Bad Queue'"),
    ({"queue": ""}, "A queue cannot be called ''"),
    ({"lane": 5}, "A lane has 1 to 500 characters"),
    ({"lane": "a\0b"}, "A lane has 1 to 500 characters and no NUL"),
    ({"lane": "x" * 501}, "A lane has 1 to 500 characters"),
    ({"correlation_id": "a\0b"}, "A correlation_id has 1 to 500 characters and no NUL"),
    ({"correlation_id": lambda _: "a\0b"}, "A correlation_id has 1 to 500 characters and no NUL"),
    ({"if_taken": "maybe"}, "if_taken is 'return' or 'raise', not 'maybe'"),
    ({"key": 5}, "A key "),
    ({"key": "\ud800"}, "nor half of a character"),
    ({"timeout": 0.0}, "timeout must be more than 0 seconds"),
    ({"expires": -1.0}, "expires must be more than 0 seconds"),
    ({"attempts": 0}, "attempts must be a whole number from 1 to 1,000,000, and is 0"),
    ({"key": ""}, "A key has 1 to 500 characters"),
    ({"key": "x" * 501}, "A key has 1 to 500 characters"),
    ({"key": "a\0"}, "no NUL"),
]


async def test_a_senseless_option_is_refused_in_words(app_with: AppWith) -> None:
    app = await app_with(note)
    for options, words in SENSELESS:
        with pytest.raises(ConfigurationError, match=words):
            await app.enqueue(note, "a", **options)
        with pytest.raises(ConfigurationError, match=words):
            await app.enqueue_many(note, ["a"], **options)

    assert await app.jobs.find() == []


async def test_an_id_that_no_row_can_have_is_not_found(app_with: AppWith) -> None:
    app = await app_with(note)
    for id in (2**70, 2**63, 0, -1):
        for question in (
            app.jobs.get(id),
            app.jobs.attempts(id),
            app.jobs.checkpoints(id),
            app.jobs.cancel(id),
            app.jobs.retry(id),
            app.jobs.restart(id),
            app.jobs.signal(id, "x"),
            app.batches.get(id),
            app.batches.progress(id),
            app.batches.explain(id),
            app.batches.events(id),
            app.batches.resume(id),
        ):
            with pytest.raises(NotFound, match=f"There is no (job|batch) {id}"):
                await question

    assert await app.jobs.find(before=2**70, batch_id=2**70) == []


async def test_nothing_is_older_than_any_time(app_with: AppWith) -> None:
    app = await app_with(note)

    assert await app.system.prune(timedelta.max) == 0


async def test_a_page_is_bounded(app_with: AppWith) -> None:
    app = await app_with(note)
    for limit in (0, 10_001, 10**12):
        with pytest.raises(ConfigurationError, match="at least 1 and at most 10,000"):
            await app.jobs.find(limit=limit)
        with pytest.raises(ConfigurationError, match="at least 1 and at most 10,000"):
            await app.batches.find(limit=limit)


async def test_an_option_that_does_not_exist_is_refused(app_with: AppWith) -> None:
    app = await app_with(note)

    with pytest.raises(ConfigurationError, match="An enqueue has no option 'dely'") as near:
        await app.enqueue(note, "a", dely=3)  # type: ignore[call-arg]
    assert near.value.next == "Did you mean delay=?"
    with pytest.raises(ConfigurationError, match="An enqueue has no option 'batch_id'") as far:
        await app.enqueue_many(note, ["a"], batch_id=1)  # type: ignore[call-arg]
    assert far.value.next.startswith("There are queue, lane, priority")
    with pytest.raises(ConfigurationError, match="A batch has no option 'rout'"):
        await app.batch(note, ["a"], name="letters", rout="/")  # type: ignore[call-arg]


# — keys —


async def test_the_same_key_gives_the_same_job_back(app_with: AppWith, psql: psycopg.Connection) -> None:
    app = await app_with(note)
    first = await app.enqueue(note, "one", key="k")
    second = await app.enqueue(note, "two", key="k")
    await drain(app)
    third = await app.enqueue(note, "three", key="k")

    assert (second.id, second.new, third.id, third.new) == (first.id, False, first.id, False)
    assert third.state is JobState.COMPLETED
    assert inputs(psql) == ["one"]


async def test_a_taken_key_may_be_told_instead(app_with: AppWith, psql: psycopg.Connection) -> None:
    app = await app_with(note)
    first = await app.enqueue(note, "one", key="k", if_taken="raise")
    with pytest.raises(KeyTaken, match="has the key 'k' already") as caught:
        await app.enqueue(note, "two", key="k", if_taken="raise")
    with pytest.raises(KeyTaken):
        await app.enqueue_many(note, ["new", "k"], key=lambda text: text, if_taken="raise")

    assert caught.value.job_id == first.id
    assert caught.value.next
    assert inputs(psql) == ["one"], "all or none"


async def test_a_key_belongs_to_its_pipeline(app_with: AppWith) -> None:
    @pipeline("other")
    async def other(_: str, _run: Run) -> None: ...

    app = await app_with(note, other)
    one = await app.enqueue(note, "a", key="k")
    two = await app.enqueue(other, "a", key="k")

    assert one.id != two.id
    assert two.new


@pytest.mark.parametrize("count", [3, 2_500])
async def test_a_key_that_comes_twice_in_one_call_is_one_job(
    app_with: AppWith, psql: psycopg.Connection, count: int
) -> None:
    app = await app_with(note)
    texts = [str(number) for number in range(count)]
    receipts = await app.enqueue_many(note, [*texts, *texts], key=lambda text: text, if_taken="raise")

    assert [receipt.id for receipt in receipts[:count]] == [receipt.id for receipt in receipts[count:]]
    assert len(inputs(psql)) == count


async def test_a_key_whose_job_is_pruned_before_it_is_found_is_free(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    app = await app_with(note)
    first = await app.enqueue(note, "first", key="k")
    asked = job_commands.enqueue_one(note, "second", "k", {}, notify=lambda _queue: False)
    taken = await app.fetch(next(asked))
    psql.execute("delete from retoma.jobs")
    psql.commit()
    found = await app.fetch(asked.send(taken))
    again = await app.fetch(asked.send(found))
    with pytest.raises(StopIteration) as done:
        asked.send(again)

    assert (taken, found) == ([], [])
    assert done.value.value.new
    assert done.value.value.id != first.id
    assert inputs(psql) == ["second"]


async def test_a_key_among_many_whose_job_is_pruned_before_it_is_found_is_free(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    app = await app_with(note)
    asked = job_commands.enqueue(note, ["a", "b", "b"], str, {}, notify=lambda _queue: False)
    written = await app.fetch(next(asked))
    psql.execute("delete from retoma.jobs where key = 'b'")  # as if another had written it, and it was pruned since
    psql.commit()
    found = await app.fetch(asked.send([each for each in written if each.key == "a"]))
    again = await app.fetch(asked.send(found))
    with pytest.raises(StopIteration) as done:
        asked.send(again)

    assert found == []
    a, b, same = done.value.value
    assert (a.key, b.key, same) == ("a", "b", b)
    assert inputs(psql) == ["a", "b"]


@pytest.mark.parametrize("commits", [True, False])
async def test_a_key_that_another_transaction_is_writing_is_waited_for(
    app_with: AppWith, psql: psycopg.Connection, *, commits: bool
) -> None:
    app = await app_with(note)
    async with app.transaction() as connection:
        first = await app.enqueue(note, "first", key="k", conn=connection)
        second = asyncio.create_task(app.enqueue(note, "second", key="k"))
        while psql.execute(BLOCKED).fetchone() != (1,):
            await asyncio.sleep(0.01)
        assert not second.done()
        if not commits:
            raise psycopg.Rollback
    receipt = await second

    assert receipt.new is not commits
    assert (receipt.id == first.id) is commits
    assert inputs(psql) == ["first" if commits else "second"]


async def test_many_at_once_with_the_same_keys_make_each_job_once(app_with: AppWith, psql: psycopg.Connection) -> None:
    app = await app_with(note)
    texts = [str(number) for number in range(200)]
    calls = [app.enqueue_many(note, texts[turn:] + texts[:turn], key=lambda text: text) for turn in range(0, 200, 30)]
    answers = await asyncio.gather(*calls)

    assert len(inputs(psql)) == 200
    assert len({frozenset(receipt.id for receipt in answer) for answer in answers}) == 1
    assert sum(receipt.new for answer in answers for receipt in answer) == 200


# — when —


async def test_a_smaller_number_goes_first_and_equals_keep_their_order(app_with: AppWith) -> None:
    done = []

    @pipeline("ordered", priority=1)
    async def ordered(name: str, _run: Run) -> None:
        done.append(name)

    app = await app_with(ordered)
    await app.enqueue(ordered, "usual 1")
    await app.enqueue(ordered, "last", priority=2)
    await app.enqueue(ordered, "usual 2")
    await app.enqueue(ordered, "first", priority=-1)
    await drain(app, at_once=1)

    assert done == ["first", "usual 1", "usual 2", "last"]


async def test_a_job_waits_for_its_hour(app_with: AppWith) -> None:
    app = await app_with(note)
    hour = datetime.now(UTC) + timedelta(hours=1)
    at = await app.enqueue(note, "at", run_at=hour)
    after = await app.enqueue(note, "after", delay=3600)
    past = await app.enqueue(note, "past", run_at=hour - timedelta(days=9))

    assert await drain(app) == 1
    assert (await app.jobs.get(past.id)).state is JobState.COMPLETED
    assert (await app.jobs.get(at.id)).run_at == hour

    await age(app, at, hours=2)
    await age(app, after, hours=2)
    assert await drain(app) == 2


async def test_a_job_that_waited_too_long_has_failed(app_with: AppWith) -> None:
    @pipeline("fresh", expires=60)
    async def fresh(_: str, _run: Run) -> None: ...

    app = await app_with(fresh)
    late = await app.enqueue(fresh, "late")
    patient = await app.enqueue(fresh, "patient", expires=7200)
    for receipt in (late, patient):
        await age(app, receipt, hours=1)
    await drain(app)

    job = await app.jobs.get(late.id)
    assert (job.state, job.reason, job.attempt) == (JobState.FAILED, "expired", 0)
    assert (await app.jobs.get(patient.id)).state is JobState.COMPLETED


async def test_a_job_that_was_begun_in_time_does_not_expire_while_it_sleeps_or_waits_out_a_failure(
    app_with: AppWith,
) -> None:
    @pipeline("fresh", expires=60, retry=Retry(attempts=2, wait=100.0))
    async def fresh(how: str, run: Run) -> None:
        if how == "sleep":
            await run.sleep("nap", 3600)
        elif run.attempt == 1:
            raise Broken

    app = await app_with(fresh)
    await app.enqueue_many(fresh, ["sleep", "fail"])
    await drain(app)
    await age(app, hours=2)
    await drain(app)

    assert {job.state for job in await app.jobs.find()} == {JobState.COMPLETED}


async def test_the_time_that_a_job_may_wait_begins_when_it_may_run(app_with: AppWith) -> None:
    @pipeline("fresh", expires=60)
    async def fresh(_: str, _run: Run) -> None: ...

    app = await app_with(fresh)
    receipt = await app.enqueue(fresh, "later", delay=3600)
    await age(app, receipt, minutes=59)
    await drain(app)
    assert (await app.jobs.get(receipt.id)).state is JobState.QUEUED

    await age(app, receipt, minutes=1, seconds=30)
    assert await drain(app) == 1
    assert (await app.jobs.get(receipt.id)).state is JobState.COMPLETED


async def test_a_paused_queue_lets_nobody_in_until_it_is_resumed(app_with: AppWith) -> None:
    @pipeline("other")
    async def other(_: str, _run: Run) -> None: ...

    app = await app_with(note, other)
    await app.enqueue(note, "a")
    await app.enqueue(other, "a")
    await app.queues.pause("note", reason="a fire")
    await app.queues.pause("note", reason="a fire")

    assert await drain(app) == 1
    (queue,) = [each for each in await app.queues.all() if each.name == "note"]
    assert (queue.waiting, queue.due, queue.running, queue.paused_reason) == (1, 1, 0, "a fire")
    assert queue.paused_at is not None
    assert queue.oldest_due_seconds is not None

    await app.queues.resume("note")
    assert await drain(app) == 1
    assert [(each.name, each.paused_at) for each in await app.queues.all()] == [("note", None)]


async def test_a_job_may_wait_in_another_queue_than_its_pipelines(app_with: AppWith) -> None:
    app = await app_with(note)
    receipt = await app.enqueue(note, "a", queue="night")

    assert await drain(app) == 0
    assert await drain(app, queues=["night"]) == 1
    assert (await app.jobs.get(receipt.id)).queue == "night"


# — hints —


async def test_jobs_that_come_fast_share_hints_and_one_follows_the_last(app_with: AppWith, database_url: str) -> None:
    app = await app_with(note)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as ear:
        await ear.execute("listen retoma")
        for number in range(200):
            await app.enqueue(note, str(number))
        await ear.execute("select 1")
        during = [hint async for hint in ear.notifies(timeout=0)]
        after = [hint.payload async for hint in ear.notifies(timeout=120, stop_after=1)]

    assert 1 <= len(during) < 200
    assert after == ["note"]


async def test_an_app_that_was_closed_before_a_late_hint_sends_the_next(app_with: AppWith, database_url: str) -> None:
    app = await app_with(note)
    for text in ("a", "b"):
        await app.enqueue(note, text)
    await app.close()
    await app.open()
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as ear:
        app.registry.hint_due("note")
        await ear.execute("listen retoma")
        await app.enqueue(note, "c")

        assert [hint.payload async for hint in ear.notifies(timeout=120, stop_after=1)] == ["note"]


# — the dead letters, and what can be done about them —


async def test_dead_letters_are_listed_newest_first_and_by_page(app_with: AppWith) -> None:
    app = await app_with(note)
    await app.enqueue_many(note, ["ok", *["fail"] * 5])
    await drain(app)

    first = await app.jobs.find(state="failed", limit=3)
    rest = await app.jobs.find(state=JobState.FAILED, limit=3, before=first[-1].id)
    assert [job.id for job in [*first, *rest]] == [6, 5, 4, 3, 2]
    assert {(job.reason, job.attempt) for job in first} == {("Broken", 2)}
    assert [job.id for job in await app.jobs.find(pipeline="note", queue="note", state="completed")] == [1]
    assert await app.jobs.find(key="nobody") == []
    with pytest.raises(ConfigurationError, match="There is no state 'dead'") as caught:
        await app.jobs.find(state="dead")
    assert "failed" in caught.value.next
    with pytest.raises(ConfigurationError, match="at least 1"):
        await app.jobs.find(limit=0)


async def test_a_retry_by_hand_keeps_what_was_done(app_with: AppWith) -> None:
    app = await app_with(note)
    receipt = await app.enqueue(note, "fail")
    await drain(app)
    again = await app.jobs.retry(receipt.id)
    twice = await app.jobs.retry(receipt.id)
    await drain(app)

    assert (again.state, again.error, again.attempt, again.max_attempts) == (JobState.QUEUED, None, 2, 3)
    assert twice.state is JobState.QUEUED, "to ask twice is no harm"
    job = await app.jobs.get(receipt.id)
    assert (job.state, job.attempt) == (JobState.FAILED, 3)
    assert len(await app.jobs.checkpoints(receipt.id)) == 1
    assert (await app.jobs.retry(receipt.id, attempts=5)).max_attempts == 8


async def test_cancelled_and_reviewed_jobs_are_tried_again_by_hand_too(app_with: AppWith) -> None:
    app = await app_with(note)
    reviewed = await app.enqueue(note, "review")
    await drain(app)
    cancelled = await app.enqueue(note, "a")
    await app.jobs.cancel(cancelled.id)
    await app.jobs.retry(cancelled.id)
    job = await app.jobs.retry(reviewed.id)

    assert job.state is JobState.QUEUED
    assert await drain(app) == 2
    assert (await app.jobs.get(cancelled.id)).state is JobState.COMPLETED


async def test_what_has_completed_is_not_retried_but_may_be_restarted(app_with: AppWith) -> None:
    app = await app_with(note)
    receipt = await app.enqueue(note, "a")
    with pytest.raises(Conflict, match="only an ended job"):
        await app.jobs.restart(receipt.id)
    await drain(app)
    with pytest.raises(Conflict, match="is completed") as caught:
        await app.jobs.retry(receipt.id)
    assert "restart" in caught.value.next

    job = await app.jobs.restart(receipt.id)
    assert (job.state, job.reason, job.output) == (JobState.QUEUED, "restart", None)
    await drain(app)

    before, after = await app.jobs.checkpoints(receipt.id)
    assert (before.generation, before.reason) == (1, "restart")
    assert before.set_aside_at is not None
    assert (after.generation, after.set_aside_at) == (2, None)
    assert (await app.jobs.get(receipt.id)).state is JobState.COMPLETED


async def test_a_restarted_job_has_the_attempts_of_a_new_one_each_time(app_with: AppWith) -> None:
    app = await app_with(note)
    receipt = await app.enqueue(note, "fail")
    await drain(app)
    tries = []
    for _ in range(3):
        before = await app.jobs.restart(receipt.id)
        await drain(app)
        tries.append((await app.jobs.get(receipt.id)).attempt - before.attempt)

    assert tries == [2, 2, 2]


async def test_a_restarted_job_has_forgotten_what_it_was_told(app_with: AppWith) -> None:
    @pipeline("asking")
    async def asking(_: None, run: Run) -> int:
        return await run.wait_for("answer", int)

    app = await app_with(asking)
    receipt = await app.enqueue(asking, None)
    await app.jobs.signal(receipt.id, "answer", 1)
    await drain(app)
    await app.jobs.restart(receipt.id)
    await drain(app)
    assert (await app.jobs.get(receipt.id)).reason == "waiting"

    await app.jobs.signal(receipt.id, "answer", 2)
    await drain(app)
    assert await app.jobs.output(asking, receipt.id) == 2


async def test_what_ended_long_ago_is_pruned_with_all_that_belongs_to_it(
    app_with: AppWith, psql: psycopg.Connection
) -> None:
    app = await app_with(note, retention_days=30)
    old, failed, fresh = await app.enqueue_many(note, ["a", "fail", "b"])
    waiting = await app.enqueue(note, "c", delay=10**7)
    await drain(app)
    for receipt in (old, failed, waiting):
        await age(app, receipt, days=31)
    await age(app, fresh, days=29)

    assert await app.system.prune() == 2
    assert {job.id for job in await app.jobs.find()} == {fresh.id, waiting.id}
    left = psql.execute("select distinct job_id from retoma.attempts union select job_id from retoma.checkpoints")
    assert left.fetchall() == [(fresh.id,)]
    assert await app.system.prune(timedelta(0)) == 1
    with pytest.raises(ConfigurationError):
        await app.system.prune(timedelta(days=-1))


async def test_what_is_not_there_is_said_in_words(app_with: AppWith) -> None:
    app = await app_with(note)
    for ask in (
        app.jobs.get,
        app.jobs.attempts,
        app.jobs.checkpoints,
        app.jobs.cancel,
        app.jobs.retry,
        app.jobs.restart,
    ):
        with pytest.raises(NotFound, match="There is no job 404") as caught:
            await ask(404)
        assert caught.value.next
    receipt = await app.enqueue(note, "fail")
    with pytest.raises(NotFound, match="is queued and has no output"):
        await app.jobs.output(note, receipt.id)


async def test_an_output_is_read_with_its_own_pipeline(app_with: AppWith) -> None:
    @pipeline("other")
    async def other(_: str, _run: Run) -> int:
        return 1

    app = await app_with(note, other)
    receipt = await app.enqueue(note, "12")
    await drain(app)

    with pytest.raises(ConfigurationError, match="is of pipeline 'note', not 'other'"):
        await app.jobs.output(other, receipt.id)


async def test_waiting_for_a_job_ends_with_it_or_with_its_time(app_with: AppWith) -> None:
    app = await app_with(note)
    receipt = await app.enqueue(note, "a")
    with pytest.raises(TimeoutError):
        await app.jobs.wait(receipt.id, timeout=0.05, every=0.01)
    waiting = asyncio.create_task(app.jobs.wait(receipt.id, every=0.01))
    await drain(app)

    assert (await waiting).state is JobState.COMPLETED

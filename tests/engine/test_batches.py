"""Batches by the front door, in programs of every kind."""

from __future__ import annotations

import asyncio
from decimal import Decimal
from typing import Any

import psycopg
import pytest

import retoma.sync
from retoma import Retry, Run, pipeline
from retoma.errors import BatchConflict, ConfigurationError, NotFound
from retoma.testing import drain

SEEN: list[dict[str, Any]] = []


@pipeline("read", retry=Retry(attempts=3, wait=0.0), stall_seconds=60)
async def read(name: str, run: Run) -> str:
    SEEN.append(run.configuration)
    if "bad" in name:
        raise ValueError(f"cannot read {name}")
    return await run.step("upper", name.upper)


@pytest.fixture(autouse=True)
def _nothing_seen() -> None:
    SEEN.clear()


async def test_a_batch_is_made_followed_and_completed(app_with: Any) -> None:
    app = await app_with(read)
    batch = await app.batch(read, ["a", "b", "c"], name="Letters", key=str, route="/classificador/")
    working = asyncio.create_task(drain(app))
    seen = [progress async for progress in app.batches.watch(batch.id, every=0.01)]
    await working

    assert seen[-1].state == "completed"
    assert [each.done for each in seen] == sorted(each.done for each in seen)
    assert all(each.queued + each.running + each.done == each.total == 3 for each in seen)
    assert (await app.batches.get(batch.id)).route == "/classificador/"
    assert seen[-1].last_key in {"a", "b", "c"}
    assert await app.system.verify() == []


async def test_its_jobs_read_the_configuration_it_was_made_with_also_after_a_resume(
    app_with: Any,
) -> None:
    app = await app_with(read)
    batch = await app.batch(read, ["a", "b"], name="x", configuration={"model": "m-1", "prompt": "p"})
    await drain(app, at_once=1, queues=["read"])
    other = await app.batches.restart(batch.id, configuration={"model": "m-2"})
    await drain(app)

    assert SEEN[:2] == [{"model": "m-1", "prompt": "p"}] * 2
    assert SEEN[2:] == [{"model": "m-2"}] * 2
    assert other.word == "restarted"
    plan = await app.batches.plan(batch.id, configuration={"model": "m-3"})
    assert (plan.reruns, plan.skips) == (2, 0), "another configuration would run all again, and only a restart does"


async def test_large_numbers_of_a_configuration_come_back_as_they_were(app_with: Any) -> None:
    app = await app_with(read)
    large = {"seed": 10**40, "rates": [-(2**63) - 1, 0.5]}
    batch = await app.batch(read, ["a"], name="x", configuration=large)
    await drain(app)

    assert (await app.batches.get(batch.id)).configuration == large
    assert [large] == SEEN


async def test_a_job_alone_has_an_empty_configuration_of_its_own(app_with: Any) -> None:
    app = await app_with(read)
    await app.enqueue(read, "a")
    await drain(app)

    assert SEEN == [{}]


async def test_retries_and_resumes_are_limited_per_batch(app_with: Any) -> None:
    app = await app_with(read)
    batch = await app.batch(read, ["bad"], name="x", max_retries=0, max_resumes=5)
    await drain(app)

    [job] = await app.jobs.find(pipeline="read")
    assert (job.attempt, job.max_attempts, batch.max_resumes) == (1, 1, 5)


async def test_a_batch_is_there_or_not_with_the_caller_s_own_rows(app_with: Any, psql: psycopg.Connection) -> None:
    app = await app_with(read)

    async def changes_its_mind() -> None:
        async with app.transaction() as connection:
            await app.batch(read, ["a"], name="x", conn=connection)
            raise RuntimeError("no")

    with pytest.raises(RuntimeError):
        await changes_its_mind()

    assert await app.batches.find() == []
    assert psql.execute("select count(*) from retoma.jobs").fetchone() == (0,)
    assert psql.execute("select count(*) from retoma.lanes").fetchone() == (0,)


async def test_the_door_without_await_says_the_same(settings: Any, app_with: Any) -> None:
    await app_with(read)

    def plain() -> None:
        with retoma.sync.Retoma(settings=settings, pipelines=[read]) as app:
            batch = app.batches.open(read, name="parts", labels={"client": "a"}, budget=Decimal(5))
            app.batches.fill(batch.id, read, ["a", "b"], key=str)
            assert app.batches.seal(batch.id, expected=2).total == 2
            assert [each.id for each in app.batches.find(labels={"client": "a"})] == [batch.id]
            assert app.batches.explain(batch.id).verdict == "no_workers"
            assert app.batches.pause(batch.id).state == "paused"
            assert app.batches.resume(batch.id).word == "no_workers"
            assert app.batches.change(batch.id, name="other").name == "other"
            assert app.batches.plan(batch.id).begins == 2
            assert [each.kind for each in app.batches.events(batch.id)][:2] == ["created", "sealed"]
            assert app.batches.cancel(batch.id).state == "cancelled"
            assert next(app.batches.watch(batch.id)).cancelled == 2
            assert app.system.verify() == []

    await asyncio.to_thread(plain)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"name": ""}, "name"),
        ({"name": "x", "max_resumes": -1}, "max_resumes"),
        ({"name": "x", "max_failure_rate": 1.5}, "part of 1"),
        ({"name": "x", "stall_seconds": 0.0}, "stall_seconds"),
        ({"name": "x", "at_once": 0}, "at_once"),
        ({"name": "x", "budget": Decimal(-1)}, "budget"),
        ({"name": "x", "configuration": {"f": object()}}, "must be JSON"),
        ({"name": "x", "configuration": {"f": {1: 10**40}}}, "must be JSON"),
        ({"name": "x", "configuration": {"f": "\ud800", "g": 10**40}}, "must be JSON"),
        ({"name": "x", "labels": {"a": "\0"}}, "NUL"),
    ],
)
async def test_what_cannot_be_meant_is_refused_before_anything_is_there(
    app_with: Any, wrong: dict[str, Any], said: str
) -> None:
    app = await app_with(read)

    with pytest.raises(ConfigurationError, match=said):
        await app.batch(read, ["a"], **wrong)
    assert await app.batches.find() == []


async def test_a_batch_of_nothing_is_refused(app_with: Any) -> None:
    app = await app_with(read)

    with pytest.raises(BatchConflict, match="none that waits") as refused:
        await app.batch(read, [], name="x")
    assert refused.value.code == "batch_empty"
    with pytest.raises(NotFound):
        await app.batches.progress(1)


async def test_at_once_lets_only_so_many_of_a_batch_run(app_with: Any) -> None:
    most, now = 0, 0

    @pipeline("slow")
    async def slow(_: int, _run: Run) -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.02)
        now -= 1

    app = await app_with(slow)
    await app.batch(slow, range(12), name="x", at_once=2)
    await drain(app, at_once=10)

    assert most == 2


async def test_when_a_document_failed_and_with_what_stack_is_kept(app_with: Any) -> None:
    app = await app_with(read)
    batch = await app.batch(read, ["bad.pdf"], name="x", key=str)
    await drain(app)

    [job] = await app.jobs.find(state="failed")
    attempts = await app.jobs.attempts(job.id)
    assert (job.attempt, job.key) == (3, "bad.pdf")
    assert "ValueError: cannot read bad.pdf" in (job.error or "")
    assert "Traceback" in (job.error or "")
    assert attempts[-1].ended_at == max(each.ended_at for each in attempts)
    assert (await app.batches.get(batch.id)).failures == 1


async def test_each_document_that_ends_moves_the_time_of_the_last_progress_and_the_last_key(app_with: Any) -> None:
    app = await app_with(read)
    batch = await app.batch(read, ["a", "b"], name="x", key=str)
    seen = []

    async def look() -> None:
        seen.extend(
            [
                (each.done, each.last_progress_at, each.last_key)
                async for each in app.batches.watch(batch.id, every=0.005)
            ]
        )

    looking = asyncio.create_task(look())
    await drain(app, at_once=1)
    await looking
    by_done = {done: (at, key) for done, at, key in seen}
    assert by_done[2][1] == "b"
    if 1 in by_done:
        assert by_done[1][0] < by_done[2][0]
        assert by_done[1][1] == "a"

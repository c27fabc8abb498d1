"""The last step of a batch: work over the whole of it, once its jobs have ended."""

from __future__ import annotations

from typing import Any

import pytest

from retoma import BatchEnd, BatchId, JobId, JobState, Result, Retry, Review, Run, SyncRun, pipeline
from retoma.errors import ConfigurationError
from retoma.testing import drain, rehearse

BROKEN: set[str] = set()
RAN: list[str] = []


@pytest.fixture(autouse=True)
def _nothing_yet() -> None:
    BROKEN.clear()
    RAN.clear()


def count(batch: BatchEnd) -> int:
    RAN.append("count")
    return batch.total


def publish(number: int) -> str:
    RAN.append("publish")
    if "publish" in BROKEN:
        raise ValueError("nobody takes it")
    return f"{number} letters"


@pipeline("tell-all", retry=Retry(attempts=1))
async def tell_all(batch: BatchEnd, run: Run) -> str:
    number = await run.step("count", count, batch)
    return await run.step("publish", publish, number)


@pipeline("read-letter", retry=Retry(attempts=1), finish=tell_all)
async def read(name: str, run: Run) -> str:
    RAN.append(name)
    if name in BROKEN:
        raise ValueError(f"cannot read {name}")
    return await run.step("upper", name.upper)


async def test_the_last_step_runs_once_after_all_jobs_and_completes_the_batch(app_with: Any) -> None:
    app = await app_with(read)
    batch = await app.batch(read, ["a", "b", "c"], name="Letters", key=str)
    assert batch.finish is not None
    assert (batch.finish.state, batch.finish.waits_for) == ("waiting", 3)

    await drain(app)

    now = await app.batches.progress(batch.id)
    assert RAN[-2:] == ["count", "publish"]
    assert sorted(RAN[:-2]) == ["a", "b", "c"]
    assert (now.state, now.total, now.completed, now.done) == ("completed", 3, 3, 3), "it counts letters"
    assert now.finish is not None
    assert (now.finish.state, now.finish.steps, now.finish.step) == ("completed", 2, "publish")
    assert now.last_key in {"a", "b", "c"}
    assert await app.jobs.output(tell_all, now.finish.job_id) == "3 letters"
    assert await app.system.verify() == []


async def test_a_last_step_needs_no_place_in_the_list_of_pipelines_and_may_have_one(app_with: Any) -> None:
    alone, both = await app_with(read), await app_with(read, tell_all)

    assert alone.registry.own == both.registry.own == ["read-letter", "tell-all"]


async def test_letters_that_are_tried_again_make_the_last_step_run_again_after_them_and_from_its_beginning(
    app_with: Any,
) -> None:
    app = await app_with(read)
    BROKEN.add("b")
    batch = await app.batch(read, ["a", "b", "c"], name="Letters", key=str)
    await drain(app)
    first = await app.batches.progress(batch.id)
    assert (first.state, first.failed, first.finish and first.finish.state) == ("completed", 1, "completed")
    BROKEN.clear()
    RAN.clear()

    await app.batches.retry_failed(batch.id)
    waiting = await app.batches.progress(batch.id)
    await drain(app)

    now = await app.batches.progress(batch.id)
    assert waiting.finish is not None
    last = waiting.finish
    assert (waiting.state, last.state, last.run, last.waits_for, last.steps) == (
        "running", "waiting", 2, 1, 0,
    )  # fmt: skip
    assert RAN == ["b", "count", "publish"]
    assert now.finish is not None
    assert (now.state, now.completed, now.finish.state, now.finish.run) == ("completed", 3, "completed", 2)
    assert now.finish.job_id == waiting.finish.job_id
    kept = await app.jobs.checkpoints(now.finish.job_id)
    assert [(each.step, each.set_aside_at is None) for each in kept] == [
        ("count", False), ("publish", False), ("count", True), ("publish", True),
    ]  # fmt: skip
    assert await app.system.verify() == []


@pytest.mark.parametrize("how", ["retry", "restart"])
async def test_one_letter_that_is_tried_again_by_itself_does_so_too(app_with: Any, how: str) -> None:
    app = await app_with(read)
    BROKEN.add("b")
    batch = await app.batch(read, ["a", "b"], name="Letters", key=str)
    await drain(app)
    (letter,) = [each for each in await app.batches.members(batch.id) if each.key == "b"]
    BROKEN.clear()
    RAN.clear()

    await (app.jobs.retry(letter.id) if how == "retry" else app.jobs.restart(letter.id))
    await drain(app)

    assert RAN == ["b", "count", "publish"]
    assert (await app.batches.get(batch.id)).state == "completed"
    assert await app.system.verify() == []


async def test_a_last_step_that_failed_fails_the_batch_and_a_resume_continues_it_from_its_steps(app_with: Any) -> None:
    app = await app_with(read)
    BROKEN.add("publish")
    batch = await app.batch(read, ["a", "b"], name="Letters", key=str)
    await drain(app)
    failed = await app.batches.get(batch.id)
    why = await app.batches.explain(batch.id)
    BROKEN.clear()
    RAN.clear()

    did = await app.batches.resume(batch.id)
    await drain(app)

    now = await app.batches.get(batch.id)
    assert (failed.state, failed.reason, failed.failures) == ("failed", "finish", 0)
    assert "last step" in why.sentence
    assert "nobody takes it" in why.sentence
    assert (did.changed, did.word, did.batch.state) == (True, "resumed", "running")
    assert RAN == ["publish"], "what was counted is not counted again"
    assert (now.state, now.reason, now.resumes) == ("completed", None, 0)
    assert await app.system.verify() == []


async def test_it_does_not_run_where_no_letter_ended_well(app_with: Any) -> None:
    app = await app_with(read)
    BROKEN.update("ab")
    batch = await app.batch(read, ["a", "b"], name="Letters", key=str)
    await drain(app)
    await app.batches.look_after()

    now = await app.batches.progress(batch.id)
    assert sorted(RAN) == ["a", "b"]
    assert (now.state, now.failed) == ("completed", 2)
    assert now.finish is not None
    assert (now.finish.state, now.finish.reason) == ("cancelled", "nothing to work on")
    assert await app.system.verify() == []

    BROKEN.clear()
    RAN.clear()
    await app.batches.retry_failed(batch.id)
    await drain(app)

    assert sorted(RAN[:-2]) == ["a", "b"], "once some do, it runs"
    assert RAN[-2:] == ["count", "publish"]
    assert await app.system.verify() == []


async def test_a_batch_is_cancelled_with_its_last_step_and_comes_back_with_it(app_with: Any) -> None:
    app = await app_with(read)
    batch = await app.batch(read, ["a", "b"], name="Letters", key=str)

    cancelled = await app.batches.cancel(batch.id)
    sound = await app.system.verify()
    await app.batches.retry_failed(batch.id, cancelled=True)
    await drain(app)

    assert cancelled.finish is not None
    assert (cancelled.state, cancelled.finish.state, sound) == ("cancelled", "cancelled", [])
    assert RAN[-2:] == ["count", "publish"]
    assert sorted(RAN[:-2]) == ["a", "b"]
    assert (await app.batches.get(batch.id)).state == "completed"
    assert await app.system.verify() == []


async def test_a_paused_batch_does_not_begin_its_last_step_until_it_goes_on(app_with: Any) -> None:
    app = await app_with(read)
    batch = await app.batch(read, ["a"], name="Letters", key=str)
    (letter,) = await app.batches.members(batch.id)
    await app.batches.pause(batch.id)
    await app.jobs.cancel(letter.id)
    other = await app.batch(read, ["x", "y"], name="Others", key=str)
    await app.batches.pause(other.id)
    await drain(app)
    paused = list(RAN)

    await app.batches.resume(other.id)
    await drain(app)

    assert paused == []
    assert (await app.batches.get(batch.id)).state == "completed", "nothing was left of it, and nothing ended well"
    assert RAN[-2:] == ["count", "publish"]
    await app.batches.look_after()
    assert await app.system.verify() == []


async def test_a_restart_runs_the_letters_and_then_the_last_step_again(app_with: Any) -> None:
    app = await app_with(read)
    batch = await app.batch(read, ["a", "b"], name="Letters", key=str)
    await drain(app)
    RAN.clear()

    await app.batches.restart(batch.id)
    await drain(app)

    now = await app.batches.get(batch.id)
    assert sorted(RAN[:-2]) == ["a", "b"]
    assert RAN[-2:] == ["count", "publish"]
    assert (now.state, now.finish and now.finish.run) == ("completed", 2)
    assert await app.system.verify() == []


async def test_a_person_may_do_without_the_last_step_or_ask_for_it_again(app_with: Any) -> None:
    app = await app_with(read)
    batch = await app.batch(read, ["a", "b"], name="Letters", key=str)
    assert batch.finish is not None
    assert batch.finish.job_id is not None

    await app.jobs.cancel(batch.finish.job_id)
    await drain(app)
    without = await app.batches.get(batch.id)
    await app.jobs.retry(batch.finish.job_id)
    await drain(app)

    assert (without.state, without.finish and without.finish.state) == ("completed", "cancelled")
    assert RAN[-2:] == ["count", "publish"]
    assert (await app.batches.get(batch.id)).state == "completed"
    assert await app.system.verify() == []


async def test_it_begins_with_the_share_of_the_letters_that_its_pipeline_says(app_with: Any) -> None:
    @pipeline("read-half", retry=Retry(attempts=1), finish=tell_all, finish_at=0.5)
    async def read_half(name: str, _run: Run) -> str:
        if name == "d":
            raise ValueError("not this one")
        return name

    app = await app_with(read_half)
    batch = await app.batch(read_half, ["a", "b", "c", "d"], name="Letters", key=str)
    assert batch.finish is not None
    ids = [each.id for each in await app.batches.members(batch.id)]

    for id in ids[2:]:
        await app.jobs.cancel(id)
    early = await app.batches.progress(batch.id)
    await drain(app)

    assert batch.finish.waits_for == 2
    assert early.finish is not None
    assert early.finish.state == "waiting", "two have ended, and none of them well"
    assert RAN == ["count", "publish"]
    assert (await app.batches.get(batch.id)).state == "completed"
    assert await app.system.verify() == []


async def test_what_a_last_step_cannot_be_is_refused_when_it_is_defined() -> None:
    @pipeline("other-input")
    async def other(number: int, _run: Run) -> int:
        return number

    with pytest.raises(ConfigurationError, match="is not a BatchEnd"):
        pipeline("x", finish=other)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="has no last step of its own"):
        pipeline("x", finish=read)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="a plain function"):
        pipeline("x", finish=count)  # type: ignore[arg-type]
    with pytest.raises(ConfigurationError, match="finish_at is a share"):
        pipeline("x", finish=tell_all, finish_at=1.5)


@pipeline("list-letters", retry=Retry(attempts=1))
async def list_letters(_batch: BatchEnd, run: Run) -> list[str]:
    return [f"{each.key} {each.output} {each.steps}" async for each in run.results(str, steps=["upper"], at_once=2)]


@pipeline("read-listed", retry=Retry(attempts=1), finish=list_letters)
async def read_listed(name: str, run: Run) -> str:
    upper = await run.step("upper", name.upper)
    if name == "b":
        raise ValueError("not this one")
    if name == "d":
        raise Review("D?", reason="is it a d?")
    return f"{upper}!"


async def test_it_reads_the_results_of_the_batch_in_order_and_in_pieces(app_with: Any) -> None:
    app = await app_with(read_listed)
    batch = await app.batch(read_listed, ["a", "b", "c", "d", "e"], name="Letters", key=str)
    assert batch.finish is not None

    await drain(app)

    assert await app.jobs.output(list_letters, batch.finish.job_id) == [
        "a A! {'upper': 'A'}",
        "c C! {'upper': 'C'}",
        "d D? {'upper': 'D'}",
        "e E! {'upper': 'E'}",
    ], "a job in review has ended, and what it proposes is read"
    assert (await app.batches.get(batch.id)).state == "completed"


async def test_it_is_rehearsed_with_results_and_without_a_database() -> None:
    results = [
        Result(JobId(number), f"k{number}", JobState.COMPLETED, "x", steps={"upper": 1, "more": 2})
        for number in (1, 2, 3)
    ]

    done = await rehearse(list_letters, BatchEnd(BatchId(7), "Letters", "read-listed", 3), results=results)

    assert done.output == [f"k{number} x {{'upper': 1}}" for number in (1, 2, 3)]


async def test_a_job_of_no_batch_has_no_results_to_read(app_with: Any) -> None:
    @pipeline("read-nothing", retry=Retry(attempts=1))
    def read_nothing(_number: int, run: SyncRun) -> list[str]:
        return [str(each.output) for each in run.results(str)]

    app = await app_with(read_nothing)
    job = await app.enqueue(read_nothing, 1)

    await drain(app)

    assert "belongs to no batch" in ((await app.jobs.get(job.id)).error or "")

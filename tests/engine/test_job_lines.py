"""The lines of jobs: the six fields are on each, and none speaks of another job."""

from __future__ import annotations

import asyncio
import io
import json
import logging
from contextvars import ContextVar
from typing import Any

from retoma import Retoma, Run, Settings, SyncRun, pipeline
from retoma.telemetry.logs import bridge, write_to
from retoma.testing import drain
from retoma.testing.draining import an_executor

SIX = {"workerId", "jobId", "jobType", "attempts", "status", "durationMs"}
log = logging.getLogger("handlers")


@pipeline("talk")
async def talk(number: int, run: Run) -> int:
    log.info("job %d begins", run.job)
    await asyncio.sleep(0)
    value = await run.step("add", _added, run.job, number)
    log.info("job %d ends", run.job)
    return value


async def _added(job: int, number: int) -> int:
    await asyncio.sleep(0)
    log.info("job %d steps", job)
    return number + 1


@pipeline("talk-plainly")
def talk_plainly(number: int, run: SyncRun) -> int:
    log.info("job %d begins", run.job)
    return run.step("add", lambda: number + 1)


whose: ContextVar[int | None] = ContextVar("whose", default=None)


@pipeline("sign")
async def sign(number: int, _run: Run) -> int | None:
    before = whose.get()
    whose.set(number)
    return before


async def _lines(settings: Settings) -> list[dict[str, Any]]:
    stream = io.StringIO()
    ends = [write_to(stream, level="debug", format="json"), bridge(stream, level="info", format="json")]
    async with Retoma(settings=settings, pipelines=[talk, talk_plainly]) as app:
        for number in range(20):
            await app.enqueue(talk, number, correlation_id=f"request-{number}")
            await app.enqueue(talk_plainly, number, correlation_id=f"plain-{number}")
        await drain(app)
    log.info("job 0 is nobody's")
    for end in ends:
        end()
    return [json.loads(line) for line in stream.getvalue().splitlines()]


async def test_every_line_of_a_job_has_the_six_fields_and_speaks_of_no_other_job(settings: Settings) -> None:
    lines = await _lines(settings)

    of_jobs = [line for line in lines if "jobId" in line and line["event"] != "call.started"]
    assert {line["event"] for line in of_jobs} >= {"attempt.started", "step.started", "step.completed", "attempt.ended"}
    assert [line for line in of_jobs if not line.keys() >= SIX] == []
    foreign = [line for line in lines if line["event"] == "log"]
    *inside, outside = foreign
    assert len(inside) == 20 * 3 + 20
    assert [line for line in inside if f"job {line['jobId']} " not in line["message"]] == []
    correlated = {(line["jobId"], line["correlationId"]) for line in of_jobs}
    assert len(correlated) == 40, "a job has one correlation id, and no other job has it"
    assert "jobId" not in outside


async def test_a_context_variable_that_a_job_sets_is_not_seen_by_the_next_job(settings: Settings) -> None:
    async with Retoma(settings=settings, pipelines=[sign]) as app:
        receipts = await app.enqueue_many(sign, range(300))
        async with an_executor(app, 2, None) as executor:  # it fetches ahead, so that one job's end starts the next
            working = asyncio.create_task(executor.run())
            await app.jobs.wait(receipts[-1].id)
            executor.stop()
            await working
        seen = {await app.jobs.output(sign, each.id) for each in receipts}

    assert seen == {None}

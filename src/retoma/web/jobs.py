"""Jobs: look at them, queue them, act on them."""
# ruff: noqa: FAST003 - the job that {id} names comes in as Found

from __future__ import annotations

import json
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from retoma.app import Retoma
from retoma.errors import CheckpointInvalid
from retoma.model import Job
from retoma.web import asked, shapes
from retoma.web.cursors import cursor_of, opened, point_to_next
from retoma.web.door import Door
from retoma.web.problems import Refusal
from retoma.web.shapes import Fault
from retoma.web.visits import Here, needs

router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=Door)

CONTENT = "content:read"


async def _found(id: Annotated[asked.Id, Path()], visit: Here) -> Job:
    job = await visit.app.job(id, conn=visit.conn)
    visit.see(job.pipeline, f"job {id}")
    return job


Found = Annotated[Job, Depends(_found)]
"""The job that the path names, if the caller may see it."""


@router.get("")
@needs("read", limited=True)
async def list_jobs(
    wanted: Annotated[asked.JobFilter, Query()], visit: Here, request: Request, response: Response
) -> shapes.Jobs:
    """Jobs, the newest first. The dead letters are ``state=failed``."""
    found = await visit.app.jobs(
        state=wanted.state,
        pipeline=visit.only(wanted.pipeline),
        queue=wanted.queue,
        key=wanted.key,
        batch_id=wanted.batch_id,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    return shapes.Jobs(jobs=[shapes.Job.of(job) for job in page], next=following)


@router.post("", status_code=202)
@needs("submit", limited=True)
async def enqueue_job(order: asked.Order, visit: Here, request: Request, response: Response) -> shapes.Receipt:
    """Queue one job of a pipeline. The same key gives the same job back, unless ``if_taken`` is ``raise``."""
    visit.only(order.pipeline)
    known = visit.app.front.own  # not the house's own jobs: those come by the clock
    if order.pipeline not in known:
        said = f"There is no pipeline {order.pipeline!r} here; there are {', '.join(known)}."
        raise Refusal("pipeline_unknown", said=said) if known else Refusal("program_missing")
    options: dict[str, Any] = {
        name.removesuffix("_seconds"): value
        for name, value in order.model_dump(exclude={"pipeline", "input"}, exclude_none=True).items()
    }
    receipt = await visit.app.enqueue(
        visit.app.front.pipeline(order.pipeline),
        _input(visit.app, order),
        correlation_id=visit.correlation_id,
        conn=visit.conn,
        **options,
    )
    place = response.headers["Location"] = f"{request.url.path}/{receipt.id}"
    return shapes.Receipt(id=receipt.id, key=receipt.key, state=receipt.state, new=receipt.new, status_url=place)


def _input(app: Retoma, order: asked.Order) -> Any:
    try:
        return app.front.pipeline(order.pipeline).input.decode(json.dumps(order.input))
    except CheckpointInvalid as error:
        # Its first words are about checkpoints; what follows them is as true of an input.
        reason = error.message.partition(": ")[2] or error.message
        fault = Fault(pointer="/input", code="input_invalid", detail=reason)
        said = f"This is not an input of {order.pipeline!r}: {reason}"
        raise Refusal("validation_failed", said=said, faults=[fault]) from None


@router.get("/{id}")
@needs("read", limited=True)
async def get_job(job: Found, visit: Here) -> shapes.Job:
    """A job as it stands. Its input, output and error are there with the scope ``content:read``."""
    return shapes.Job.of(job, content=visit.may(CONTENT))


@router.get("/{id}/attempts")
@needs("read", limited=True)
async def list_attempts(job: Found, visit: Here) -> shapes.Attempts:
    """How each claim of a job ended. Errors are there with the scope ``content:read``."""
    found = await visit.app.attempts(job.id)
    return shapes.Attempts(attempts=[shapes.Attempt.of(each, content=visit.may(CONTENT)) for each in found])


@router.get("/{id}/checkpoints")
@needs("read", limited=True)
async def list_checkpoints(job: Found, visit: Here) -> shapes.Checkpoints:
    """What the steps of a job produced, also what was set aside. Values are there with the scope ``content:read``."""
    found = await visit.app.checkpoints(job.id)
    return shapes.Checkpoints(checkpoints=[shapes.Checkpoint.of(each, content=visit.may(CONTENT)) for each in found])


@router.post("/{id}/retry")
@needs("operate", limited=True)
async def retry_job(job: Found, visit: Here, body: asked.MoreAttempts | None = None) -> shapes.Job:
    """Try a failed, cancelled or reviewed job again. Finished steps are not done again."""
    more = body or asked.MoreAttempts()
    return shapes.Job.of(await visit.app.retry(job.id, attempts=more.attempts, conn=visit.conn))


@router.post("/{id}/cancel")
@needs("operate", limited=True)
async def cancel_job(job: Found, visit: Here, body: asked.Why | None = None) -> shapes.Job:
    """Stop a job. At once when it waits, with the next heartbeat when it runs."""
    why = body or asked.Why()
    return shapes.Job.of(await visit.app.cancel(job.id, reason=why.reason, conn=visit.conn))


@router.post("/{id}/restart")
@needs("operate", limited=True)
async def restart_job(job: Found, visit: Here, body: asked.MoreAttempts | None = None) -> shapes.Job:
    """Run an ended job anew from its first step. Its checkpoints are set aside, and what they cost is paid again."""
    more = body or asked.MoreAttempts()
    return shapes.Job.of(await visit.app.restart(job.id, attempts=more.attempts, conn=visit.conn))


@router.post("/{id}/signal")
@needs("operate", limited=True)
async def signal_job(job: Found, signal: asked.Signal, visit: Here) -> shapes.Heard:
    """Tell a job something it waits for. Under each name it hears one thing, the first."""
    return shapes.Heard(heard=await visit.app.signal(job.id, signal.name, signal.value, conn=visit.conn))

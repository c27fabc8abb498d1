"""Jobs: look at them, queue them, act on them."""
# ruff: noqa: FAST003 - the job that {id} names comes in as Found

from __future__ import annotations

import json
from datetime import datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from retoma.app.retoma import Retoma
from retoma.model.ids import JobId
from retoma.model.job import Job
from retoma.run.pipeline import Pipeline
from retoma.run.registry import near_to
from retoma.values.codec import Misfit
from retoma.web.api.schemas import requests, responses
from retoma.web.api.schemas.operations import JobRestart, StepFrom
from retoma.web.api.schemas.responses import Fault
from retoma.web.http.auth import Here, needs
from retoma.web.http.cursors import cursor_of, opened, place_of, placed, point_to_next
from retoma.web.http.errors import Refusal
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.http.route import ApiRoute
from retoma.web.words import language_of
from retoma.web.words.sentences import in_portuguese

router = APIRouter(prefix="/jobs", tags=["jobs"], route_class=ApiRoute)

CONTENT = "content:read"
_HIGHEST_GENERATION = 2**31


async def _found(id: Annotated[requests.Id, Path()], visit: Here) -> Job:
    job = await visit.app.jobs.get(JobId(id), conn=visit.conn)
    visit.see(job.pipeline, f"job {id}")
    return job


Found = Annotated[Job, Depends(_found)]
"""The job that the path names, if the caller may see it."""


@router.get("")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_jobs(
    wanted: Annotated[requests.JobFilter, Query()], visit: Here, request: Request, response: Response
) -> responses.Jobs:
    """Jobs, the newest first. The dead letters are ``discarded=false``: failed, and settled by nobody. Where few jobs
    fit, a page may be short or empty and still name the next one.
    """
    found = await visit.app.jobs.page(
        content=False,
        state=wanted.state,
        pipeline=visit.only(wanted.pipeline),
        queue=wanted.queue,
        key=wanted.key,
        batch_id=wanted.batch_id,
        discarded=wanted.discarded,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit,
    )
    following = None if found.next is None else cursor_of(found.next)
    point_to_next(request, response, following)
    return responses.Jobs(jobs=[responses.Job.of(job) for job in found.jobs], next=following)


@router.post("", status_code=202)
@needs(
    "submit",
    limited=True,
    refuses=(
        "pipelines_limited",
        "pipeline_internal",
        "pipeline_unknown",
        "program_missing",
        "queue_reserved",
        "key_taken",
        "value_unstorable",
    ),
)
async def enqueue_job(order: requests.Order, visit: Here, request: Request, response: Response) -> responses.Receipt:
    """Queue one job of a pipeline. The same key gives the same job back, unless ``if_taken`` is ``raise``."""
    visit.only(order.pipeline)
    pipeline = open_pipeline(visit.app, order.pipeline)
    options: dict[str, Any] = {
        name.removesuffix("_seconds"): value
        for name, value in order.model_dump(exclude={"pipeline", "input"}, exclude_none=True).items()
    }
    await quotas_of(request).make_room(visit, 1)
    receipt = await visit.app.enqueue(
        pipeline,
        _input(visit.app, order),
        correlation_id=visit.correlation_id,
        conn=visit.conn,
        **options,
    )
    await submitted(request, "job", [receipt.id])
    place = response.headers["Location"] = f"{request.url.path}/{receipt.id}"
    return responses.Receipt(id=receipt.id, key=receipt.key, state=receipt.state, new=receipt.new, status_url=place)


def open_pipeline(app: Retoma, name: str) -> Pipeline[Any, Any]:
    """The program's pipeline of that name, if it takes jobs over HTTP. Those of the house come by the clock, and those
    of a product by its own routes, which check what they are given.
    """
    if not app.registry.own:
        raise Refusal("program_missing")
    if name not in app.registry.own:
        raise _unknown(app, name)
    pipeline = app.registry.pipeline(name)
    if pipeline.internal:
        raise Refusal("pipeline_internal", pipeline=name)
    return pipeline


def _unknown(app: Retoma, name: str) -> Refusal:
    """The refusal of a pipeline that is not here, with those that take jobs."""
    known = [each for each in app.registry.own if not app.registry.pipeline(each).internal]
    if not known:
        said = f"There is no pipeline {name!r} here, and no other that takes jobs."
        return Refusal(
            "pipeline_unknown", said=said, next="Start the server with your program: --app MODULE:ATTRIBUTE."
        )
    near = near_to(name, known)
    said = f"There is no pipeline {name!r} here; there are {', '.join(known)}."
    next = f"Did you mean {near}?" if near else "GET /api/v1/pipelines tells what each of them takes."
    return Refusal("pipeline_unknown", said=said, next=next)


def _input(app: Retoma, order: requests.Order) -> Any:
    try:
        return app.registry.pipeline(order.pipeline).input.decode(json.dumps(order.input))
    except Misfit as misfit:
        reason = f"{misfit}."
        fault = Fault(pointer="/input", code="input_invalid", detail=reason)
        said = f"This is not an input of {order.pipeline!r}: {reason}"
        raise Refusal("validation_failed", said=said, faults=[fault]) from None


@router.get("/{id}")
@needs("read", limited=True)
async def get_job(job: Found, visit: Here) -> responses.Job:
    """A job as it stands. Its input, output and error are there with the scope ``content:read``."""
    return responses.Job.of(job, content=visit.may(CONTENT))


@router.get("/{id}/attempts")
@needs("read", limited=True)
async def list_attempts(job: Found, visit: Here) -> responses.Attempts:
    """How each claim of a job ended. Errors are there with the scope ``content:read``."""
    found = await visit.app.jobs.attempts(job.id)
    return responses.Attempts(attempts=[responses.Attempt.of(each, content=visit.may(CONTENT)) for each in found])


@router.get("/{id}/checkpoints")
@needs("read", limited=True)
async def list_checkpoints(
    job: Found, wanted: Annotated[requests.CheckpointFilter, Query()], visit: Here, request: Request, response: Response
) -> responses.Checkpoints:
    """What the steps of a job produced, also what was set aside. Values are there with ``values=true`` and the scope
    ``content:read``.
    """
    content = wanted.values and visit.may(CONTENT)
    after = None if wanted.cursor is None else _saved(wanted.cursor)
    found = await visit.app.jobs.checkpoints(job.id, values=content, after=after, limit=wanted.limit + 1)
    page = found[: wanted.limit]
    last = page[-1] if len(found) > wanted.limit else None
    following = None if last is None else place_of(last.saved_at.isoformat(), last.step, last.generation)
    point_to_next(request, response, following)
    shown = [responses.Checkpoint.of(each, content=content) for each in page]
    return responses.Checkpoints(checkpoints=shown, next=following)


def _saved(cursor: str) -> tuple[datetime, str, int]:
    saved_at, step, generation = placed(cursor, str, str, int)
    try:
        at = datetime.fromisoformat(saved_at)
    except ValueError:
        raise Refusal("invalid_cursor") from None
    if at.tzinfo is None or not 0 <= generation < _HIGHEST_GENERATION:
        raise Refusal("invalid_cursor")
    return at, step, generation


@router.post("/{id}/retry")
@needs("operate", limited=True, refuses=("conflict",))
async def retry_job(job: Found, visit: Here, body: requests.MoreAttempts | None = None) -> responses.Job:
    """Try a failed, cancelled or reviewed job again. Finished steps are not done again."""
    more = body or requests.MoreAttempts()
    return responses.Job.of(await visit.app.jobs.retry(job.id, attempts=more.attempts, conn=visit.conn))


@router.post("/{id}/cancel")
@needs("operate", limited=True, refuses=("conflict",))
async def cancel_job(job: Found, visit: Here, body: requests.Why | None = None) -> responses.Job:
    """Stop a job. At once when it waits, with the next heartbeat when it runs."""
    why = body or requests.Why()
    return responses.Job.of(await visit.app.jobs.cancel(job.id, reason=why.reason, conn=visit.conn))


@router.post("/{id}/discard")
@needs("operate", limited=True, refuses=("conflict",))
async def discard_job(job: Found, visit: Here, body: requests.WhyDiscarded | None = None) -> responses.Job:
    """Settle a failed job as not to be retried. It leaves the dead letters and keeps its history."""
    reason = body.reason if body else None
    visit.noted.update({"reason": reason} if reason else {})
    return responses.Job.of(await visit.app.jobs.discard(job.id, by=visit.caller, reason=reason, conn=visit.conn))


@router.post("/{id}/reinstate")
@needs("operate", limited=True, refuses=("conflict",))
async def reinstate_job(job: Found, visit: Here, _body: requests.Nothing | None = None) -> responses.Job:
    """Undo a discard: the job is a dead letter again, and can be retried."""
    return responses.Job.of(await visit.app.jobs.reinstate(job.id, conn=visit.conn))


@router.post("/{id}/restart")
@needs("operate", limited=True, refuses=("conflict",))
async def restart_job(job: Found, visit: Here, body: requests.RestartFrom | None = None) -> responses.Job:
    """Run an ended job anew from its first step, or from ``step`` on. The checkpoints from there on are set aside, and
    what they cost is paid again.
    """
    how = body or requests.RestartFrom()
    visit.noted.update({"step": how.step} if how.step else {})
    now = await visit.app.jobs.restart(job.id, attempts=how.attempts, step=how.step, conn=visit.conn)
    return responses.Job.of(now)


@router.get("/{id}/restart")
@needs("read", limited=True)
async def plan_restart(job: Found, wanted: Annotated[StepFrom, Query()], visit: Here, request: Request) -> JobRestart:
    """What a restart would do again, from the first step or from ``step`` on, and what that has cost."""
    plan = JobRestart.told(await visit.app.jobs.restart_plan(job.id, step=wanted.step))
    if plan.why_not and language_of(request.headers.get("accept-language", "")) == "pt":
        plan.why_not = in_portuguese(plan.why_not) or plan.why_not
    return plan


@router.post("/{id}/signal")
@needs("operate", limited=True, refuses=("conflict", "value_unstorable"))
async def signal_job(job: Found, signal: requests.Signal, visit: Here) -> responses.Heard:
    """Tell a job something it waits for. Under each name it hears one thing, the first."""
    visit.noted["signal"] = signal.name
    return responses.Heard(heard=await visit.app.jobs.signal(job.id, signal.name, signal.value, conn=visit.conn))

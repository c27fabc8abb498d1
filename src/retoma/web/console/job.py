"""One job: its life as a chart, its calls, what its steps saved, its error; what can be done with it, or why not."""
# ruff: noqa: FAST003 - the job that {id} names comes in as Found

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from contextlib import suppress
from datetime import UTC, datetime
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Path, Query, Request, Response

from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model.ids import CallId, JobId
from retoma.model.job import Attempt, Checkpoint, Job
from retoma.web.api.schemas import requests
from retoma.web.console.change import led
from retoma.web.console.render import console_page
from retoma.web.console.speaking import changed, problem_of
from retoma.web.console.timeline import timeline_of
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.pages.forms import fields_of
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

CONTENT = "content:read"
_CALLS = 50
_CHECKPOINTS = 200
_LARGEST_FORM = 100_000
_LONGEST = 20_000
_RETRIED = ("failed", "cancelled", "review")

Told = Annotated[str, Query(pattern="^(|retried|restarted|cancelled|stopping|signalled|known|discarded|reinstated)$")]
Step = Annotated[str, Query(max_length=500)]


async def _found(id: Annotated[requests.Id, Path()], visit: Here) -> Job:
    job = await visit.app.jobs.get(JobId(id), conn=visit.conn)
    visit.see(job.pipeline, f"job {id}")
    return job


Found = Annotated[Job, Depends(_found)]
"""The job that the path names, if the caller may see it."""


@router.get("/jobs/{id}")
@needs("read", limited=True)
async def show_job(
    job: Found,
    visit: Here,
    request: Request,
    told: Told = "",
    call: Annotated[int | None, Query(ge=1, lt=2**63)] = None,
    step: Step = "",
) -> Response:
    """A job, with its life as a chart."""
    return await _shown(visit, request, job, told=told, call=call, step=step)


async def _shown(
    visit: Visit,
    request: Request,
    job: Job,
    *,
    told: str = "",
    call: int | None = None,
    step: str | None = "",
    problem: Any = None,
) -> Response:
    attempts = await visit.app.jobs.attempts(job.id)
    checkpoints = await visit.app.jobs.checkpoints(job.id, values=False, limit=_CHECKPOINTS)
    content = visit.may(CONTENT)
    calls = await visit.app.calls.find(job=job.id, limit=_CALLS)
    opened = await visit.app.calls.get(CallId(call)) if call and content else None
    if opened is not None and opened.job_id != job.id:
        raise NotFound(f"There is no call {call} of job {job.id}.")
    try:
        plan = await visit.app.jobs.restart_plan(job.id, step=step or None)
    except NotFound as error:
        plan, problem = await visit.app.jobs.restart_plan(job.id), problem or problem_of(request, error)
    return console_page(
        request,
        "job.html",
        current="jobs",
        status=200 if problem is None else problem.status,
        job=job,
        attempts=attempts,
        checkpoints=checkpoints,
        chart=timeline_of(job, attempts, checkpoints, datetime.now(UTC)),
        calls=calls,
        opened=opened,
        plan=plan,
        steps=_steps(checkpoints),
        awaits=_awaited(job, attempts),
        content=content,
        error=_error(job, attempts) if content else None,
        readable=_readable,
        trace=_trace(visit, job),
        told=told,
        problem=problem,
        can={
            "retry": job.state in _RETRIED and job.discarded_at is None,
            "restart": job.state.ended and job.discarded_at is None,
            "discard": job.state == "failed",
            "cancel": not job.state.ended and job.cancel_requested_at is None,
            "signal": not job.state.ended,
        },
    )


def _steps(checkpoints: list[Checkpoint]) -> list[str]:
    """The steps that a restart may begin with: those that are saved, in the order of time."""
    return list(dict.fromkeys(each.step for each in checkpoints if each.set_aside_at is None))


def _awaited(job: Job, attempts: list[Attempt]) -> bool:
    return job.state == "queued" and job.reason == "waiting" and bool(attempts)


def _error(job: Job, attempts: list[Attempt]) -> str | None:
    """The error of the job, or of its last attempt that had one."""
    return job.error or next((each.error for each in reversed(attempts) if each.error), None)


def _readable(text: str | None) -> str:
    """JSON as people read it, and only the beginning of what is long."""
    if text is None:
        return ""
    with suppress(ValueError):
        text = json.dumps(json.loads(text), ensure_ascii=False, indent=2)
    return text if len(text) <= _LONGEST else text[:_LONGEST] + "\n…"


def _trace(visit: Visit, job: Job) -> str | None:
    """Where the trace of this job is, when the settings say so and its id is known."""
    place = visit.app.settings.web_trace_url
    return place.replace("{id}", job.trace_id) if place and job.trace_id else None


@router.post("/jobs/{id}/retry")
@needs("operate", limited=True)
async def retry_job(job: Found, visit: Here, request: Request) -> Response:
    """Try it again; finished steps are not done again."""
    try:
        await visit.app.jobs.retry(job.id, conn=visit.conn)
    except Conflict as error:
        return await _refused(visit, request, job, error)
    return led(request, f"/console/jobs/{job.id}", told="retried")


@router.post("/jobs/{id}/restart")
@needs("operate", limited=True, streamed=True, records=True)
async def restart_job(job: Found, visit: Here, request: Request) -> Response:
    """Run it anew, from its first step or from another."""
    step = (await fields_of(request, largest=_LARGEST_FORM)).get("step", "").strip() or None
    visit.noted.update({"step": step} if step else {})
    return await _acted(
        visit, request, job, "restarted", lambda conn: visit.app.jobs.restart(job.id, step=step, conn=conn)
    )


@router.post("/jobs/{id}/cancel")
@needs("operate", limited=True, streamed=True, records=True)
async def cancel_job(job: Found, visit: Here, request: Request) -> Response:
    """Stop it, with a reason."""
    reason = (await fields_of(request, largest=_LARGEST_FORM)).get("reason", "").strip()[:200] or "person"
    told = "stopping" if job.state == "running" else "cancelled"
    return await _acted(visit, request, job, told, lambda conn: visit.app.jobs.cancel(job.id, reason=reason, conn=conn))


@router.post("/jobs/{id}/discard")
@needs("operate", limited=True, streamed=True, records=True)
async def discard_job(job: Found, visit: Here, request: Request) -> Response:
    """Settle its failure as not to be retried."""
    reason = (await fields_of(request, largest=_LARGEST_FORM)).get("reason", "").strip()[:200] or None
    visit.noted.update({"reason": reason} if reason else {})
    by = visit.caller
    return await _acted(
        visit, request, job, "discarded", lambda conn: visit.app.jobs.discard(job.id, by=by, reason=reason, conn=conn)
    )


@router.post("/jobs/{id}/reinstate")
@needs("operate", limited=True)
async def reinstate_job(job: Found, visit: Here, request: Request) -> Response:
    """Make it a dead letter again."""
    try:
        await visit.app.jobs.reinstate(job.id, conn=visit.conn)
    except Conflict as error:
        return await _refused(visit, request, job, error)
    return led(request, f"/console/jobs/{job.id}", told="reinstated")


@router.post("/jobs/{id}/signal")
@needs("operate", limited=True, streamed=True, records=True)
async def signal_job(job: Found, visit: Here, request: Request) -> Response:
    """Tell it what it waits for: JSON, or a text as it is."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    name, text = said.get("name", "").strip(), said.get("value", "").strip()
    if not name:
        error = ConfigurationError("A signal has a name.", next="Write the name that the job waits for.")
        return await _refused(visit, request, job, error)
    visit.noted["signal"] = name
    value = _value(text)
    try:
        heard = await changed(visit, lambda conn: visit.app.jobs.signal(job.id, name, value, conn=conn))
    except (Conflict, ConfigurationError) as error:
        return await _refused(visit, request, job, error)
    return led(request, f"/console/jobs/{job.id}", told="signalled" if heard else "known")


def _value(text: str) -> Any:
    try:
        return json.loads(text) if text else None
    except ValueError:
        return text


async def _acted(
    visit: Visit, request: Request, job: Job, told: str, act: Callable[[object], Awaitable[Job]]
) -> Response:
    try:
        await changed(visit, act)
    except (Conflict, NotFound, ConfigurationError) as error:
        return await _refused(visit, request, job, error)
    return led(request, f"/console/jobs/{job.id}", told=told)


async def _refused(visit: Visit, request: Request, job: Job, error: Exception) -> Response:
    """The same page, with what went wrong above it."""
    visit.unchanged = True
    return await _shown(visit, request, job, problem=problem_of(request, error))

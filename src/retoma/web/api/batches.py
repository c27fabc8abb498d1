"""Batches: make them, follow them, act on them. Acting is always a POST; the stream only watches."""
# ruff: noqa: FAST003 - the batch that {id} names comes in as Found

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response

from retoma.app.retoma import Retoma
from retoma.errors import BatchConflict
from retoma.model.batch import Batch
from retoma.model.batch import Resumed as Done
from retoma.model.ids import BatchId
from retoma.values.codec import Misfit
from retoma.web.api.jobs import open_pipeline
from retoma.web.api.schemas import batch_requests, requests
from retoma.web.api.schemas import batches as shapes
from retoma.web.api.schemas.operations import Operation, Operations
from retoma.web.api.schemas.responses import Fault
from retoma.web.http import etags
from retoma.web.http.auth import Here, needs
from retoma.web.http.cursors import cursor_of, opened, point_to_next
from retoma.web.http.error_codes import TAGGED
from retoma.web.http.errors import Refusal
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.http.route import ApiRoute
from retoma.web.http.stream import STREAM, streamed
from retoma.web.http.stream_encoders import EVENT_STREAM, LINES
from retoma.web.words import language_of
from retoma.web.words.causes import cause_shown, translated
from retoma.web.words.sentences import in_portuguese

router = APIRouter(prefix="/batches", tags=["batches"], route_class=ApiRoute)

CONTENT = "content:read"


async def _found(id: Annotated[requests.Id, Path()], visit: Here) -> Batch:
    batch = visit.known or await visit.app.batches.get(BatchId(id), conn=visit.conn)
    visit.see(batch.pipeline, f"batch {id}")
    return batch


Found = Annotated[Batch, Depends(_found)]
"""The batch that the path names, if the caller may see it."""


@router.get("")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_batches(
    wanted: Annotated[batch_requests.BatchFilter, Query()], visit: Here, request: Request, response: Response
) -> shapes.Batches:
    """Batches, the newest first, each with how far it has come."""
    label = dict([wanted.label.split("=", 1)]) if wanted.label else None
    found = await visit.app.batches.find(
        states=wanted.state.split(",") if wanted.state else None,
        pipeline=visit.only(wanted.pipeline),
        labels=label,
        name=wanted.name,
        text=wanted.q,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    standing = await visit.app.batches.standings([each.id for each in page])
    # One that was pruned between the two looks is not there any more.
    rows = [shapes.listed(each, standing[each.id]) for each in page if each.id in standing]
    return shapes.Batches(batches=rows, next=following)


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
        "value_unstorable",
    ),
)
async def create_batch(new: batch_requests.NewBatch, visit: Here, request: Request, response: Response) -> shapes.Made:
    """Make a batch. With its jobs it begins at once; without, it waits to be filled and sealed."""
    visit.only(new.pipeline)
    pipeline = open_pipeline(visit.app, new.pipeline)
    given = new.model_dump(exclude={"pipeline", "name", "jobs", "expires_seconds"}, exclude_none=True)
    options: dict[str, Any] = {name.replace("timeout_seconds", "timeout"): value for name, value in given.items()}
    options["correlation_id"] = visit.correlation_id
    await quotas_of(request).make_room(visit, len(new.jobs or ()))
    if new.jobs is None:
        batch = await visit.app.batches.open(
            pipeline, name=new.name, expires=new.expires_seconds, conn=visit.conn, **_unpiloted(options)
        )
    else:
        inputs, key = _inputs(visit.app, new.pipeline, new.jobs)
        batch = await visit.app.batch(pipeline, inputs, name=new.name, key=key, conn=visit.conn, **options)
    await submitted(request, "batch", [batch.id])
    place = response.headers["Location"] = f"{request.url.path}/{batch.id}"
    return shapes.Made(
        id=batch.id, state=batch.state, total=batch.total, status_url=place, events_url=f"{place}/events"
    )


def _unpiloted(options: dict[str, Any]) -> dict[str, Any]:
    """An open batch gets its pilot when it is sealed: its jobs are not there yet."""
    if options.pop("pilot", 0):
        fault = Fault(pointer="/pilot", code="pilot_early", detail="A batch without jobs gets its pilot with the seal.")
        raise Refusal("validation_failed", faults=[fault])
    return options


def _inputs(
    app: Retoma, pipeline: str, jobs: list[batch_requests.NewJob]
) -> tuple[list[Any], Callable[[Any], str] | None]:
    """The inputs, read by the pipeline's own codec, and how each gets its key."""
    codec = app.registry.pipeline(pipeline).input
    inputs = []
    for place, job in enumerate(jobs):
        try:
            inputs.append(codec.decode(json.dumps(job.input)))
        except Misfit as misfit:
            reason = f"{misfit}."
            fault = Fault(pointer=f"/jobs/{place}/input", code="input_invalid", detail=reason)
            raise Refusal(
                "validation_failed", said=f"This is not an input of {pipeline!r}: {reason}", faults=[fault]
            ) from None
    keys = [job.key for job in jobs if job.key is not None]
    if keys and len(keys) < len(jobs):
        raise Refusal("validation_failed", said="Give every job a key, or none.")
    following = iter(keys)
    return inputs, (lambda _input: next(following)) if keys else None


@router.post("/{id}/jobs", status_code=202)
@needs(
    "submit",
    limited=True,
    refuses=("batch_sealed", "conflict", "pipeline_internal", "pipeline_unknown", "value_unstorable"),
)
async def fill_batch(
    batch: Found, more: batch_requests.More, visit: Here, request: Request, response: Response
) -> shapes.Filled:
    """Add jobs to an open batch. The same key adds nothing, so a part may be sent twice."""
    pipeline = open_pipeline(visit.app, batch.pipeline)
    await quotas_of(request).make_room(visit, len(more.jobs))
    await submitted(request, "batch", [batch.id])
    inputs, key = _inputs(visit.app, batch.pipeline, more.jobs)
    receipts = await visit.app.batches.fill(batch.id, pipeline, inputs, key=key, conn=visit.conn)
    added = sum(each.new for each in receipts)
    response.headers["Location"] = request.url.path.rsplit("/", 1)[0]
    return shapes.Filled(added=added, known=len(receipts) - added)


@router.post("/{id}/seal")
@needs("submit", limited=True, refuses=("batch_empty", "batch_incomplete", "conflict"))
async def seal_batch(batch: Found, visit: Here, body: batch_requests.Seal | None = None) -> shapes.Batch:
    """Let the jobs of an open batch be taken."""
    how = body or batch_requests.Seal()
    sealed = await visit.app.batches.seal(batch.id, expected=how.expected, pilot=how.pilot, conn=visit.conn)
    return shapes.Batch.of(sealed)


# — looking —


@router.get("/{id}")
@needs("read", limited=True, tag=etags.of_row)
async def get_batch(batch: Found, visit: Here) -> shapes.Batch:
    """A batch as it stands. Its configuration is there with the scope ``content:read``."""
    return shapes.Batch.of(batch, content=visit.may(CONTENT))


@router.get("/{id}/operations")
@needs("read", limited=True)
async def list_operations(batch: Found, visit: Here) -> Operations:
    """Commands on a batch with many jobs, the newest first, and how far each has come."""
    found = await visit.app.batches.operations(batch.id)
    return Operations(operations=[Operation.told(each) for each in found])


@router.get("/{id}/progress")
@needs("read", limited=True, tag=etags.of_batch)
async def get_progress(batch: Found, visit: Here) -> shapes.Progress:
    """How far a batch has come. Every figure is from one snapshot."""
    return shapes.Progress.seen(await visit.app.batches.progress(batch.id))


@router.get("/{id}/steps")
@needs("read", limited=True)
async def get_steps(batch: Found, visit: Here) -> shapes.Steps:
    """How far the jobs are, step by step, and how long they take."""
    found = [shapes.Step.of(each) for each in await visit.app.batches.steps(batch.id)]
    return shapes.Steps(steps=found, durations=shapes.Durations.of(await visit.app.batches.durations(batch.id)))


@router.get("/{id}/errors")
@needs("read", limited=True)
async def list_errors(batch: Found, visit: Here) -> shapes.Errors:
    """What failed, by what is the same in the errors. Their words are there with the scope ``content:read``."""
    found = await visit.app.batches.errors(batch.id)
    return shapes.Errors(errors=[shapes.ErrorGroup.of(each, content=visit.may(CONTENT)) for each in found])


@router.get("/{id}/plan")
@needs("read", limited=True)
async def get_plan(batch: Found, visit: Here, request: Request) -> shapes.Plan:
    """What a resume would skip, continue and begin."""
    plan = shapes.Plan.of(await visit.app.batches.plan(batch.id))
    if plan.why_not and language_of(request.headers.get("accept-language", "")) == "pt":
        plan.why_not = in_portuguese(plan.why_not) or plan.why_not
    return plan


@router.get("/{id}/pilot")
@needs("read", limited=True)
async def get_pilot(batch: Found, visit: Here) -> shapes.Pilot:
    """How the pilot of a batch went. What the whole will cost, take and lose by it, each with an interval."""
    return shapes.Pilot.seen(await visit.app.batches.pilot(batch.id))


@router.get("/{id}/explanation")
@needs("read", limited=True, tag=etags.of_explanation)
async def explain_batch(batch: Found, visit: Here, request: Request) -> shapes.Explanation:
    """Why a batch moves, or does not, and what to do; in the language that ``Accept-Language`` likes best."""
    language = language_of(request.headers.get("accept-language", ""))
    why = await visit.app.batches.explain(batch.id, words=visit.may(CONTENT))
    cause = cause_shown(why.evidence.get("cause"), content=visit.may(CONTENT))
    shown = replace(why, evidence={**why.evidence, "cause": cause} if cause else why.evidence)
    return shapes.Explanation.of(translated(shown, language))


@router.get("/{id}/events", responses=STREAM)
@needs("read", limited=True)
async def list_events(
    batch: Found,
    wanted: Annotated[batch_requests.EventFilter, Query()],
    visit: Here,
    request: Request,
    last_event_id: Annotated[str | None, Header()] = None,
) -> shapes.Events:
    """What happened to a batch, in order, after a number. As ``text/event-stream`` or ``application/x-ndjson`` it goes
    on as long as the batch does; ``Last-Event-ID`` (or ``after``) says where to go on.
    """
    accepted = request.headers.get("accept", "")
    after = requests.event_number(last_event_id, wanted.after)
    content = visit.may(CONTENT)
    for kind, voice in (("text/event-stream", EVENT_STREAM[content]), ("application/x-ndjson", LINES[content])):
        if kind in accepted:
            if batch.state.ended and after == batch.event_seq:
                # A browser that gets this does not come again.
                return Response(status_code=204)  # type: ignore[return-value]
            return streamed(request, batch.id, after, voice, kind)  # type: ignore[return-value]
    found = await visit.app.batches.events(batch.id, after=after or 0, limit=wanted.limit)
    last = found[-1].seq if found else after or 0
    return shapes.Events(events=[shapes.Event.of(each, content=content) for each in found], last=last)


# — acting —


def told(done: Done, request: Request, response: Response) -> shapes.Resumed:
    """What was done to a batch, on the wire."""
    place = response.headers["Location"] = request.url.path.rsplit("/", 1)[0]
    batch = done.batch
    return shapes.Resumed(
        id=batch.id,
        changed=done.changed,
        word=done.word,
        already_running=done.word == "already_running",
        jobs=done.jobs,
        state=batch.state,
        resumes=batch.resumes,
        max_resumes=batch.max_resumes,
        epoch=batch.epoch,
        operation_id=batch.operation_id,
        status_url=place,
        events_url=f"{place}/events",
    )


@router.post("/{id}/resume", status_code=202)
@needs(
    "operate", limited=True, refuses=("batch_not_resumable", "stale_epoch", "resume_limit_reached", "operation_running")
)
async def resume_batch(
    batch: Found, visit: Here, request: Request, response: Response, body: batch_requests.Resume | None = None
) -> shapes.Resumed:
    """Continue from where it stopped. Asked again while it runs, it answers that it does."""
    how = body or batch_requests.Resume()
    done = await visit.app.batches.resume(
        batch.id, epoch=how.epoch, max_resumes=how.max_resumes, by=visit.caller, conn=visit.conn
    )
    return told(done, request, response)


@router.post("/{id}/release")
@needs("operate", limited=True, refuses=("already_finished",))
async def release_batch(batch: Found, visit: Here, _body: requests.Nothing | None = None) -> shapes.Batch:
    """Let the jobs be taken that a pilot holds. Asked again, it changes nothing."""
    return shapes.Batch.of(await visit.app.batches.release(batch.id, by=visit.caller, conn=visit.conn))


@router.post("/{id}/retry-failed", status_code=202)
@needs("operate", limited=True, refuses=("operation_running", "conflict", "batch_not_resumable"))
async def retry_failed(
    batch: Found, visit: Here, request: Request, response: Response, body: batch_requests.RetryFailed | None = None
) -> shapes.Resumed:
    """Try only the failed jobs again. Finished steps are not done again."""
    how = body or batch_requests.RetryFailed()
    done = await visit.app.batches.retry_failed(
        batch.id,
        fingerprint=how.fingerprint,
        cancelled=how.cancelled,
        attempts=how.attempts,
        by=visit.caller,
        wait=False,
        conn=visit.conn,
    )
    return told(done, request, response)


@router.post("/{id}/restart", status_code=202)
@needs("operate", limited=True, refuses=("operation_running", "conflict", "value_unstorable"))
async def restart_batch(
    batch: Found, visit: Here, request: Request, response: Response, body: batch_requests.Restart | None = None
) -> shapes.Resumed:
    """Run every job anew, also what is done. What that cost is paid again."""
    configuration = body.configuration if body else None
    done = await visit.app.batches.restart(
        batch.id, configuration=configuration, by=visit.caller, wait=False, conn=visit.conn
    )
    return told(done, request, response)


@router.post("/{id}/pause")
@needs("operate", limited=True, refuses=("conflict",))
async def pause_batch(batch: Found, visit: Here, body: requests.Why | None = None) -> shapes.Batch:
    """Let a batch rest. What runs goes back after the step at hand."""
    why = body or requests.Why()
    return shapes.Batch.of(await visit.app.batches.pause(batch.id, reason=why.reason, by=visit.caller, conn=visit.conn))


@router.post("/{id}/cancel", responses={202: {"model": shapes.Batch, "description": "Its jobs are worked through."}})
@needs("operate", limited=True, refuses=("already_finished", "operation_running"))
async def cancel_batch(
    batch: Found, visit: Here, request: Request, response: Response, body: requests.Why | None = None
) -> shapes.Batch:
    """Stop a batch. What is done stays done. 202 while its jobs are still worked through (``operation_id``)."""
    why = body or requests.Why()
    now = await visit.app.batches.cancel(batch.id, reason=why.reason, by=visit.caller, wait=False, conn=visit.conn)
    if now.operation_id is not None:
        response.status_code = 202
        response.headers["Location"] = request.url.path.rsplit("/", 1)[0] + "/operations"
    return shapes.Batch.of(now)


@router.patch("/{id}", responses=TAGGED)
@needs("operate", limited=True, refuses=("stale_epoch", "precondition_failed"))
async def change_batch(
    batch: Found, change: batch_requests.Change, visit: Here, request: Request, response: Response
) -> shapes.Batch:
    """Another name, limit, budget or labels. What is left out stays; null lifts a limit."""
    changes: dict[str, Any] = change.model_dump(exclude_unset=True, exclude={"epoch"})
    named, epoch = etags.is_named(request), change.epoch
    if named:
        etags.refuse_other(request, etags.row_tag(visit, batch))
        epoch = batch.epoch  # it may change before we hold it
    try:
        now = await visit.app.batches.change(batch.id, epoch=epoch, by=visit.caller, conn=visit.conn, **changes)
    except BatchConflict as error:
        if not named:
            raise
        raise Refusal("precondition_failed", said=error.message, next=error.next) from error
    response.headers["ETag"] = etags.row_tag(visit, now)
    return shapes.Batch.of(now)

"""Batches: make them, follow them, act on them. Acting is always a POST; the stream only watches."""
# ruff: noqa: FAST003 - the batch that {id} names comes in as Found

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from retoma.app import Retoma
from retoma.batch import Batch
from retoma.batch import Resumed as Done
from retoma.errors import CheckpointInvalid
from retoma.web import asked
from retoma.web import batch_shapes as shapes
from retoma.web.cursors import cursor_of, opened, point_to_next
from retoma.web.door import Door
from retoma.web.problems import Refusal
from retoma.web.shapes import Fault
from retoma.web.stream import Newsroom, as_event_stream, as_lines
from retoma.web.visits import Here, needs

router = APIRouter(prefix="/batches", tags=["batches"], route_class=Door)

CONTENT = "content:read"


async def _found(id: Annotated[asked.Id, Path()], visit: Here) -> Batch:
    batch = await visit.app.get_batch(id, conn=visit.conn)
    visit.see(batch.pipeline, f"batch {id}")
    return batch


Found = Annotated[Batch, Depends(_found)]
"""The batch that the path names, if the caller may see it."""


@router.get("")
@needs("read", limited=True)
async def list_batches(
    wanted: Annotated[shapes.BatchFilter, Query()], visit: Here, request: Request, response: Response
) -> shapes.Batches:
    """Batches, the newest first."""
    label = dict([wanted.label.split("=", 1)]) if wanted.label else None
    found = await visit.app.batches(
        states=wanted.state.split(",") if wanted.state else None,
        pipeline=visit.only(wanted.pipeline),
        labels=label,
        name=wanted.name,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    return shapes.Batches(batches=[shapes.Batch.of(each) for each in page], next=following)


@router.post("", status_code=202)
@needs("submit", limited=True)
async def create_batch(new: shapes.NewBatch, visit: Here, request: Request, response: Response) -> shapes.Made:
    """Make a batch. With its jobs it begins at once; without, it waits to be filled and sealed."""
    visit.only(new.pipeline)
    pipeline = visit.app.front.pipeline(new.pipeline)
    given = new.model_dump(exclude={"pipeline", "name", "jobs", "expires_seconds"}, exclude_none=True)
    options: dict[str, Any] = {name.replace("timeout_seconds", "timeout"): value for name, value in given.items()}
    options["correlation_id"] = visit.correlation_id
    if new.jobs is None:
        batch = await visit.app.open_batch(
            pipeline, name=new.name, expires=new.expires_seconds, conn=visit.conn, **options
        )
    else:
        inputs, key = _inputs(visit.app, new.pipeline, new.jobs)
        batch = await visit.app.batch(pipeline, inputs, name=new.name, key=key, conn=visit.conn, **options)
    place = response.headers["Location"] = f"{request.url.path}/{batch.id}"
    return shapes.Made(
        id=batch.id, state=batch.state, total=batch.total, status_url=place, events_url=f"{place}/events"
    )


def _inputs(app: Retoma, pipeline: str, jobs: list[shapes.NewJob]) -> tuple[list[Any], Callable[[Any], str] | None]:
    """The inputs, read by the pipeline's own codec, and how each gets its key."""
    codec = app.front.pipeline(pipeline).input
    inputs = []
    for place, job in enumerate(jobs):
        try:
            inputs.append(codec.decode(json.dumps(job.input)))
        except CheckpointInvalid as error:
            reason = error.message.partition(": ")[2] or error.message
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
@needs("submit", limited=True)
async def fill_batch(batch: Found, more: shapes.More, visit: Here) -> shapes.Filled:
    """Add jobs to an open batch. The same key adds nothing, so a part may be sent twice."""
    inputs, key = _inputs(visit.app, batch.pipeline, more.jobs)
    pipeline = visit.app.front.pipeline(batch.pipeline)
    receipts = await visit.app.fill(batch.id, pipeline, inputs, key=key, conn=visit.conn)
    added = sum(each.new for each in receipts)
    return shapes.Filled(added=added, known=len(receipts) - added)


@router.post("/{id}/seal")
@needs("submit", limited=True)
async def seal_batch(batch: Found, visit: Here, body: shapes.Seal | None = None) -> shapes.Batch:
    """Let the jobs of an open batch be taken."""
    expected = body.expected if body else None
    return shapes.Batch.of(await visit.app.seal(batch.id, expected=expected, conn=visit.conn))


# — looking —


@router.get("/{id}")
@needs("read", limited=True)
async def get_batch(batch: Found, visit: Here) -> shapes.Batch:
    """A batch as it stands. Its configuration is there with the scope ``content:read``."""
    return shapes.Batch.of(batch, content=visit.may(CONTENT))


@router.get("/{id}/progress")
@needs("read", limited=True)
async def get_progress(batch: Found, visit: Here) -> shapes.Progress:
    """How far a batch has come. Every figure is from one snapshot."""
    return shapes.Progress.seen(await visit.app.progress(batch.id))


@router.get("/{id}/steps")
@needs("read", limited=True)
async def get_steps(batch: Found, visit: Here) -> shapes.Steps:
    """How far the jobs are, step by step, and how long they take."""
    found = [shapes.Step.of(each) for each in await visit.app.steps(batch.id)]
    return shapes.Steps(steps=found, durations=shapes.Durations.of(await visit.app.durations(batch.id)))


@router.get("/{id}/errors")
@needs("read", limited=True)
async def list_errors(batch: Found, visit: Here) -> shapes.Errors:
    """What failed, by what is the same in the errors. Their words are there with the scope ``content:read``."""
    found = await visit.app.errors(batch.id)
    return shapes.Errors(errors=[shapes.ErrorGroup.of(each, content=visit.may(CONTENT)) for each in found])


@router.get("/{id}/plan")
@needs("read", limited=True)
async def get_plan(batch: Found, visit: Here) -> shapes.Plan:
    """What a resume would skip, continue and begin."""
    return shapes.Plan.of(await visit.app.plan(batch.id))


@router.get("/{id}/explanation")
@needs("read", limited=True)
async def explain_batch(batch: Found, visit: Here) -> shapes.Explanation:
    """Why a batch moves, or does not, and what to do."""
    return shapes.Explanation.of(await visit.app.explain(batch.id))


@router.get("/{id}/events", responses={200: {"content": {"text/event-stream": {}, "application/x-ndjson": {}}}})
@needs("read", limited=True)
async def list_events(
    batch: Found,
    wanted: Annotated[shapes.EventFilter, Query()],
    visit: Here,
    request: Request,
    last_event_id: Annotated[str | None, Header()] = None,
) -> shapes.Events:
    """What happened to a batch, in order, after a number. As ``text/event-stream`` or ``application/x-ndjson`` it goes
    on as long as the batch does; ``Last-Event-ID`` (or ``after``) says where to go on.
    """
    accepted = request.headers.get("accept", "")
    after = int(last_event_id) if last_event_id and last_event_id.isdigit() else wanted.after
    for kind, shown in (("text/event-stream", as_event_stream), ("application/x-ndjson", as_lines)):
        if kind in accepted:
            return await _stream(batch, request, after, kind, shown)  # type: ignore[return-value]
    found = await visit.app.events(batch.id, after=after or 0, limit=wanted.limit)
    last = found[-1].seq if found else after or 0
    return shapes.Events(events=[shapes.Event.of(each) for each in found], last=last)


async def _stream(batch: Batch, request: Request, after: int | None, kind: str, shown: Any) -> Response:
    if batch.state.ended and after == batch.event_seq:
        return Response(status_code=204)  # a browser that gets this does not come again
    newsroom: Newsroom = request.state.newsroom
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return StreamingResponse(newsroom.follow(batch.id, after, shown), media_type=kind, headers=headers)


# — acting —


def _resumed(done: Done, request: Request, response: Response) -> shapes.Resumed:
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
        status_url=place,
        events_url=f"{place}/events",
    )


@router.post("/{id}/resume", status_code=202)
@needs("operate", limited=True)
async def resume_batch(
    batch: Found, visit: Here, request: Request, response: Response, body: shapes.Resume | None = None
) -> shapes.Resumed:
    """Continue from where it stopped. Asked again while it runs, it answers that it does."""
    how = body or shapes.Resume()
    done = await visit.app.resume(
        batch.id, epoch=how.epoch, max_resumes=how.max_resumes, by=visit.caller, conn=visit.conn
    )
    return _resumed(done, request, response)


@router.post("/{id}/retry-failed", status_code=202)
@needs("operate", limited=True)
async def retry_failed(
    batch: Found, visit: Here, request: Request, response: Response, body: shapes.RetryFailed | None = None
) -> shapes.Resumed:
    """Try only the failed jobs again. Finished steps are not done again."""
    how = body or shapes.RetryFailed()
    done = await visit.app.retry_failed(
        batch.id, fingerprint=how.fingerprint, cancelled=how.cancelled, attempts=how.attempts, conn=visit.conn
    )
    return _resumed(done, request, response)


@router.post("/{id}/restart", status_code=202)
@needs("operate", limited=True)
async def restart_batch(
    batch: Found, visit: Here, request: Request, response: Response, body: shapes.Restart | None = None
) -> shapes.Resumed:
    """Run every job anew, also what is done. What that cost is paid again."""
    configuration = body.configuration if body else None
    return _resumed(
        await visit.app.restart_batch(batch.id, configuration=configuration, conn=visit.conn), request, response
    )


@router.post("/{id}/pause")
@needs("operate", limited=True)
async def pause_batch(batch: Found, visit: Here, body: asked.Why | None = None) -> shapes.Batch:
    """Let a batch rest. What runs goes back after the step at hand."""
    why = body or asked.Why()
    return shapes.Batch.of(await visit.app.pause(batch.id, reason=why.reason, conn=visit.conn))


@router.post("/{id}/cancel")
@needs("operate", limited=True)
async def cancel_batch(batch: Found, visit: Here, body: asked.Why | None = None) -> shapes.Batch:
    """Stop a batch. What is done stays done."""
    why = body or asked.Why()
    return shapes.Batch.of(await visit.app.cancel_batch(batch.id, reason=why.reason, conn=visit.conn))


@router.patch("/{id}")
@needs("operate", limited=True)
async def change_batch(batch: Found, change: shapes.Change, visit: Here) -> shapes.Batch:
    """Another name, limit, budget or labels."""
    changes: dict[str, Any] = change.model_dump(exclude_none=True)
    return shapes.Batch.of(await visit.app.change_batch(batch.id, conn=visit.conn, **changes))

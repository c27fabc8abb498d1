"""Reviews: what waits for a person's decision, and what was decided."""
# ruff: noqa: FAST003 - the review that {id} names comes in as Found

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

import orjson
from fastapi import APIRouter, Depends, Path, Query, Request, Response
from fastapi.responses import StreamingResponse

from retoma.app.reviews import By
from retoma.model.review import Decision, Reviewing
from retoma.web.api.schemas import requests
from retoma.web.api.schemas import reviews as schemas
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.cursors import cursor_of, opened, place_of, placed, point_to_next
from retoma.web.http.errors import Refusal
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/reviews", tags=["reviews"], route_class=ApiRoute)

CONTENT = "content:read"
SCOPE = "review"
NDJSON = "application/x-ndjson"
_REFUSES = ("conflict", "value_unstorable")
_EXPORTED: dict[int | str, dict[str, Any]] = {200: {"content": {NDJSON: {"schema": {"type": "object"}}}}}


async def _found(id: Annotated[requests.Id, Path()], visit: Here) -> Reviewing:
    found = await visit.app.reviews.get(id, conn=visit.conn)
    visit.see(found.review.pipeline, f"review {id}")
    return found


Found = Annotated[Reviewing, Depends(_found)]
"""The review that the path names, if the caller may see it."""


def by(visit: Visit, said: schemas.Deciding | schemas.Undoing | None) -> By:
    """Who decides over HTTP, and what they say with it."""
    told = By(name=visit.name, holder=holder_of(visit), conn=visit.conn)
    if said is not None:
        told |= By(key=said.key, note=said.note)
    if isinstance(said, schemas.Deciding):
        told |= By(seconds=said.seconds)
    return told


def holder_of(visit: Visit) -> str:
    """Whose leases these are: one key may be signed in with several browsers."""
    return f"{visit.caller} {visit.session_id}" if visit.session_id else visit.caller


def _decided(visit: Visit, decision: Decision) -> schemas.ReviewDecision:
    visit.noted |= {"decision": decision.id, "kind": str(decision.kind)}
    return schemas.ReviewDecision.of(decision, content=visit.may(CONTENT))


@router.get("")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_reviews(
    wanted: Annotated[schemas.ReviewFilter, Query()], visit: Here, request: Request, response: Response
) -> schemas.Reviews:
    """What waits for a person, the lowest margin first. Titles and proposals are there with ``content:read``."""
    after = None if wanted.cursor is None else _after(wanted.cursor)
    found = await visit.app.reviews.find(
        pipeline=visit.only(wanted.pipeline),
        batch_id=wanted.batch_id,
        label=wanted.label,
        job_id=wanted.job_id,
        after=after,
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    last = page[-1] if len(found) > wanted.limit else None
    following = None if last is None else place_of("" if last.margin is None else repr(last.margin), last.id)
    point_to_next(request, response, following)
    return schemas.Reviews.page(page, following, content=visit.may(CONTENT))


def _after(cursor: str) -> tuple[float | None, int]:
    margin, id = placed(cursor, str, int)
    try:
        number = float(margin) if margin else None
    except ValueError:
        raise Refusal("invalid_cursor") from None
    if not 0 < id <= requests.HIGHEST or (number is not None and not abs(number) < 10**9):
        raise Refusal("invalid_cursor")
    return number, id


@router.get("/decisions")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_decisions(
    wanted: Annotated[schemas.DecisionFilter, Query()], visit: Here, request: Request, response: Response
) -> schemas.Decisions:
    """Who decided what, the newest first; an undone decision says by which one."""
    found = await visit.app.reviews.decisions(
        pipeline=visit.only(wanted.pipeline),
        batch_id=wanted.batch_id,
        review_id=wanted.review_id,
        who=wanted.who,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    content = visit.may(CONTENT)
    return schemas.Decisions(
        decisions=[schemas.ReviewDecision.of(each, content=content) for each in page], next=following
    )


@router.get("/agreement")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def get_agreement(wanted: Annotated[schemas.AgreementFilter, Query()], visit: Here) -> schemas.ReviewAgreement:
    """How often people kept what was proposed. By label and version, and by tenths of the confidence."""
    found = await visit.app.reviews.agreement(pipeline=visit.only(wanted.pipeline), batch_id=wanted.batch_id)
    return schemas.ReviewAgreement.seen(found)


@router.get("/export", responses=_EXPORTED, response_class=StreamingResponse)
@needs(CONTENT, limited=True, refuses=("pipelines_limited",))
async def export_decisions(wanted: Annotated[schemas.AgreementFilter, Query()], visit: Here) -> Response:
    """Every decision as a line of JSON, the oldest first, with what was proposed and what was decided."""
    lines = exported(visit, visit.only(wanted.pipeline), wanted.batch_id)
    headers = {"Content-Disposition": 'attachment; filename="decisions.jsonl"'}
    return StreamingResponse(lines, media_type=NDJSON, headers=headers)


async def exported(visit: Visit, pipeline: str | None, batch_id: int | None) -> AsyncIterator[bytes]:
    """The lines of an export."""
    async for each in visit.app.reviews.export(pipeline=pipeline, pipelines=visit.pipelines, batch_id=batch_id):
        yield orjson.dumps(schemas.ReviewDecision.of(each, content=True).model_dump(mode="json")) + b"\n"


@router.get("/{id:int}")
@needs("read", limited=True)
async def get_review(found: Found, visit: Here) -> schemas.SeenReview:
    """A review, whatever its state. What a person sees of it is there with ``content:read``."""
    return schemas.SeenReview.seen(found, content=visit.may(CONTENT))


@router.post("/next")
@needs(SCOPE, limited=True, refuses=("pipelines_limited",))
async def lease_reviews(visit: Here, body: schemas.NextReviews | None = None) -> schemas.SeenReviews:
    """Lease the next reviews, those with the lowest margin first. Nobody else gets them while the lease lasts."""
    wanted = body or schemas.NextReviews()
    visit.unchanged = True
    found = await visit.app.reviews.next(
        visit.caller,
        holder=holder_of(visit),
        limit=wanted.limit,
        seconds=wanted.lease_seconds,
        pipeline=wanted.pipeline,
        pipelines=visit.pipelines,
        batch_id=wanted.batch_id,
        label=wanted.label,
    )
    content = visit.may(CONTENT)
    return schemas.SeenReviews(reviews=[schemas.SeenReview.seen(each, content=content) for each in found])


@router.post("/renew")
@needs(SCOPE, limited=True)
async def renew_reviews(visit: Here, body: schemas.KeptReviews | None = None) -> schemas.KeptLeases:
    """Keep what the caller has leased; the answer says what they still have."""
    wanted = body or schemas.KeptReviews()
    visit.unchanged = True
    kept = await visit.app.reviews.renew(
        visit.caller, wanted.ids, holder=holder_of(visit), seconds=wanted.lease_seconds
    )
    return schemas.KeptLeases(ids=kept)


@router.post("/undo")
@needs(SCOPE, limited=True, refuses=(*_REFUSES, "not_found"))
async def undo_decision(visit: Here, body: schemas.Undoing | None = None) -> schemas.ReviewDecision:
    """Undo a decision of the caller. Its thing waits again, and is theirs to look at."""
    wanted = body or schemas.Undoing()
    return _decided(visit, await visit.app.reviews.undo(visit.caller, wanted.decision, **by(visit, wanted)))


@router.post("/{id}/accept")
@needs(SCOPE, limited=True, refuses=_REFUSES)
async def accept_review(found: Found, visit: Here, body: schemas.Deciding | None = None) -> schemas.ReviewDecision:
    """Accept the proposal. It becomes the result."""
    return _decided(visit, await visit.app.reviews.accept(found.review.id, visit.caller, **by(visit, body)))


@router.post("/{id}/correct")
@needs(SCOPE, limited=True, refuses=_REFUSES)
async def correct_review(found: Found, visit: Here, body: schemas.Correcting) -> schemas.ReviewDecision:
    """Give another value. It becomes the result, if it fits the pipeline's output."""
    decision = await visit.app.reviews.correct(
        found.review.id, body.value, visit.caller, label=body.label, **by(visit, body)
    )
    return _decided(visit, decision)


@router.post("/{id}/reject")
@needs(SCOPE, limited=True, refuses=_REFUSES)
async def reject_review(found: Found, visit: Here, body: schemas.Rejecting | None = None) -> schemas.ReviewDecision:
    """Reject the proposal. The job fails, or is tried again."""
    said = body or schemas.Rejecting()
    decision = await visit.app.reviews.reject(found.review.id, visit.caller, retry=said.retry, **by(visit, said))
    return _decided(visit, decision)


@router.post("/{id}/skip")
@needs(SCOPE, limited=True)
async def skip_review(
    found: Found,
    visit: Here,
    _body: requests.Nothing | None = None,
) -> schemas.Skipped:
    """Give a review back. It comes to the caller again after all others."""
    visit.unchanged = True
    gave = await visit.app.reviews.skip(found.review.id, visit.caller, holder=holder_of(visit), conn=visit.conn)
    return schemas.Skipped(skipped=gave)

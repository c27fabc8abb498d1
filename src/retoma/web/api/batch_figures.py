"""What pages show of a batch: its mosaic, its series for charts, its jobs as rows."""
# ruff: noqa: FAST003 - the batch that {id} names comes in as Found

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from retoma.web.api.batches import CONTENT, Found
from retoma.web.api.schemas import batch_figures as shapes
from retoma.web.api.schemas import batch_requests
from retoma.web.http import etags
from retoma.web.http.auth import Here, needs
from retoma.web.http.cursors import cursor_of, opened, point_to_next
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/batches", tags=["batches"], route_class=ApiRoute)


@router.get("/{id}/mosaic")
@needs("read", limited=True, tag=etags.of_batch)
async def get_mosaic(batch: Found, visit: Here) -> shapes.BatchMosaic:
    """The state of every job as one letter, in the order of the inputs: ten thousand jobs are ten thousand letters."""
    letters = await visit.app.batches.mosaic(batch.id)
    return shapes.BatchMosaic(letters=letters, total=batch.total or len(letters))


@router.get("/{id}/series")
@needs("read", limited=True)
async def get_series(
    batch: Found, wanted: Annotated[batch_requests.SeriesFilter, Query()], visit: Here
) -> shapes.Series:
    """How many attempts ended over time, and how long they took, in equal stretches."""
    found = await visit.app.batches.series(batch.id, buckets=wanted.buckets)
    return shapes.Series(buckets=[shapes.Bucket.of(each) for each in found])


@router.get("/{id}/jobs")
@needs("read", limited=True)
async def list_members(
    batch: Found,
    wanted: Annotated[batch_requests.MemberFilter, Query()],
    visit: Here,
    request: Request,
    response: Response,
) -> shapes.Members:
    """The jobs of a batch in the order of the inputs, by state, error group or a part of their key. Errors are there
    with the scope ``content:read``.
    """
    found = await visit.app.batches.members(
        batch.id,
        states=wanted.state.split(",") if wanted.state else None,
        fingerprint=wanted.error_group,
        text=wanted.q,
        saved=wanted.saved,
        after=0 if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    content = visit.may(CONTENT)
    return shapes.Members(jobs=[shapes.Member.of(each, content=content) for each in page], next=following)

"""What happened to many batches at once, for pages that show several."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from retoma.errors import NotFound
from retoma.model.ids import BatchId
from retoma.web.api.schemas.batches import Event
from retoma.web.api.schemas.requests import Wanted
from retoma.web.api.schemas.responses import Schema
from retoma.web.http.auth import Here, needs
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/events", tags=["batches"], route_class=ApiRoute)

Cursor = Annotated[str, Field(pattern="^[1-9][0-9]{0,17}(:[0-9]{1,18})?$")]


class NewsFilter(Wanted):
    """Which batches, each as its number or as number:after."""

    batch: Annotated[list[Cursor], Field(min_length=1, max_length=200)]
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


class BatchEvent(Event):
    """Something that happened to a batch."""

    batch_id: int


class News(Schema):
    """What happened, batch by batch and in order; *last* is where to go on, as it is asked for."""

    events: list[BatchEvent]
    last: list[str]


@router.get("")
@needs("read", limited=True, refuses=("not_found",))
async def list_news(wanted: Annotated[NewsFilter, Query()], visit: Here) -> News:
    """What happened to many batches, each after its own number. At most *limit* events of each."""
    cursors = {BatchId(int(id)): int(after or 0) for id, _, after in (each.partition(":") for each in wanted.batch)}
    there = await visit.app.batches.pipelines_of(cursors)
    for id in cursors:
        if id not in there:
            raise NotFound(f"There is no batch {id}.")
        visit.see(there[id], f"batch {id}")
    found = await visit.app.batches.news(cursors, limit=wanted.limit)
    events = [BatchEvent.of(event, content=visit.may("content:read")) for event in found]
    last = cursors | {event.batch_id: event.seq for event in found}
    return News(events=events, last=[f"{id}:{after}" for id, after in last.items()])

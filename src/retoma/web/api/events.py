"""What happened to many batches at once, for pages that show several."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query
from pydantic import Field

from retoma.web.batch_shapes import Event
from retoma.web.door import Door
from retoma.web.shapes import Shape
from retoma.web.visits import Here, needs

router = APIRouter(prefix="/events", tags=["batches"], route_class=Door)

Cursor = Annotated[str, Field(pattern="^[1-9][0-9]{0,17}(:[0-9]{1,18})?$")]


class NewsFilter(Shape):
    """Which batches, each as its number or as number:after."""

    batch: Annotated[list[Cursor], Field(min_length=1, max_length=200)]
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


class BatchEvent(Event):
    """Something that happened to a batch."""

    batch_id: int


class News(Shape):
    """What happened, batch by batch and in order; *last* is where to go on, as it is asked for."""

    events: list[BatchEvent]
    last: list[str]


@router.get("")
@needs("read", limited=True)
async def list_news(wanted: Annotated[NewsFilter, Query()], visit: Here) -> News:
    """What happened to many batches, each after its own number. At most *limit* events of each."""
    cursors = {int(id): int(after or 0) for id, _, after in (each.partition(":") for each in wanted.batch)}
    for id in cursors:
        visit.see((await visit.app.get_batch(id)).pipeline, f"batch {id}")
    found = await visit.app.news(cursors, limit=wanted.limit)
    last = cursors | {event.batch_id: event.seq for event in found}
    return News(events=[BatchEvent.of(event) for event in found], last=[f"{id}:{after}" for id, after in last.items()])

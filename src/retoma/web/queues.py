"""Queues: how full they are; pause and resume them; limit a lane."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path

from retoma.web import asked, shapes
from retoma.web.door import Door
from retoma.web.visits import Here, needs

router = APIRouter(prefix="/queues", tags=["queues"], route_class=Door)

Name = Annotated[asked.QueueName, Path()]


@router.get("")
@needs("read")
async def list_queues(visit: Here) -> shapes.Queues:
    """The queues. How many jobs wait, could run now, and run in each."""
    return shapes.Queues(queues=[shapes.Queue.of(queue) for queue in await visit.app.queues()])


@router.post("/{name}/pause", status_code=204)
@needs("operate")
async def pause_queue(name: Name, visit: Here, body: asked.Why | None = None) -> None:
    """Let nobody take jobs from a queue. What runs goes on."""
    why = body or asked.Why()
    await visit.app.pause_queue(name, reason=why.reason, conn=visit.conn)


@router.post("/{name}/resume", status_code=204)
@needs("operate")
async def resume_queue(name: Name, visit: Here, _body: asked.Nothing | None = None) -> None:
    """Let a paused queue go on."""
    await visit.app.resume_queue(name, conn=visit.conn)


@router.post("/{name}/limit", status_code=204)
@needs("operate")
async def limit_lane(name: Name, limit: asked.LaneLimit, visit: Here) -> None:
    """Let at most so many jobs of a lane run at the same time, over all workers."""
    await visit.app.limit_lane(name, limit.lane, at_once=limit.at_once, conn=visit.conn)

"""Schedules: jobs that come back by the clock."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from retoma.web import asked, shapes
from retoma.web.door import Door
from retoma.web.visits import Here, needs

router = APIRouter(prefix="/schedules", tags=["schedules"], route_class=Door)

Name = Annotated[asked.Text, Path()]


@router.get("")
@needs("read")
async def list_schedules(visit: Here) -> shapes.Schedules:
    """The schedules, by name. Their inputs are there with the scope ``content:read``."""
    content = visit.may("content:read")
    found = await visit.app.schedules()
    return shapes.Schedules(schedules=[shapes.Schedule.of(each, content=content) for each in found])


@router.post("/{name}/run", status_code=202)
@needs("operate")
async def run_schedule(
    name: Name, visit: Here, request: Request, response: Response, _body: asked.Nothing | None = None
) -> shapes.Queued:
    """Queue a schedule's job now. Its clock goes on as it was."""
    id = await visit.app.run_schedule(name, conn=visit.conn)
    place = response.headers["Location"] = f"{request.url.path.rsplit('/', 3)[0]}/jobs/{id}"
    return shapes.Queued(id=id, status_url=place)


@router.post("/{name}/pause", status_code=204)
@needs("operate")
async def pause_schedule(name: Name, visit: Here, _body: asked.Nothing | None = None) -> None:
    """Let a schedule rest."""
    await visit.app.pause_schedule(name, conn=visit.conn)


@router.post("/{name}/resume")
@needs("operate")
async def resume_schedule(name: Name, visit: Here, _body: asked.Nothing | None = None) -> shapes.Schedule:
    """Let a schedule go on, from the next time that comes."""
    return shapes.Schedule.of(await visit.app.resume_schedule(name, conn=visit.conn))

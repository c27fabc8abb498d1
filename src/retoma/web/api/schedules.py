"""Schedules: jobs that come back by the clock."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from retoma.web.api.schemas import requests, responses
from retoma.web.http.auth import Here, needs
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/schedules", tags=["schedules"], route_class=ApiRoute)

Name = Annotated[requests.Text, Path()]


@router.get("")
@needs("read")
async def list_schedules(visit: Here) -> responses.Schedules:
    """The schedules, by name. Their inputs are there with the scope ``content:read``."""
    content = visit.may("content:read")
    found = await visit.app.schedules.all()
    return responses.Schedules(schedules=[responses.Schedule.of(each, content=content) for each in found])


@router.post("/{name}/run", status_code=202)
@needs("operate")
async def run_schedule(
    name: Name, visit: Here, request: Request, response: Response, _body: requests.Nothing | None = None
) -> responses.Queued:
    """Queue a schedule's job now. Its clock goes on as it was."""
    id = await visit.app.schedules.run(name, conn=visit.conn)
    place = response.headers["Location"] = f"{request.url.path.rsplit('/', 3)[0]}/jobs/{id}"
    return responses.Queued(id=id, status_url=place)


@router.post("/{name}/pause", status_code=204)
@needs("operate")
async def pause_schedule(name: Name, visit: Here, _body: requests.Nothing | None = None) -> None:
    """Let a schedule rest."""
    await visit.app.schedules.pause(name, conn=visit.conn)


@router.post("/{name}/resume")
@needs("operate")
async def resume_schedule(name: Name, visit: Here, _body: requests.Nothing | None = None) -> responses.Schedule:
    """Let a schedule go on, from the next time that comes."""
    return responses.Schedule.of(await visit.app.schedules.resume(name, conn=visit.conn))

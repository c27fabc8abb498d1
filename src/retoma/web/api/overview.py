"""The whole system at a glance, once or as it changes."""

from __future__ import annotations

from typing import Any

from fastapi import APIRouter, Request

from retoma.web.api.schemas import overview as shapes
from retoma.web.api.schemas.operations import FailureGroup
from retoma.web.http.auth import CONTENT, Here, SiteContext, needs, pass_of
from retoma.web.http.money import Money
from retoma.web.http.overview_stream import OverviewFeed
from retoma.web.http.route import ApiRoute
from retoma.web.http.stream import EventHub, counted

router = APIRouter(prefix="/overview", tags=["system"], route_class=ApiRoute)

_GROUPS = 5
_TEXT = {"type": "string", "description": "The overview whenever it changes, and a heartbeat every 15 seconds."}
_STREAM: dict[int | str, dict[str, Any]] = {200: {"content": {"text/event-stream": {"schema": _TEXT}}}}


@router.get("", responses=_STREAM)
@needs("read")
async def get_overview(visit: Here, request: Request) -> shapes.Overview:
    """What runs, waits and failed, what it costs today, who works and what is unwell. As ``text/event-stream`` it goes
    on, and says so whenever something is another way. The words of errors are there with the scope ``content:read``.
    """
    place: SiteContext = request.state.retoma
    if "text/event-stream" in request.headers.get("accept", ""):
        hub: EventHub = request.state.newsroom
        pieces = place.room(OverviewFeed).follow(hub.pause, pass_of(visit))
        return counted(request, pieces, "text/event-stream")  # type: ignore[return-value]
    found = await visit.app.jobs.errors(limit=_GROUPS)
    content = bool(found) and visit.may(CONTENT)
    errors = [FailureGroup.of(each, content=content) for each in found]
    return shapes.Overview.seen(await place.room(Money).overview(), errors)

"""What watches the server, which needs no key, and what explains it, which needs one as soon as there are any."""

from __future__ import annotations

import asyncio
import contextvars
import time
from typing import Any

from fastapi import APIRouter, Request, Response
from fastapi.responses import RedirectResponse

from retoma.app.retoma import Retoma
from retoma.web.api import reference
from retoma.web.api.schemas import responses
from retoma.web.http.auth import SiteContext, needs, recognised, refuse_strange_hosts
from retoma.web.http.errors import Refusal
from retoma.web.http.request_deadline import bounded
from retoma.web.http.route import ApiRoute
from retoma.web.pages import PageRoute
from retoma.web.pages.languages import base_of, prefers_page

router = APIRouter(tags=["probes"], route_class=ApiRoute)
pages = APIRouter(route_class=PageRoute, include_in_schema=False)

PATIENCE = 3.0
"""Seconds in which a database that is well has answered, and a connection is free."""
_KEPT = 1.0


@router.get("/livez")
@needs(None)
async def is_alive() -> responses.Alive:
    """Whether the server answers at all. The database is not asked."""
    return responses.Alive(alive=True)


class _Readiness:
    """Whether the server can work: looked at once for all who ask, and again after a second."""

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self._looking: asyncio.Task[None] | None = None
        self._looked_at = 0.0

    async def wanted(self) -> None:
        """Raise what keeps the server from working, as it was within the last second."""
        looking = self._looking
        if looking is None or (looking.done() and time.monotonic() - self._looked_at >= _KEPT):
            looking = self._looking = asyncio.create_task(self._look(), context=contextvars.Context())
            looking.add_done_callback(lambda done: done.cancelled() or done.exception())  # somebody asks, or nobody
        await asyncio.wait([looking])
        looking.result()

    async def _look(self) -> None:
        try:
            await bounded(self._app.access.ready(), PATIENCE)
        finally:
            self._looked_at = time.monotonic()


@router.get("/readyz")
@needs(None)
async def is_ready(request: Request) -> responses.Ready:
    """Whether the server can work: the database answers, its tables are the right ones, a connection is free."""
    place: SiteContext = request.state.retoma
    if place.admission.full:
        raise Refusal("overloaded")
    try:
        async with asyncio.timeout(PATIENCE):
            await place.room(_Readiness).wanted()
    except (TimeoutError, Refusal):
        raise Refusal("database_unavailable") from None
    return responses.Ready(ready=True)


@pages.get("/openapi.json")
@needs(None)
async def get_openapi(request: Request) -> Response:
    """The whole API, for programs."""
    refuse_strange_hosts(request)
    await recognised(request, request.state.retoma)
    return reference.as_json(_described(request))


@pages.get("/api/v1")
@pages.get("/api/v1/")
@needs(None)
async def get_api(request: Request) -> Response:
    """Where the API is described: this address is what `retoma up` prints, and people open it."""
    refuse_strange_hosts(request)
    place = "/docs" if prefers_page(request) else "/openapi.json"
    return RedirectResponse(base_of(request) + place, 307, headers={"Vary": "Accept"})


@pages.get("/docs")
@needs(None)
async def get_docs(request: Request) -> Response:
    """The whole API, for people."""
    refuse_strange_hosts(request)
    await recognised(request, request.state.retoma)
    return reference.as_page(_described(request))


def _described(request: Request) -> dict[str, Any]:
    """The API, and where it stands when that is not at the root."""
    schema: dict[str, Any] = request.app.openapi()
    base = base_of(request)
    return {**schema, "servers": [{"url": base}]} if base else schema

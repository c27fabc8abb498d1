"""What watches the server, and what explains it: no key is asked for here, and nothing is told that needs one."""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Request, Response

from retoma.errors import NotFound
from retoma.web import reference, shapes
from retoma.web.door import Door
from retoma.web.pages.languages import base_of
from retoma.web.problems import Refusal
from retoma.web.visits import Place, is_local, needs, refuse_strange_hosts

router = APIRouter(tags=["probes"], route_class=Door)

PATIENCE = 3.0
"""Seconds in which a database that is well has answered, and a connection is free."""


@router.get("/livez")
@needs(None)
async def is_alive() -> shapes.Alive:
    """Whether the server answers at all. The database is not asked."""
    return shapes.Alive(alive=True)


@router.get("/readyz")
@needs(None)
async def is_ready(request: Request) -> shapes.Ready:
    """Whether the server can work: the database answers, its tables are the right ones, a connection is free."""
    place: Place = request.state.retoma
    try:
        async with asyncio.timeout(PATIENCE):
            await place.app.access.ready()
    except TimeoutError:
        raise Refusal("database_unavailable") from None
    return shapes.Ready(ready=True)


@router.get("/openapi.json", include_in_schema=False)
@needs(None)
async def get_openapi(request: Request) -> Response:
    """The whole API, for programs."""
    refuse_strange_hosts(request)
    return reference.as_json(_described(request))


@router.get("/docs", include_in_schema=False)
@needs(None)
async def get_docs(request: Request) -> Response:
    """The whole API, for people on this machine."""
    refuse_strange_hosts(request)
    if not is_local(request):
        raise NotFound("There is no such page.")
    return reference.as_page(_described(request))


def _described(request: Request) -> dict[str, Any]:
    """The API, and where it stands when that is not at the root."""
    schema: dict[str, Any] = request.app.openapi()
    base = base_of(request)
    return {**schema, "servers": [{"url": base}]} if base else schema

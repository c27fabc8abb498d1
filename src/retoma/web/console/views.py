"""Saved views: the query of a list under a name, as chips above it (``console/views.html``)."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Request, Response

from retoma.app.access.keys import ADMIN
from retoma.web.api.schemas import requests
from retoma.web.console.change import led
from retoma.web.console.speaking import changed
from retoma.web.http.auth import Here, needs
from retoma.web.pages.forms import fields_of
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

_LARGEST_FORM = 10_000


@router.post("/views")
@needs("operate", limited=True, streamed=True, records=True)
async def keep_view(visit: Here, request: Request) -> Response:
    """Keep the query of a list under a name."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    shared = said.get("shared") == "yes"
    kept = await changed(
        visit,
        lambda conn: visit.app.system.keep_view(
            said.get("name", ""),
            page=said.get("page", ""),
            query=said.get("query", ""),
            owner=visit.caller,
            shared=shared,
            conn=conn,
        ),
        made=lambda view: view.id,
    )
    return led(request, f"/console/{kept.page}" + (f"?{kept.query}" if kept.query else ""))


@router.post("/views/{id}/remove")
@needs("operate", limited=True)
async def remove_view(id: Annotated[requests.Id, Path()], visit: Here, request: Request) -> Response:
    """Remove a view: one's own; with ``admin``, anybody's."""
    gone = await visit.app.system.remove_view(id, owner=None if visit.may(ADMIN) else visit.caller, conn=visit.conn)
    return led(request, f"/console/{gone.page}")

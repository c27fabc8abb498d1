"""The search box: one hit leads straight there, several are listed, none says what can be searched."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from retoma.model.view import Hit
from retoma.web.console.render import console_page
from retoma.web.http.auth import Here, needs
from retoma.web.pages.languages import base_of
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

_NOUNS = {"job": "jobs", "batch": "batches"}


def _place(hit: Hit) -> str:
    return f"/console/{_NOUNS[hit.kind]}/{hit.id}"


@router.get("/search")
@needs("read", limited=True)
async def search_console(visit: Here, request: Request, q: Annotated[str, Query(max_length=500)] = "") -> Response:
    """What a text names: a job or a batch by id, jobs by key, file name or correlation id."""
    asked = q.strip()
    hits = await visit.app.jobs.search(asked, pipeline=visit.only(None)) if asked else []
    if len(hits) == 1:
        return RedirectResponse(f"{base_of(request)}{_place(hits[0])}", 303)
    return console_page(request, "search.html", current="search", q=asked, hits=hits, place=_place)

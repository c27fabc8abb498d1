"""The page of the letters."""

from __future__ import annotations

from fastapi import APIRouter, Request, Response

from retoma.web.http.auth import Here, needs
from retoma.web.pages import PageRoute, page
from stamps import letters

router = APIRouter(route_class=PageRoute, include_in_schema=False)


@router.get("/stamps")
@needs("content:read", limited=True)
async def show_letters(visit: Here, request: Request) -> Response:
    """Every letter that was stamped."""
    return page(request, "stamps/letters.html", letters=await visit.app.fetch(letters.all_of_them()))

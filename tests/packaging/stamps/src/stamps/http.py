"""Letters over HTTP."""

from __future__ import annotations

from fastapi import APIRouter

from retoma.web.api.schemas.responses import Schema
from retoma.web.http.auth import Here, needs
from retoma.web.http.route import ApiRoute
from stamps import letters


class Letter(Schema):
    """A letter and its number."""

    number: int
    text: str


router = APIRouter(prefix="/stamps", tags=["stamps"], route_class=ApiRoute)


@router.get("")
@needs("content:read", limited=True)
async def list_letters(visit: Here) -> list[Letter]:
    """Every letter that was stamped."""
    return [Letter(number=each.number, text=each.text) for each in await visit.app.fetch(letters.all_of_them())]

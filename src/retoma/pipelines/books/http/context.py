"""What the routes of books share."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Path, Request

from retoma.pipelines.books.library import Books
from retoma.pipelines.books.pipeline import NAME
from retoma.web.http.auth import Here, SiteContext, Visit

CONTENT = "content:read"


def library_of(visit: Visit, request: Request) -> Books:
    """The books of the app that is served here, for whoever may see them."""
    visit.only(NAME)
    place: SiteContext = request.state.retoma
    return place.room(Books)


async def _library(visit: Here, request: Request) -> Books:
    return library_of(visit, request)


Library = Annotated[Books, Depends(_library)]
SessionId = Annotated[str, Path(min_length=1, max_length=200)]
Number = Annotated[str, Path(min_length=1, max_length=200)]

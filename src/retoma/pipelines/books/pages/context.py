"""What the pages of books share: who is asked, where things stand, and what a reader was just told."""

from __future__ import annotations

from functools import partial
from typing import Annotated, Literal
from urllib.parse import quote

from fastapi import Depends, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from retoma.pipelines.books.library import Books
from retoma.pipelines.books.pipeline import NAME
from retoma.pipelines.books.voice import Say
from retoma.web.http.auth import Here, SiteContext
from retoma.web.pages.languages import base_of, language_for
from retoma.web.words import phrase

ROOT = "/books"
CONTENT = "content:read"

Told = Annotated[Literal["", "begun", "found", "resumed", "paused", "approved", "edited", "thanked"], Query()]
"""What was just done, for the page that follows it."""
Id = Annotated[str, Path(min_length=1, max_length=200)]
Number = Annotated[str, Path(min_length=1, max_length=200)]


async def _library(visit: Here, request: Request) -> Books:
    visit.only(NAME)
    place: SiteContext = request.state.retoma
    return place.room(Books)


Library = Annotated[Books, Depends(_library)]
"""The books of the app that is served here, for whoever may see them."""


def speaker(request: Request) -> Say:
    """Says phrases in the language of the page."""
    return partial(phrase, language_for(request))


def place_of(id: str, *more: str) -> str:
    """The address of a session, or of something of it."""
    return "/".join((ROOT, quote(id, safe=""), *(quote(each, safe="") for each in more)))


def back(request: Request, place: str, told: str) -> Response:
    """To the page at *place*, which says what was done."""
    return RedirectResponse(f"{base_of(request)}{place}?told={told}", 303)

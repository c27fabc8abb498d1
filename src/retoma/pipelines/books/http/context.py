"""What the routes of books share."""

from __future__ import annotations

from functools import partial
from typing import Annotated

from fastapi import Depends, Path, Request

from retoma.pipelines.books.library import Books
from retoma.pipelines.books.pipeline import NAME
from retoma.pipelines.books.voice import Say
from retoma.web.http.auth import Here, SiteContext, Visit
from retoma.web.words import language_of, phrase

CONTENT = "content:read"


def library_of(visit: Visit, request: Request) -> Books:
    """The books of the app that is served here, for whoever may see them."""
    visit.only(NAME)
    place: SiteContext = request.state.retoma
    return place.room(Books)


def language_for(request: Request) -> str:
    """The language that whoever asks likes best."""
    return language_of(request.headers.get("accept-language", ""))


def speaker(request: Request) -> Say:
    """Says phrases in that language."""
    return partial(phrase, language_for(request))


async def _library(visit: Here, request: Request) -> Books:
    return library_of(visit, request)


Library = Annotated[Books, Depends(_library)]
SessionId = Annotated[str, Path(min_length=1, max_length=200)]
Number = Annotated[str, Path(min_length=1, max_length=200)]

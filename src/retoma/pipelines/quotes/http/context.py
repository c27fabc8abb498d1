"""What the routes of quotes share: who is asked, what is refused with which words, how a file is named."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Depends, Path, Request

from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.pipeline import process_quote_request
from retoma.web.api.schemas import requests
from retoma.web.http.auth import Here, Visit
from retoma.web.http.error_codes import headers_of

CONTENT = "content:read"
NAME = process_quote_request.name
LIMITED = ("pipelines_limited",)

Number = Annotated[requests.Id, Path()]


def library_of(visit: Visit) -> Quotes:
    """The quotes of the app, for whoever may see them."""
    visit.only(NAME)
    return Quotes(visit.app)


async def _library(visit: Here) -> Quotes:
    return library_of(visit)


Library = Annotated[Quotes, Depends(_library)]
"""Quotes on the app that is served here, for whoever may see them."""


def base_of(request: Request, path: str) -> str:
    """*path* of this site, behind whatever stands before all its paths."""
    return request.url.path.rpartition("/api/")[0] + path


def files_of(*kinds: str) -> dict[int | str, dict[str, Any]]:
    """The answer of a route that gives a file, as the reference shows it."""
    return {
        200: {
            "description": "The file.",
            "content": {kind: {"schema": {"type": "string", "format": "binary"}} for kind in kinds},
            "headers": headers_of("Content-Disposition"),
        }
    }

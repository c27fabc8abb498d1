"""What the pages of quotes share: who is asked, what a page is made with, how a refusal reads."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import partial
from typing import Annotated, Any, TypeVar

from fastapi import Depends, Path, Request, Response
from starlette.responses import RedirectResponse

from retoma.app.retoma import Retoma
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.pipeline import process_quote_request
from retoma.web.api.schemas.requests import Id
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, Visit
from retoma.web.pages.languages import base_of, language_for
from retoma.web.pages.render import page, region_of
from retoma.web.words import phrase, phrases

ROOT = "/cotacoes"
CONTENT = "content:read"
NAME = process_quote_request.name
LARGEST_FORM = 50_000

T = TypeVar("T")

Say = Callable[..., str]
Number = Annotated[Id, Path()]


async def _library(visit: Here) -> Quotes:
    visit.only(NAME)
    return Quotes(visit.app)


Library = Annotated[Quotes, Depends(_library)]
"""Quotes on the app that is served here, for whoever may see them."""


def speaker(request: Request) -> Say:
    """Says phrases in the language of the page."""
    return partial(phrase, language_for(request))


async def served(app: Retoma) -> bool:
    """Whether somebody works on quotes."""
    return any(each.alive and NAME in each.pipelines for each in await app.workers.all())


async def shown(
    request: Request, library: Quotes, template: str, tab: str, *, status: int = 200, **values: Any
) -> Response:
    """A page of quotes, with its tabs and its head."""
    idle = not region_of(request) and not await served(library.app)
    told = partial(known, speaker(request))
    return page(request, f"quotes/{template}.html", status=status, tab=tab, root=ROOT, idle=idle, known=told, **values)


def reads(request: Request) -> bool:
    """Whether the caller may see what items say; if so they do, and the audit has it."""
    visit: Visit = request.state.visit
    return visit.may(CONTENT)


def known(say: Say, key: str, otherwise: str, **values: object) -> str:
    """What *key* says, or *otherwise* where nobody has words for it."""
    return say(key if key in phrases("en") else otherwise, **values)


def led(request: Request, path: str) -> Response:
    """On to another page of quotes."""
    return RedirectResponse(f"{base_of(request)}{ROOT}{path}", 303)


async def done(visit: Visit, act: Callable[[Any], Awaitable[T]], *, new: bool = False) -> T:
    """What *act* gives on the connection of a transaction that also holds its row of the audit. Of something *new*, it
    gives the id.
    """

    async def within(record: Recording) -> T:
        async with visit.app.transaction() as conn:
            result = await act(conn)
            await record(conn, result if new else None)
        return result

    return await recorded(visit, within)

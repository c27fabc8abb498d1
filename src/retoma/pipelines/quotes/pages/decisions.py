"""What people decide about a quote and its sources: each decision has a reason."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any
from urllib.parse import urlsplit

from fastapi import APIRouter, Path, Request, Response

from retoma.errors import ConfigurationError, Conflict
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.pages.context import LARGEST_FORM, Library, Number, done, led
from retoma.pipelines.quotes.pages.items import BY_HAND, quote_page
from retoma.pipelines.quotes.ports import SourceKind
from retoma.web.api.schemas.requests import Id
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.pages.forms import fields_of
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/itens/{id}", route_class=PageRoute)

_CONFLICT, _UNFIT = 409, 422
_LONGEST_URL, _LONGEST_SELLER = 2000, 200

Part = Annotated[Id, Path()]
Act = Callable[[Any, dict[str, str]], Awaitable[object]]


async def _decided(
    id: int, library: Quotes, visit: Visit, request: Request, word: str, act: Act, *, form: str
) -> Response:
    """Do it with its row in the audit; what is refused comes back with the form as it was filled in."""
    said = {"reason": "", **await fields_of(request, largest=LARGEST_FORM)}
    try:
        await done(visit, lambda conn: act(conn, said))
    except ConfigurationError:
        visit.unchanged = True
        return await quote_page(library, request, id, status=_UNFIT, wrong=form, given=said)
    except Conflict:
        visit.unchanged = True
        return await quote_page(library, request, id, status=_CONFLICT, wrong="conflict", given=said)
    return led(request, f"/itens/{id}?dito={word}")


@router.post("/aceitar")
@needs("operate", limited=True, streamed=True)
async def accept_quote(id: Number, library: Library, visit: Here, request: Request) -> Response:
    """The prices that were found are enough."""

    def act(conn: Any, said: dict[str, str]) -> Awaitable[object]:
        return library.accept(id, reason=said["reason"], by=visit.caller, conn=conn)

    return await _decided(id, library, visit, request, "accepted", act, form="reason")


@router.post("/recusar")
@needs("operate", limited=True, streamed=True)
async def refuse_quote(id: Number, library: Library, visit: Here, request: Request) -> Response:
    """The prices that were found will not do."""

    def act(conn: Any, said: dict[str, str]) -> Awaitable[object]:
        return library.refuse(id, reason=said["reason"], by=visit.caller, conn=conn)

    return await _decided(id, library, visit, request, "refused", act, form="reason")


@router.post("/fontes")
@needs("operate", limited=True, streamed=True)
async def add_source(id: Number, library: Library, visit: Here, request: Request) -> Response:
    """A price that a person found."""

    def act(conn: Any, said: dict[str, str]) -> Awaitable[object]:
        return library.add_source(
            id,
            title=said.get("title", ""),
            price=_price(said.get("price", "")),
            url=_url(said.get("url", "")),
            seller=said.get("seller", "").strip()[:_LONGEST_SELLER] or None,
            kind=_kind(said.get("kind", "")),
            reason=said["reason"],
            by=visit.caller,
            conn=conn,
        )

    return await _decided(id, library, visit, request, "added", act, form="source")


@router.post("/fontes/{source}/descartar")
@needs("operate", limited=True, streamed=True)
async def drop_source(id: Number, source: Part, library: Library, visit: Here, request: Request) -> Response:
    """A price does not count."""

    def act(conn: Any, said: dict[str, str]) -> Awaitable[object]:
        return library.drop_source(id, source, reason=said["reason"], by=visit.caller, conn=conn)

    return await _decided(id, library, visit, request, "dropped", act, form="reason")


@router.post("/fontes/{source}/aproveitar")
@needs("operate", limited=True, streamed=True)
async def take_source(id: Number, source: Part, library: Library, visit: Here, request: Request) -> Response:
    """A price counts that was left out."""

    def act(conn: Any, said: dict[str, str]) -> Awaitable[object]:
        return library.take_source(id, source, reason=said["reason"], by=visit.caller, conn=conn)

    return await _decided(id, library, visit, request, "taken", act, form="reason")


def _price(said: str) -> Decimal:
    """As people write it: "1.234,56", "R$ 1234,56" and "1234.56" are the same."""
    number = said.replace("R$", "").replace(" ", "").replace("\xa0", "")
    if "," in number:
        number = number.replace(".", "").replace(",", ".")
    try:
        price = Decimal(number)
    except InvalidOperation:
        raise ConfigurationError("A price is a number.") from None
    if not price.is_finite() or price.adjusted() > 12:  # noqa: PLR2004 - dearer than anything there is
        raise ConfigurationError("A price is a number.")
    return price


def _url(said: str) -> str | None:
    said = said.strip()
    if not said:
        return None
    try:
        parts = urlsplit(said)
    except ValueError:
        parts = urlsplit("")
    if parts.scheme not in ("http", "https") or not parts.netloc or len(said) > _LONGEST_URL:
        raise ConfigurationError("An address begins with http:// or https://.")
    return said


def _kind(said: str) -> SourceKind:
    found = [each for each in BY_HAND if each == said]
    if not found:
        raise ConfigurationError("The sort of a source is one of those that are offered.")
    return found[0]

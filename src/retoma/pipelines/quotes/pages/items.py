"""Quotes: all of them with what is stuck; one with its stages, its sources and what it cost."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from retoma.errors import Conflict, NotFound
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.model import ClosedReport, Quote
from retoma.pipelines.quotes.pages import view
from retoma.pipelines.quotes.pages.context import (
    CONTENT,
    ROOT,
    Library,
    Number,
    Say,
    done,
    led,
    reads,
    shown,
    speaker,
)
from retoma.pipelines.quotes.ports import SourceKind
from retoma.pipelines.quotes.reports import Reports
from retoma.web.api.schemas.requests import Wanted
from retoma.web.http.auth import Here, needs
from retoma.web.http.errors import Refusal
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/itens", route_class=PageRoute)

_ROWS = 50
_STUCK = 20
BY_HAND = (SourceKind.SUPPLIER, SourceKind.SHOP, SourceKind.CONTRACT, SourceKind.OFFICIAL, SourceKind.TABLE,
           SourceKind.INVOICE)  # fmt: skip
"""The sorts of source that a person may bring."""


class QuotesWanted(Wanted):
    """Which quotes."""

    busca: Annotated[str, Field(max_length=200)] = ""
    situacao: Literal["", "PENDING", "PROCESSING", "DONE", "AWAITING_REVIEW", "ERROR", "CANCELLED"] = ""
    antes: Annotated[int, Field(ge=1, lt=2**63)] | None = None


class QuoteWanted(Wanted):
    """What was just done."""

    dito: Literal[
        "", "accepted", "refused", "added", "dropped", "taken", "recovered", "cancelled", "closed", "retaking"
    ] = ""


@router.get("")
@needs("read", limited=True)
async def list_quotes(wanted: Annotated[QuotesWanted, Query()], library: Library, request: Request) -> Response:
    """The quotes, the newest first, and those that are stuck. Their words are searched by those who may see them."""
    content = reads(request)
    if wanted.busca.strip() and not content:
        raise Refusal("scope_required", scope=CONTENT)
    found = await library.quotes(
        search=wanted.busca.strip() or None,
        statuses=[wanted.situacao] if wanted.situacao else None,
        before=wanted.antes,
        limit=_ROWS + 1,
    )
    return await shown(
        request,
        library,
        "items",
        "items",
        wanted=wanted,
        quotes=view.named(found[:_ROWS], reads=content),
        stuck=view.stuck_named(await library.stuck(limit=_STUCK), reads=content),
        statuses=[name for name, _ in view.shares_of({})],
        more=found[_ROWS - 1].id if len(found) > _ROWS else None,
    )


@router.get("/{id}")
@needs("read", limited=True)
async def show_quote(
    id: Number, wanted: Annotated[QuoteWanted, Query()], library: Library, request: Request
) -> Response:
    """A quote: how far it is, every price that was tested, what people decided."""
    return await quote_page(library, request, id, said=wanted.dito)


async def quote_page(library: Quotes, request: Request, id: int, *, status: int = 200, **more: Any) -> Response:
    """The page of a quote; *more* is what was just done or refused."""
    quote, content = await library.quote(id), reads(request)
    sources = await library.sources(id)
    steps = await library.app.jobs.checkpoints(quote.job_id, values=False)
    why = view.code_of(quote.error_message)
    values: dict[str, Any] = {
        "quote": quote if content else view.without_words(quote),
        "moments": view.timeline_of(quote, steps),
        "counting": [each for each in sources if each.is_accepted and content],
        "struck": [each for each in sources if not each.is_accepted and content],
        "reviews": await library.reviews(id) if content else [],
        "report": await _closed(library, id),
        "worth": await Reports(library.app).valuation(id),
        "bill": view.bill_of(await library.quote_costs(id)),
        "why": why if sources or why != "no_prices" else "nothing_found",
        "why_told": view.told_of(quote.error_message) if content else "",
        "openable": view.openable,
        "kinds": [str(each) for each in BY_HAND],
        "said": "",
        "wrong": "",
        "given": {},
    }
    return await shown(request, library, "item", "items", status=status, **{**values, **more})


async def _closed(library: Quotes, id: int) -> ClosedReport | None:
    try:
        return await library.closed_report(quote_id=id)
    except NotFound:
        return None


# — acting —


@router.post("/{id}/recuperar")
@needs("operate", limited=True, once=False)
async def recover_quote(
    id: Number, library: Library, visit: Here, request: Request, de: Annotated[Literal["", "lista"], Query()] = ""
) -> Response:
    """Let a quote go on that is stuck; who came from its batch goes back there."""
    await visit.app.jobs.recover()
    try:
        await done(visit, lambda conn: library.recover_quote(id, conn=conn))
    except Conflict:
        visit.unchanged = True
        return await quote_page(library, request, id, status=409, wrong="alive")
    batch = (await library.quote(id)).batch_job_id
    return led(request, f"/listas/{batch}?dito=recovered" if de and batch else f"/itens/{id}?dito=recovered")


@router.post("/{id}/cancelar")
@needs("operate", limited=True)
async def cancel_quote(
    id: Number, library: Library, visit: Here, request: Request, sim: Annotated[Literal["", "1"], Query()] = ""
) -> Response:
    """Stop a quote, once the question was answered."""
    quote = await library.quote(id, conn=visit.conn)
    if not sim:
        visit.unchanged = True
        return await shown(request, library, "ask", "items", **_question(speaker(request), id, _about(request, quote)))
    await library.cancel(id, by=visit.caller, conn=visit.conn)
    return led(request, f"/itens/{id}?dito=cancelled")


@router.post("/{id}/fechar")
@needs("operate", limited=True)
async def close_report(
    id: Number, library: Library, visit: Here, request: Request, sim: Annotated[Literal["", "1"], Query()] = ""
) -> Response:
    """Close the report of a quote for good, once the question was answered."""
    quote = await library.quote(id, conn=visit.conn)
    if not sim:
        visit.unchanged = True
        say, place = speaker(request), f"{ROOT}/itens/{id}"
        question: dict[str, Any] = {
            "heading": say("quotes.report.close"),
            "about": _about(request, quote),
            "question": say("quotes.report.close_quote_ask"),
            "action": f"{place}/fechar?sim=1",
            "back": place,
        }
        return await shown(request, library, "ask", "items", **question)
    await Reports(library.app).close(quote_id=id, by=visit.caller, conn=visit.conn)
    return led(request, f"/itens/{id}?dito=closed")


def _about(request: Request, quote: Quote) -> str:
    if reads(request) and quote.input_text:
        return quote.input_text
    return speaker(request)("quotes.item.number", id=quote.id)


def _question(say: Say, id: int, about: str) -> dict[str, Any]:
    return {
        "heading": say("quotes.item.cancel"),
        "about": about,
        "question": say("quotes.item.cancel_ask"),
        "action": f"{ROOT}/itens/{id}/cancelar?sim=1",
        "back": f"{ROOT}/itens/{id}",
    }


@router.post("/{id}/refazer")
@needs("submit", limited=True)
async def requote(id: Number, library: Library, visit: Here, request: Request) -> Response:
    """The same item again, with the project's terms of today."""
    new = await library.requote(id, by=visit.caller, conn=visit.conn)
    await submitted(request, "job", [(await library.quote(new, conn=visit.conn)).job_id])
    await quotas_of(request).make_room(visit, 0)
    return led(request, f"/itens/{new}")

"""Batches: all of them; one with its funnel, what is stuck, what it cost, its quotes; continued and cancelled."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response
from pydantic import Field

from retoma.errors import Conflict
from retoma.model.ids import BatchId
from retoma.pipelines.quotes.pages import view
from retoma.pipelines.quotes.pages.context import ROOT, Library, Number, done, led, reads, shown, speaker
from retoma.pipelines.quotes.reports import Reports
from retoma.pipelines.quotes.stages import QuoteStatus
from retoma.web.api.schemas.requests import Wanted
from retoma.web.http.auth import Here, needs
from retoma.web.http.quotas import submitted
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/listas", route_class=PageRoute)

_BATCHES = 25
_ROWS = 50
_STUCK = 50
_PROBLEMS = 200

Cursor = Annotated[int, Field(ge=1, lt=2**63)]


class BatchesWanted(Wanted):
    """Which batches."""

    antes: Cursor | None = None


class RowsWanted(Wanted):
    """Which quotes of a batch, and what was just done."""

    situacao: Literal["", "PENDING", "PROCESSING", "DONE", "AWAITING_REVIEW", "ERROR", "CANCELLED"] = ""
    antes: Cursor | None = None
    dito: Literal["", "resumed", "retried", "cancelled", "recovered", "refused", "report"] = ""


@router.get("")
@needs("read", limited=True)
async def list_batches(wanted: Annotated[BatchesWanted, Query()], library: Library, request: Request) -> Response:
    """The lists that were sent, the newest first."""
    found = await library.batches(before=wanted.antes, limit=_BATCHES + 1)
    standing = {each.id: await library.batch_status(each.id) for each in found[:_BATCHES]}
    more = found[_BATCHES - 1].id if len(found) > _BATCHES else None
    return await shown(
        request, library, "batches", "batches", batches=found[:_BATCHES], standing=standing, more=more, wanted=wanted
    )


@router.get("/{id}")
@needs("read", limited=True)
async def show_batch(
    id: Number, wanted: Annotated[RowsWanted, Query()], library: Library, request: Request
) -> Response:
    """A batch: how far its quotes are, which are stuck, what they cost."""
    batch, content = await library.batch(id), reads(request)
    standing = await library.batch_status(BatchId(id))
    found = await library.quotes(
        batch_id=id, statuses=[wanted.situacao] if wanted.situacao else None, before=wanted.antes, limit=_ROWS + 1
    )
    values: dict[str, Any] = {
        "batch": batch,
        "standing": standing,
        "funnel": view.funnel_of(standing),
        "shares": view.shares_of(standing.status_distribution),
        "stuck": view.stuck_named(await library.stuck(batch_id=id, limit=_STUCK), reads=content)
        if standing.stuck_quotes
        else [],
        "bill": view.bill_of(await library.costs(BatchId(id))),
        "problems": await library.items(id, only_problems=True, limit=_PROBLEMS) if batch.problems else [],
        "quotes": view.named(found[:_ROWS], reads=content),
        "more": found[_ROWS - 1].id if len(found) > _ROWS else None,
        "wanted": wanted,
        "results": await Reports(library.app).ordered(id, limit=5),
        "report": next(iter(await library.closed_reports(id)), None),
        "ended": any(
            standing.status_distribution.get(each, 0)
            for each in (QuoteStatus.DONE, QuoteStatus.AWAITING_REVIEW, QuoteStatus.ERROR)
        ),
        "open": any(
            standing.status_distribution.get(each, 0) for each in (QuoteStatus.PENDING, QuoteStatus.PROCESSING)
        ),
    }
    return await shown(request, library, "batch", "batches", **values)


# — acting: every button is a form —


@router.post("/{id}/retomar")
@needs("operate", limited=True, once=False)
async def resume_batch(id: Number, library: Library, visit: Here, request: Request) -> Response:
    """Continue where it stopped; what is stuck goes on, too."""
    return await _resumed(id, library, visit, request, reset_errors=False)


@router.post("/{id}/reprocessar-erros")
@needs("operate", limited=True, once=False)
async def retry_batch(id: Number, library: Library, visit: Here, request: Request) -> Response:
    """Try those again that failed; what their stages have paid for is not paid again."""
    return await _resumed(id, library, visit, request, reset_errors=True)


async def _resumed(id: int, library: Library, visit: Here, request: Request, *, reset_errors: bool) -> Response:
    await visit.app.jobs.recover()
    try:
        await done(
            visit,
            lambda conn: library.resume_batch(BatchId(id), reset_errors=reset_errors, by=visit.caller, conn=conn),
        )
    except Conflict:
        visit.unchanged = True
        return led(request, f"/listas/{id}?dito=refused")
    return led(request, f"/listas/{id}?dito={'retried' if reset_errors else 'resumed'}")


@router.post("/{id}/relatorio")
@needs("operate", limited=True)
async def make_report(
    id: Number,
    library: Library,
    visit: Here,
    request: Request,
    fechar: Annotated[Literal["", "1"], Query()] = "",
    sim: Annotated[Literal["", "1"], Query()] = "",
) -> Response:
    """Have the report of a batch written by a worker; to close it, once the question was answered."""
    batch = await library.batch(id, conn=visit.conn)
    if fechar and not sim:
        visit.unchanged = True
        say, place = speaker(request), f"{ROOT}/listas/{id}"
        question: dict[str, Any] = {
            "heading": say("quotes.report.close"),
            "about": batch.name or "",
            "question": say("quotes.report.close_ask"),
            "action": f"{place}/relatorio?fechar=1&sim=1",
            "back": place,
        }
        return await shown(request, library, "ask", "batches", **question)
    made = await Reports(library.app).order(id, closing=bool(fechar), by=visit.caller, conn=visit.conn)
    await submitted(request, "job", [made.job_id])
    return led(request, f"/listas/{id}?dito=report")


@router.post("/{id}/cancelar")
@needs("operate", limited=True)
async def cancel_batch(
    id: Number, library: Library, visit: Here, request: Request, sim: Annotated[Literal["", "1"], Query()] = ""
) -> Response:
    """Stop a batch for good, once the question was answered."""
    batch = await library.batch(id, conn=visit.conn)
    if not sim:
        visit.unchanged = True
        say, place = speaker(request), f"{ROOT}/listas/{id}"
        question: dict[str, Any] = {
            "heading": say("quotes.batch.cancel"),
            "about": batch.name or "",
            "question": say("quotes.batch.cancel_ask"),
            "action": f"{place}/cancelar?sim=1",
            "back": place,
        }
        return await shown(request, library, "ask", "batches", **question)
    await library.cancel_batch(BatchId(id), by=visit.caller, conn=visit.conn)
    return led(request, f"/listas/{id}?dito=cancelled")

"""The pilot of a batch: what it says of the whole, and one button that lets the rest go on."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated

from fastapi import APIRouter, Path, Request, Response
from starlette.responses import RedirectResponse

from retoma.model.ids import BatchId
from retoma.web.api.schemas import requests
from retoma.web.console.render import console_page
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.errors import Refusal
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of, language_for
from retoma.web.pages.route import PageRoute
from retoma.web.words import phrase

router = APIRouter(route_class=PageRoute)

Id = Annotated[requests.Id, Path()]
_LARGEST_FORM = 10_000
_MINUTE, _HOUR, _DAY = 60, 3600, 86_400


@router.get("/batches/{id}/pilot")
@needs("read", limited=True)
async def show_pilot(id: Id, visit: Here, request: Request) -> Response:
    """How the pilot went, and what the whole will cost, take and lose by it."""
    found = await visit.app.batches.pilot(BatchId(id))
    visit.see(found.batch.pipeline, f"batch {id}")
    budget = found.batch.budget
    language = language_for(request)
    return console_page(
        request,
        "pilot.html",
        current="batches",
        batch=found.batch,
        pilot=found,
        short=budget is not None and found.cost is not None and found.cost.high > float(budget),
        span=lambda seconds: spoken_span(seconds, language),
        amount=lambda value: Decimal(f"{value:.6f}"),
        told=request.query_params.get("told", ""),
    )


@router.post("/batches/{id}/pilot")
@needs("operate", limited=True, streamed=True)
async def decide_pilot(id: Id, visit: Here, request: Request) -> Response:
    """Release the rest, cancel it, or give it another budget."""
    batch = await visit.app.batches.get(BatchId(id))
    visit.see(batch.pipeline, f"batch {id}")
    said = await fields_of(request, largest=_LARGEST_FORM)

    async def decide(record: Recording) -> str:
        async with visit.app.transaction() as visit.conn:
            done = await _done(visit, batch.id, said)
            await record(visit.conn)
        return done

    told = await recorded(visit, decide)
    return RedirectResponse(f"{base_of(request)}/console/batches/{id}/pilot?told={told}", 303)


async def _done(visit: Visit, id: BatchId, said: Mapping[str, str]) -> str:
    match said.get("do"):
        case "release":
            await visit.app.batches.release(id, by=visit.caller, conn=visit.conn)
            return "released"
        case "cancel":
            await visit.app.batches.cancel(id, by=visit.caller, wait=False, conn=visit.conn)
            return "cancelled"
        case "budget":
            try:
                budget = Decimal(said["budget"].strip().replace(",", "."))
            except (InvalidOperation, KeyError):
                raise Refusal("validation_failed") from None
            await visit.app.batches.change(id, budget=budget, by=visit.caller, conn=visit.conn)
            return "changed"
    raise Refusal("validation_failed")


def spoken_span(seconds: float, language: str) -> str:
    """A length of time with as many units as people would say."""
    if seconds < 2 * _MINUTE:
        return phrase(language, "console.pilot.seconds", count=_plain(seconds, language))
    if seconds < 2 * _HOUR:
        return phrase(language, "console.pilot.minutes", count=_plain(seconds / _MINUTE, language))
    if seconds < 2 * _DAY:
        return phrase(language, "console.pilot.hours", count=_plain(seconds / _HOUR, language))
    return phrase(language, "console.pilot.days", count=_plain(seconds / _DAY, language))


def _plain(value: float, language: str) -> str:
    places = 0 if value >= 10 or value == int(value) else 1  # noqa: PLR2004 - two digits are enough
    text = f"{value:.{places}f}"
    return text if language == "en" else text.replace(".", ",")

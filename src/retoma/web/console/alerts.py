"""The alerts: what the watchdog found wrong, who looks after it, and where it was sent."""

from __future__ import annotations

from collections import Counter
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from retoma.model.alert import advice, sentence
from retoma.web.api.schemas import requests
from retoma.web.console.render import console_page
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, needs
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of, language_for
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

_PAGE = 50
_WORST = ("critical", "warning", "info")
_LARGEST_FORM = 10_000
_LONGEST_NOTE = 200


@router.get("/alerts")
@needs("read")
async def show_alerts(
    request: Request,
    visit: Here,
    show: Annotated[Literal["now", "all"], Query()] = "now",
    before: Annotated[requests.Id | None, Query()] = None,
    told: Annotated[Literal["", "acknowledged"], Query()] = "",
) -> Response:
    """What is wrong now, or every incident; what can be done about it, and who does."""
    found = await visit.app.system.alerts(open=show == "now", before=before, limit=_PAGE)
    settings, language = visit.app.settings, language_for(request)
    if show == "now":  # the worst first, and the newest of them
        found.sort(key=lambda each: _WORST.index(each.severity))
    opened = [each for each in found if each.resolved_at is None]
    counts: Counter[str] = Counter(each.severity for each in opened)
    values: dict[str, Any] = {
        "alerts": found,
        "show": show,
        "told": told,
        "counts": counts,
        "looked_after": sum(each.acknowledged_at is not None for each in opened),
        "older": min(each.id for each in found) if len(found) == _PAGE else None,
        "sentence": partial(_say, sentence, language),
        "advice": partial(_say, advice, language),
        "seconds": settings.watchdog_seconds,
        "webhook": settings.alert_webhook is not None,
        "recipients": len(settings.alert_email_to) if settings.alert_smtp else 0,
    }
    return console_page(request, "alerts.html", current="alerts", **values)


def _say(how: Any, language: str, alert: Any) -> str:
    return str(how(alert.rule, alert.facts, language))


@router.post("/alerts/{id}/acknowledge")
@needs("operate", streamed=True, refuses=("not_found",))
async def acknowledge_alert(id: Annotated[requests.Id, Path()], request: Request, visit: Here) -> Response:
    """Say that somebody looks after it."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    note = said.get("note", "").strip()[:_LONGEST_NOTE] or None

    async def acknowledge(record: Recording) -> None:
        async with visit.app.transaction() as conn:
            await visit.app.system.acknowledge(id, by=visit.name or visit.caller, note=note, conn=conn)
            await record(conn, id)

    await recorded(visit, acknowledge)
    return RedirectResponse(f"{base_of(request)}/console/alerts?told=acknowledged", 303)

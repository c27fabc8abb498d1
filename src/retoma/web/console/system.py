"""The system: what the doctor finds, versions, sizes, retention, the watchdog's rounds, how busy this process is."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request, Response

from retoma.web.api.system import state_of
from retoma.web.checkup import LEVELS, Checkup, told, worst
from retoma.web.console.figures import machine_page
from retoma.web.http.auth import Here, SiteContext, needs
from retoma.web.pages.languages import language_for
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/system", route_class=PageRoute)

_SETTINGS = ("limit: ", "limite: ")
_QUOTAS = ("quota", "cota")


@router.get("")
@needs("read")
async def show_system(visit: Here, request: Request, again: Annotated[str, Query(max_length=1)] = "") -> Response:
    """Whether the system is well."""
    place: SiteContext = request.state.retoma
    found, known = await place.room(Checkup).whole(anew=again == "1" and visit.may("operate"))
    shown = told(found, language_for(request), whole=visit.may("operate"))
    configured = [place for place, each in enumerate(found) if each.what.startswith(_SETTINGS) or each.what in _QUOTAS]
    findings = [each for place, each in enumerate(shown) if place not in configured]
    findings.sort(key=lambda each: -LEVELS.index(each.level))
    return machine_page(
        request,
        "system.html",
        current="system",
        findings=findings,
        settings=[shown[place] for place in configured],
        level=worst(found),
        counts={level: sum(each.level == level for each in findings) for level in LEVELS},
        state=state_of(visit, request.state.newsroom, known),
        health=known.health,
    )

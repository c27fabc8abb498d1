"""Schedules: when each comes next and what became of the last jobs; run, pause, resume, make, change, remove."""

from __future__ import annotations

import json
from functools import cache, partial
from typing import Annotated, Any
from zoneinfo import available_timezones

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.commands.schedules import next_runs
from retoma.errors import ConfigurationError
from retoma.web.api.jobs import open_pipeline
from retoma.web.api.schedules import input_of
from retoma.web.api.schemas import requests
from retoma.web.console.change import Fields, changed
from retoma.web.console.cron import in_words
from retoma.web.console.figures import machine_page
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.pages.languages import language_for
from retoma.web.pages.route import PageRoute
from retoma.web.words import phrase

router = APIRouter(prefix="/schedules", route_class=PageRoute)

Name = Annotated[requests.Text, Path()]
CONTENT = "content:read"
_ZONES = ("America/Sao_Paulo", "America/Manaus", "America/New_York", "Europe/Lisbon", "UTC")


@router.get("")
@needs("read")
async def list_schedules(
    visit: Here,
    request: Request,
    told: Annotated[str, Query(max_length=40)] = "",
    edit: Annotated[str, Query(max_length=200)] = "",
) -> Response:
    """Every schedule."""
    return await _page(visit, request, told=told, edit=edit)


@cache
def _zones() -> list[str]:
    """The time zones that are offered, if this machine knows them: to list all that it knows reads its files."""
    return [each for each in _ZONES if each in available_timezones()]


async def _page(
    visit: Visit, request: Request, *, told: str = "", wrong: str = "", edit: str = "", given: Fields | None = None
) -> Response:
    app = visit.app
    say = partial(phrase, language_for(request))
    runs = await app.schedules.runs()
    found = await app.schedules.all()
    own = [name for name in app.registry.own if not app.registry.pipeline(name).internal]
    shown = [
        {
            "schedule": each,
            "words": in_words(each.cron, say),
            "next": [] if each.paused_at else next_runs(each.cron, each.zone, each.now),
            "runs": runs.get(each.name, []),
            "editable": each.pipeline in own,
        }
        for each in found
    ]
    content = bool(edit) and visit.may("operate") and visit.may(CONTENT)
    return machine_page(
        request,
        "schedules.html",
        current="schedules",
        schedules=shown,
        pipelines=own,
        zones=_zones(),
        told=told,
        wrong=wrong,
        edit=edit,
        content=content,
        given=given or {},
    )


@router.post("")
@needs("operate", streamed=True)
async def create_schedule(visit: Here, request: Request) -> Response:
    """Make a schedule."""

    async def do(conn: object, said: Fields) -> None:
        pipeline = open_pipeline(visit.app, said.get("pipeline", ""))
        value = input_of(pipeline, _json(said.get("input", "")))
        put = {"cron": said.get("cron", "").strip(), "zone": said.get("zone", "").strip() or "UTC"}
        visit.noted.update(schedule=said.get("name", ""), pipeline=pipeline.name, **put)
        await visit.app.schedules.put(
            pipeline, value, name=said.get("name", "").strip(), new=True, conn=conn, cron=put["cron"], zone=put["zone"]
        )

    return await _changed(visit, request, do, "made")


@router.post("/{name}/change")
@needs("operate", streamed=True)
async def change_schedule(name: Name, visit: Here, request: Request) -> Response:
    """Let a schedule come at another time, or with another input."""

    async def do(conn: object, said: Fields) -> None:
        cron, zone = said.get("cron", "").strip() or None, said.get("zone", "").strip() or None
        if not said.get("input", "").strip():
            await visit.app.schedules.change(name, cron=cron, zone=zone, conn=conn)
            return
        found = await visit.app.schedules.get(name, conn=conn)
        pipeline = open_pipeline(visit.app, found.pipeline)
        value = input_of(pipeline, _json(said["input"]))
        visit.noted["input"] = "another"
        await visit.app.schedules.put(
            pipeline, value, name=name, cron=cron or found.cron, zone=zone or found.zone, conn=conn
        )

    return await _changed(visit, request, do, "changed", edit=name)


@router.post("/{name}/run")
@needs("operate", streamed=True)
async def run_schedule(name: Name, visit: Here, request: Request) -> Response:
    """Queue a schedule's job now."""

    async def do(conn: object, _said: Fields) -> None:
        visit.noted["job"] = await visit.app.schedules.run(name, conn=conn)

    return await _changed(visit, request, do, "run")


@router.post("/{name}/pause")
@needs("operate", streamed=True)
async def pause_schedule(name: Name, visit: Here, request: Request) -> Response:
    """Let a schedule rest."""

    async def do(conn: object, _said: Fields) -> None:
        await visit.app.schedules.pause(name, conn=conn)

    return await _changed(visit, request, do, "paused")


@router.post("/{name}/resume")
@needs("operate", streamed=True)
async def resume_schedule(name: Name, visit: Here, request: Request) -> Response:
    """Let a schedule go on."""

    async def do(conn: object, _said: Fields) -> None:
        await visit.app.schedules.resume(name, conn=conn)

    return await _changed(visit, request, do, "resumed")


@router.post("/{name}/remove")
@needs("operate", streamed=True)
async def remove_schedule(name: Name, visit: Here, request: Request) -> Response:
    """Forget a schedule; jobs that it queued stay."""

    async def do(conn: object, _said: Fields) -> None:
        await visit.app.schedules.remove(name, conn=conn)

    return await _changed(visit, request, do, "removed")


async def _changed(visit: Visit, request: Request, do: Any, told: str, *, edit: str = "") -> Response:
    async def again(wrong: str, said: Fields) -> Response:
        return await _page(visit, request, wrong=wrong, edit=edit, given=said)

    return await changed(visit, request, do, back="/console/schedules", told=told, again=again)


def _json(text: str) -> Any:
    """What somebody wrote as JSON; nothing is null."""
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        raise ConfigurationError(
            "The input is not JSON.", next='Write it as JSON, such as "text" or {"name": "value"}.'
        ) from None

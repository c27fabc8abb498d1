"""Queues: what waits, how fast it moves, who paused it; pause, resume, weigh, limit a lane."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.model.machine import QueueState
from retoma.web.api.schemas import requests
from retoma.web.console.change import Fields, changed, maybe, whole
from retoma.web.console.figures import machine_page
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/queues", route_class=PageRoute)

Name = Annotated[requests.QueueName, Path()]
Told = Annotated[str, Query(max_length=40)]
_MOST_WEIGHT, _MOST_AT_ONCE, _LONGEST = 1000, 10_000, 200
_MOST_MINUTES = 525_600


@router.get("")
@needs("read")
async def list_queues(visit: Here, request: Request, told: Told = "") -> Response:
    """Every queue, as it stands."""
    return await _list(visit, request, told=told)


@router.get("/{name}")
@needs("read")
async def show_queue(name: Name, visit: Here, request: Request, told: Told = "") -> Response:
    """One queue, with its lanes."""
    return await _one(visit, request, name, told=told)


async def _list(visit: Visit, request: Request, *, told: str = "", wrong: str = "") -> Response:
    found = await visit.app.queues.look()
    who = await visit.app.queues.paused_by(*(each.depth.name for each in found if each.depth.paused_at))
    found.sort(key=lambda each: (_ORDER.index(standing(each)), each.depth.name))
    shown = [{"state": each, "is": standing(each), "by": who.get(each.depth.name)} for each in found]
    return machine_page(request, "queues.html", current="queues", queues=shown, told=told, wrong=wrong, one=False)


async def _one(visit: Visit, request: Request, name: str, *, told: str = "", wrong: str = "") -> Response:
    found = await visit.app.queues.get(name)
    who = await visit.app.queues.paused_by(name) if found.depth.paused_at else {}
    shown = [{"state": found, "is": standing(found), "by": who.get(name)}]
    return machine_page(request, "queue.html", current="queues", queues=shown, told=told, wrong=wrong, one=True)


_ORDER = ("paused", "unserved", "moving", "waiting", "idle")


def standing(found: QueueState) -> str:
    """How a queue stands, in one word of ``states.toml``."""
    depth = found.depth
    if depth.paused_at is not None:
        return "paused"
    if depth.due and not depth.executors:
        return "unserved"
    if depth.running or found.pace.ended:
        return "moving"
    return "waiting" if depth.waiting else "idle"


@router.post("/{name}/pause")
@needs("operate", streamed=True)
async def pause_queue(name: Name, visit: Here, request: Request) -> Response:
    """Let nobody take jobs from a queue."""

    async def do(conn: object, said: Fields) -> None:
        reason = said.get("reason", "").strip()[:_LONGEST] or "person"
        minutes = maybe(said.get("minutes", ""), "The pause", 1, _MOST_MINUTES)
        visit.noted["reason"] = reason
        seconds = None if minutes is None else 60.0 * minutes
        await visit.app.queues.pause(name, reason=reason, seconds=seconds, conn=conn)

    return await _changed(visit, request, name, do, "paused")


@router.post("/{name}/resume")
@needs("operate", streamed=True)
async def resume_queue(name: Name, visit: Here, request: Request) -> Response:
    """Let a paused queue go on."""

    async def do(conn: object, _said: Fields) -> None:
        await visit.app.queues.resume(name, conn=conn)

    return await _changed(visit, request, name, do, "resumed")


@router.post("/{name}/weight")
@needs("operate", streamed=True)
async def weigh_queue(name: Name, visit: Here, request: Request) -> Response:
    """Give a queue more turns, or fewer."""

    async def do(conn: object, said: Fields) -> None:
        weight = whole(said.get("weight", ""), "The weight", 1, _MOST_WEIGHT)
        await visit.app.queues.weigh(name, weight, conn=conn)

    return await _changed(visit, request, name, do, "weighed")


@router.post("/{name}/limit")
@needs("operate", streamed=True)
async def limit_lane(name: Name, visit: Here, request: Request) -> Response:
    """Let at most so many jobs of a lane run at the same time."""

    async def do(conn: object, said: Fields) -> None:
        lane = said.get("lane", "").strip()[:_LONGEST]
        at_once = maybe(said.get("at_once", ""), "The limit", 1, _MOST_AT_ONCE)
        visit.noted.update(lane=lane, at_once=at_once)
        await visit.app.queues.limit_lane(name, lane, at_once=at_once, conn=conn)

    return await _changed(visit, request, name, do, "limited")


async def _changed(visit: Visit, request: Request, name: str, do: Any, told: str) -> Response:
    async def again(wrong: str, _said: Fields) -> Response:
        return await _list(visit, request, wrong=wrong)

    return await changed(visit, request, do, back=f"/console/queues/{name}", told=told, again=again)

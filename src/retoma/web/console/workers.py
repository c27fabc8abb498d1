"""Workers: who is alive, who is silent, what each holds; ask one to end."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.model.machine import HeldJob
from retoma.model.worker import Presence
from retoma.web.api.schemas import requests
from retoma.web.console.change import Fields, changed
from retoma.web.console.figures import machine_page
from retoma.web.http.auth import Here, needs
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/workers", route_class=PageRoute)

_MOST = 200
_ORDER = ("silent", "draining", "alive", "stopped")


@dataclass(slots=True)
class Team:
    """The executors that work under one label on one host."""

    label: str
    host: str
    version: str
    executors: list[Presence] = field(default_factory=list)
    holding: dict[int, list[HeldJob]] = field(default_factory=dict)
    lost: int = 0

    @property
    def state(self) -> str:
        """The word of ``states.toml`` for the whole team: the worst of its executors."""
        return min((standing(each) for each in self.executors), key=_ORDER.index)

    @property
    def slots(self) -> int:
        """How many jobs its live executors may hold together."""
        return sum(each.at_once for each in self.executors if each.alive)

    @property
    def busy(self) -> int:
        """How many jobs it holds."""
        return sum(map(len, self.holding.values()))

    @property
    def memory(self) -> float | None:
        """Megabytes of all its executors, as far as they are known."""
        known = [each.memory_megabytes for each in self.executors if each.memory_megabytes is not None and each.alive]
        return sum(known) if known else None


def standing(executor: Presence) -> str:
    """How an executor stands, in one word."""
    if executor.stopped_at is not None:
        return "stopped"
    if not executor.alive:
        return "silent"
    return "draining" if executor.stopping_at or executor.drain_requested_at else "alive"


@router.get("")
@needs("read")
async def list_workers(
    visit: Here,
    request: Request,
    gone: Annotated[str, Query(max_length=1)] = "",
    told: Annotated[str, Query(max_length=40)] = "",
) -> Response:
    """Who works, the silent ones first."""
    found = await visit.app.workers.all(gone=gone == "1", limit=_MOST)
    held = await visit.app.workers.holding([each.id for each in found if each.stopped_at is None])
    lost = await visit.app.workers.losses()
    teams: dict[tuple[str, str, bool], Team] = {}
    for each in found:
        key = (each.label, each.host, each.stopped_at is not None)
        team = teams.setdefault(key, Team(each.label, each.host, each.version, lost=lost.get(each.label, 0)))
        team.executors.append(each)
        team.holding[each.id] = [job for job in held if job.worker_id == each.id]
    ordered = sorted(teams.values(), key=lambda team: (_ORDER.index(team.state), team.label, team.host))
    live = [each for each in found if each.alive and each.stopped_at is None]
    return machine_page(
        request,
        "workers.html",
        current="workers",
        teams=ordered,
        gone=gone == "1",
        told=told,
        standing=standing,
        alive=len(live),
        silent=sum(standing(each) == "silent" for each in found),
        slots=sum(each.at_once for each in live),
        busy=len(held),
    )


@router.post("/{label}/drain")
@needs("operate", streamed=True)
async def drain_worker(label: Annotated[requests.Text, Path()], visit: Here, request: Request) -> Response:
    """Ask a worker to take no more jobs and to end."""

    async def do(conn: object, _said: Fields) -> None:
        await visit.app.workers.drain(label, by=visit.name or visit.caller, conn=conn)

    return await changed(visit, request, do, back="/console/workers", told="draining")

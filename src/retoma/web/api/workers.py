"""Workers: who works, since when, what they hold and have done; ask one to end."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.app.retoma import Retoma
from retoma.errors import NotFound
from retoma.web.api.schemas import machine, requests, responses
from retoma.web.http.auth import Here, needs
from retoma.web.http.cursors import cursor_of, opened, point_to_next
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/workers", tags=["workers"], route_class=ApiRoute)

_DIGITS = 18  # below what the tables count to


@router.get("")
@needs("read")
async def list_workers(
    wanted: Annotated[requests.WorkerFilter, Query()], visit: Here, request: Request, response: Response
) -> responses.Workers:
    """Who works, one row per executor, the newest first. ``gone=true`` shows also those who stopped."""
    before = None if wanted.cursor is None else opened(wanted.cursor)
    found = await visit.app.workers.all(gone=wanted.gone, before=before, limit=wanted.limit + 1)
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    return responses.Workers(workers=[responses.Worker.of(worker) for worker in page], next=following)


@router.get("/{id}/metrics")
@needs("read")
async def get_worker_metrics(id: Annotated[requests.Text, Path()], visit: Here) -> responses.WorkerMetrics:
    """The seven figures of a worker, by its label, all its executors and restarts together, or by the number of one."""
    if await visit.app.workers.all(gone=True, label=id, limit=1):
        return responses.WorkerMetrics.of(await visit.app.workers.metrics(id))
    return responses.WorkerMetrics.of(await visit.app.workers.metrics(await _number(id, visit.app)))


@router.get("/{id}/jobs")
@needs("read")
async def list_held_jobs(id: Annotated[requests.Text, Path()], visit: Here) -> machine.HeldJobs:
    """The jobs that a worker holds now, by its label, all its executors together, or by the number of one."""
    here = [worker.id for worker in await visit.app.workers.all(label=id)]
    ids = here or [await _number(id, visit.app)]
    return machine.HeldJobs(jobs=[machine.HeldJob.of(each) for each in await visit.app.workers.holding(ids)])


@router.post("/{label}/drain", status_code=202)
@needs("operate", refuses=("not_found",))
async def drain_worker(
    label: Annotated[requests.Text, Path()], visit: Here, _body: requests.Nothing | None = None
) -> machine.Draining:
    """Ask a worker to take no more jobs and to end. Steps at hand are finished and saved, the rest goes back to the
    queue; it hears of it with its next heartbeat.
    """
    asked = await visit.app.workers.drain(label, by=visit.name or visit.caller, conn=visit.conn)
    return machine.Draining(executors=asked)


async def _number(id: str, app: Retoma) -> int:
    """The number of the executor that *id* is; it must be there."""
    number = int(id) if id.isascii() and id.isdecimal() and len(id) <= _DIGITS else 0
    there = await app.workers.all(gone=True, before=number + 1, limit=1)
    if [worker.id for worker in there] != [number]:
        raise NotFound(f"No worker is called {id!r}, and none has that number.")
    return number

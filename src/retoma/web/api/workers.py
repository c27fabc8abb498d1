"""Workers: who works, since when, and what they have done."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.errors import NotFound
from retoma.web.api.schemas import requests, responses
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
    number = int(id) if id.isascii() and id.isdecimal() and len(id) <= _DIGITS else 0
    there = await visit.app.workers.all(gone=True, before=number + 1, limit=1)
    if [worker.id for worker in there] != [number]:
        raise NotFound(f"No worker is called {id!r}, and none has that number.")
    return responses.WorkerMetrics.of(await visit.app.workers.metrics(number))

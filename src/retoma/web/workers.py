"""Workers: who works, since when, and what they have done."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from retoma.errors import NotFound
from retoma.web import asked, shapes
from retoma.web.door import Door
from retoma.web.visits import Here, needs

router = APIRouter(prefix="/workers", tags=["workers"], route_class=Door)


@router.get("")
@needs("read")
async def list_workers(wanted: Annotated[asked.WorkerFilter, Query()], visit: Here) -> shapes.Workers:
    """Who works, one row per executor, the newest first. ``gone=true`` shows also those who stopped."""
    found = await visit.app.workers(gone=wanted.gone)
    return shapes.Workers(workers=[shapes.Worker.of(worker) for worker in found])


@router.get("/{id}/metrics")
@needs("read")
async def get_worker_metrics(id: Annotated[asked.Text, Path()], visit: Here) -> shapes.WorkerMetrics:
    """The seven figures of a worker, by its label, all its executors and restarts together, or by the number of one."""
    there = await visit.app.workers(gone=True)
    if any(worker.label == id for worker in there):
        return shapes.WorkerMetrics.of(await visit.app.metrics(id))
    numbers = [worker.id for worker in there if str(worker.id) == id]
    if not numbers:
        raise NotFound(f"No worker is called {id!r}, and none has that number.")
    return shapes.WorkerMetrics.of(await visit.app.metrics(numbers[0]))

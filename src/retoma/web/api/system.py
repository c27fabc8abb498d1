"""The system: how the database is doing, and what a worker has done."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from retoma.errors import NotFound
from retoma.web import asked, shapes
from retoma.web.door import Door
from retoma.web.visits import Here, needs

router = APIRouter(prefix="/system", tags=["system"], route_class=Door)


@router.get("/health")
@needs("read")
async def get_health(visit: Here) -> shapes.Health:
    """How the database is doing, and who works."""
    return shapes.Health.of(await visit.app.health())


@router.get("/metrics")
@needs("read")
async def get_metrics(wanted: Annotated[asked.WorkerLabel, Query()], visit: Here) -> shapes.Metrics:
    """The seven figures of the worker that carries a label, all its executors and restarts together."""
    if all(worker.label != wanted.label for worker in await visit.app.workers(gone=True)):
        raise NotFound(f"No worker carries the label {wanted.label!r}.")
    return shapes.Metrics.of(await visit.app.metrics(wanted.label))

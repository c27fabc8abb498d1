"""The system: how the database is doing, and what a worker has done."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

from retoma.errors import NotFound
from retoma.web.api.schemas import requests, responses
from retoma.web.http.auth import Here, needs
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/system", tags=["system"], route_class=ApiRoute)


@router.get("/health")
@needs("read")
async def get_health(visit: Here) -> responses.Health:
    """How the database is doing, and who works."""
    return responses.Health.of(await visit.app.system.health())


@router.get("/metrics")
@needs("read", refuses=("not_found",))
async def get_metrics(wanted: Annotated[requests.WorkerLabel, Query()], visit: Here) -> responses.Metrics:
    """The seven figures of the worker that carries a label, all its executors and restarts together."""
    if not await visit.app.workers.all(gone=True, label=wanted.label, limit=1):
        raise NotFound(f"No worker carries the label {wanted.label!r}.")
    return responses.Metrics.of(await visit.app.workers.metrics(wanted.label))

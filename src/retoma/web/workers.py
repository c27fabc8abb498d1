"""Workers: who works, and since when."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query

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

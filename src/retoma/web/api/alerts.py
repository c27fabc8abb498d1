"""Alerts: what the watchdog found wrong, and who looks after it."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Path, Query

from retoma.web.api.schemas import requests, responses
from retoma.web.http.auth import Here, needs
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/alerts", tags=["alerts"], route_class=ApiRoute)

Id = Annotated[requests.Id, Path()]


@router.get("")
@needs("read")
async def list_alerts(wanted: Annotated[requests.AlertsWanted, Query()], visit: Here) -> responses.Alerts:
    """Alerts, the newest first; those that are over only with ``all``."""
    found = await visit.app.system.alerts(open=not wanted.all, before=wanted.before, limit=wanted.limit)
    return responses.Alerts(alerts=[responses.Alert.of(each) for each in found])


@router.post("/{id}/acknowledge")
@needs("operate", refuses=("not_found",))
async def acknowledge_alert(id: Id, visit: Here, body: requests.Acknowledged | None = None) -> responses.Alert:
    """Say that somebody looks after it. Who was first stays."""
    note = body.note if body else None
    done = await visit.app.system.acknowledge(id, by=visit.name or visit.caller, note=note, conn=visit.conn)
    return responses.Alert.of(done)

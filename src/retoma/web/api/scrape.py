"""/metrics: what this server counts, and what the tables say, for Prometheus."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from fastapi import APIRouter, Request, Response

from retoma.app.retoma import Retoma
from retoma.postgres.faults import UNAVAILABLE
from retoma.postgres.migrate import HEAD
from retoma.system.concurrency import cancel_and_wait
from retoma.telemetry.exposition import CONTENT_TYPE, build, text_of
from retoma.telemetry.metrics import measure
from retoma.telemetry.sheet import Figure, Sheet, added
from retoma.web.http.auth import SiteContext, is_local, needs, recognised, refuse_strange_hosts
from retoma.web.http.errors import Refusal
from retoma.web.http.request_deadline import bounded
from retoma.web.http.stream import EventHub
from retoma.web.pages import PageRoute

router = APIRouter(route_class=PageRoute, include_in_schema=False)

KEPT = 10.0
"""Seconds for which a look at the tables counts, for everybody who scrapes."""
_PATIENCE = 5.0
_EVERY = 1.0


class Facts:
    """What the tables say: looked at once for all who ask, and again after ten seconds. While the database does not
    answer there are none, so that an alert sees that they are missing.
    """

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self._looking: asyncio.Task[list[Figure]] | None = None
        self._looked_at = 0.0

    async def wanted(self) -> list[Figure]:
        looking = self._looking
        if looking is None or (looking.done() and time.monotonic() - self._looked_at >= KEPT):
            looking = self._looking = asyncio.create_task(self._look(), context=contextvars.Context())
        await asyncio.wait([looking])
        return [] if looking.cancelled() else looking.result()

    async def _look(self) -> list[Figure]:
        try:
            found = await bounded(self._app.system.figures(), _PATIENCE)
            return [Figure(each.name, tuple(each.labels), (each.value,)) for each in found]
        except (Refusal, TimeoutError, *UNAVAILABLE):
            return []
        finally:
            self._looked_at = time.monotonic()


@router.get("/metrics")
@needs(None)
async def get_metrics(request: Request) -> Response:
    """What Prometheus scrapes. A caller needs a key that may read everything, unless RETOMA_METRICS_OPEN lets this
    machine in.
    """
    refuse_strange_hosts(request)
    place: SiteContext = request.state.retoma
    if not (place.app.settings.metrics_open == "loopback" and is_local(request)):
        visit = await recognised(request, place)
        if not visit.may("read"):
            raise Refusal("scope_required", scope="read")
        if visit.pipelines is not None:
            raise Refusal("pipelines_limited", pipelines=", ".join(visit.pipelines))
    facts = await place.room(Facts).wanted()
    return Response(text_of([*added(request.state.sheets), *facts, build(HEAD)]), media_type=CONTENT_TYPE)


@asynccontextmanager
async def counted(app: Retoma, hub: EventHub, given: Sequence[Sheet]) -> AsyncIterator[Sequence[Sheet]]:
    """Count meanwhile. Of the sheets that are *given*, the first is ours and the others are read; without any, nobody
    counts for us and we do.
    """
    sheets = given or [Sheet()]
    stop = measure(sheets[0])
    telling = asyncio.create_task(_tell(app, hub, sheets[0]))
    try:
        yield sheets
    finally:
        await cancel_and_wait(telling)
        stop()
        if not given:
            sheets[0].close()


async def _tell(app: Retoma, hub: EventHub, sheet: Sheet) -> None:
    """Write now and then what is not counted but stands at some value."""
    while True:
        pool = app.database.use()
        sheet.set(("retoma_db_pool_connections", "busy"), pool.busy)
        sheet.set(("retoma_db_pool_connections", "free"), pool.idle)
        sheet.set(("retoma_sse_clients",), hub.clients)
        sheet.set(("retoma_event_log_lag_seconds",), hub.lag)
        await asyncio.sleep(_EVERY)

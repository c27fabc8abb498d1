"""The system over HTTP: its health, its alerts, its pipelines, and its audit."""

from __future__ import annotations

from datetime import datetime

from retoma.client.async_transport import Transport
from retoma.client.values import Audited, Finding, SystemState, given, value_of, values_of
from retoma.model.alert import Alert
from retoma.model.described import Described
from retoma.model.health import Health
from retoma.model.job import Metrics
from retoma.model.overview import Overview
from retoma.values.cursors import cursor_of

_PAGE = 200


class System:
    """A server: how its database is doing, what its program can do, and who did what."""

    def __init__(self, transport: Transport) -> None:
        self._server = transport

    async def health(self) -> Health:
        """The health of the database: what can make a queue slow or unsafe, and the workers."""
        told = await self._server.ask("getHealth")
        return value_of(Health, told, transaction_pid=None, transaction_name=None)

    async def overview(self) -> Overview:
        """The whole system at a glance: batches, jobs, costs of today and workers, every count bounded."""
        return value_of(Overview, await self._server.ask("getOverview"))

    async def doctor(self) -> list[Finding]:
        """What is well, what is not, and what to do about it: what ``retoma doctor`` says, at most half a minute old.
        Names of accounts, keys and sessions are there with the scope ``operate``.
        """
        return values_of(Finding, (await self._server.ask("getDoctor"))["findings"])

    async def state(self) -> SystemState:
        """Versions, sizes, retention, the watchdog's rounds, and how busy the server process is."""
        return value_of(SystemState, await self._server.ask("getSystemState"))

    async def alerts(self, *, open: bool = True, before: int | None = None, limit: int = 50) -> list[Alert]:
        """Alerts, newest first, at most 200, *before* an id for the next page; without *open* also those that are over.
        Why a channel was not told stays on the server.
        """
        query = {"all": not open, "before": before, "limit": min(limit, _PAGE)}
        return values_of(Alert, (await self._server.ask("listAlerts", query=query))["alerts"], error=None)

    async def acknowledge(self, id: int, *, note: str | None = None) -> Alert:
        """Say that somebody looks after an alert; who was first stays."""
        return value_of(Alert, await self._server.ask("acknowledgeAlert", id=id, body=given(note=note)), error=None)

    async def metrics(self, label: str) -> Metrics:
        """The seven counters of the worker with *label*."""
        return value_of(Metrics, await self._server.ask("getMetrics", query={"label": label}))

    async def pipelines(self) -> list[Described]:
        """The pipelines of the program, with the JSON schema of their inputs."""
        return values_of(Described, (await self._server.ask("listPipelines"))["pipelines"])

    async def audit(
        self,
        *,
        who: str | None = None,
        action: str | None = None,
        object: str | None = None,
        outcome: str | None = None,
        since: datetime | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Audited]:
        """Who did what, newest first, *before* a row for the next page."""
        query = {"who": who, "action": action, "object": object, "outcome": outcome}
        query["since"] = None if since is None else since.isoformat()
        query["cursor"] = None if before is None else cursor_of(before)
        return values_of(Audited, await self._server.pages("listAudit", "audit", most=limit, page=_PAGE, query=query))

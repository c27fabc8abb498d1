"""Workers over HTTP."""

from __future__ import annotations

from retoma.client.async_transport import Transport
from retoma.client.values import value_of, values_of
from retoma.model.machine import HeldJob
from retoma.model.worker import Metrics, Presence
from retoma.values.cursors import cursor_of

_PAGE = 200
_NAMES = {
    "jobsClaimed": "jobs_claimed",
    "jobsCompleted": "jobs_completed",
    "jobsFailed": "jobs_failed",
    "jobsRetried": "jobs_retried",
    "jobsRecovered": "jobs_recovered",
    "avgJobDurationMs": "avg_job_duration_ms",
    "stuckJobCount": "stuck_job_count",
}


class Workers:
    """Workers of a server: who they are, what they hold and have done; ask one to end."""

    def __init__(self, transport: Transport) -> None:
        self._server = transport

    async def all(
        self, *, gone: bool = False, label: str | None = None, before: int | None = None, limit: int = 200
    ) -> list[Presence]:
        """The workers, newest first; *gone* includes stopped ones, *label* those of one name among them."""
        query = {"gone": gone, "cursor": None if before is None else cursor_of(before)}
        found = await self._server.pages("listWorkers", "workers", most=limit, page=_PAGE, query=query)
        return [each for each in values_of(Presence, found) if label is None or each.label == label]

    async def metrics(self, label: str | int) -> Metrics:
        """The seven counters of the worker with *label*, or of the executor with that number."""
        told = await self._server.ask("getWorkerMetrics", id=label)
        return value_of(Metrics, {ours: told[theirs] for theirs, ours in _NAMES.items()})

    async def holding(self, label: str | int) -> list[HeldJob]:
        """The jobs that the worker with *label*, or the executor with that number, holds now."""
        return values_of(HeldJob, (await self._server.ask("listHeldJobs", id=label))["jobs"])

    async def drain(self, label: str) -> list[int]:
        """Ask a worker to take no more jobs and to end. Steps at hand are finished and saved; it hears of it with its
        next heartbeat. Returns the numbers of the executors that were asked.
        """
        return [int(each) for each in (await self._server.ask("drainWorker", label=label))["executors"]]

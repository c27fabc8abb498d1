"""Jobs over HTTP: queued, looked at, acted on, one by one or many at once."""

from __future__ import annotations

import json
import time
from collections.abc import Mapping
from datetime import datetime
from typing import Any, TypedDict, Unpack

from retoma.client.async_transport import Transport
from retoma.client.values import as_text, given, value_of, values_of
from retoma.model.batch import Operation
from retoma.model.failure import FailureGroup
from retoma.model.ids import JobId
from retoma.model.job import Attempt, Checkpoint, Job, Receipt, RestartPlan
from retoma.model.operation import DryRun, JobFilter
from retoma.model.view import Hit
from retoma.values.cursors import cursor_of

_PAGE = 200


class Ordering(TypedDict, total=False):
    """What a job may be given; what is left out is as the pipeline has it."""

    key: str
    if_taken: str
    queue: str
    lane: str
    priority: int
    run_at: datetime
    delay_seconds: float
    expires_seconds: float
    timeout_seconds: float
    attempts: int


class Doing(TypedDict, total=False):
    """What an operation needs to know: *queue* goes with "move", *priority* with "priority", *attempts* with "retry"
    and "restart", *reason* with "cancel" and "discard".
    """

    queue: str
    priority: int
    attempts: int
    reason: str


class Jobs:
    """Jobs of a server: queue them, read them, and act on them."""

    def __init__(self, transport: Transport) -> None:
        self._server = transport

    async def enqueue(self, pipeline: str, input: Any, **options: Unpack[Ordering]) -> Receipt:
        """Queue one job of *pipeline* over *input*, a JSON value. The same key gives the same job back."""
        body = {"pipeline": pipeline, "input": input, **given(**options)}
        return value_of(Receipt, await self._server.ask("enqueueJob", body=body))

    async def get(self, id: JobId) -> Job:
        """A job as it stands. Its input is null, and its output and error None, where the key may not see content."""
        return _job(await self._server.ask("getJob", id=id))

    async def find(
        self,
        *,
        state: str | None = None,
        pipeline: str | None = None,
        queue: str | None = None,
        key: str | None = None,
        batch_id: int | None = None,
        discarded: bool | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """Jobs, newest first, *before* an id for the next page, without their content: ``get`` has it. The dead letters
        are ``discarded=False``.
        """
        query: dict[str, Any] = {"state": state, "pipeline": pipeline, "queue": queue, "key": key, "batch_id": batch_id}
        query["discarded"] = discarded
        query["cursor"] = None if before is None else cursor_of(before)
        found = await self._server.pages("listJobs", "jobs", most=limit, page=_PAGE, query=query)
        return [_job(each) for each in found]

    async def attempts(self, id: JobId) -> list[Attempt]:
        """How each claim of a job ended."""
        found = (await self._server.ask("listAttempts", id=id))["attempts"]
        return values_of(Attempt, [{"error": None, **each} for each in found], job_id=id)

    async def checkpoints(self, id: JobId, *, values: bool = True, limit: int = 10_000) -> list[Checkpoint]:
        """What the steps of a job returned, including what was set aside; values are null where the key may not see
        content.
        """
        query = {"values": values}
        found = await self._server.pages("listCheckpoints", "checkpoints", most=limit, page=_PAGE, query=query, id=id)
        return values_of(Checkpoint, [as_text(each, "value") for each in found], job_id=id)

    async def wait(self, id: JobId, *, timeout: float | None = None, every: float = 0.5) -> Job:
        """The job, once it has ended."""
        until = None if timeout is None else time.monotonic() + timeout
        while not (job := await self.get(id)).state.ended:
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"Job {id} did not end within {timeout:g} s.")
            await self._server.sleep(every)
        return job

    async def retry(self, id: JobId, *, attempts: int | None = None) -> Job:
        """Try a failed, cancelled or reviewed job again; finished steps are not done again."""
        return _job(await self._server.ask("retryJob", id=id, body=given(attempts=attempts)))

    async def cancel(self, id: JobId, *, reason: str = "person") -> Job:
        """Stop a job: at once when it waits, with the next heartbeat when it runs."""
        return _job(await self._server.ask("cancelJob", id=id, body={"reason": reason}))

    async def discard(self, id: JobId, *, reason: str | None = None) -> Job:
        """Settle a failed job as not to be retried: it leaves the dead letters and keeps its history."""
        return _job(await self._server.ask("discardJob", id=id, body=given(reason=reason)))

    async def reinstate(self, id: JobId) -> Job:
        """Make a discarded job a dead letter again, so that it can be retried."""
        return _job(await self._server.ask("reinstateJob", id=id))

    async def restart(self, id: JobId, *, attempts: int | None = None, step: str | None = None) -> Job:
        """Run an ended job again from its first step, or from *step* on; the checkpoints from there are set aside."""
        return _job(await self._server.ask("restartJob", id=id, body=given(attempts=attempts, step=step)))

    async def restart_plan(self, id: JobId, *, step: str | None = None) -> RestartPlan:
        """What a restart would do again, from the first step or from *step* on, and what that has cost."""
        found = await self._server.ask("planRestart", id=id, query={"step": step})
        return value_of(RestartPlan, found, job=await self.get(id), step=step)

    async def signal(self, id: JobId, name: str, value: Any = None) -> bool:
        """Deliver a value that a job waits for; False when one was delivered before."""
        heard = await self._server.ask("signalJob", id=id, body={"name": name, "value": value})
        return bool(heard["heard"])

    # — jobs of any batch —

    async def dry_run(self, action: str, which: JobFilter, **how: Unpack[Doing]) -> DryRun:
        """What *operate* would do now: how many jobs of which batches, how many it would pass over and why. Its filter
        is *which*, as it was asked.
        """
        body = {"action": action, "filter": json.loads(which.text), "dry_run": True, **given(**how)}
        return value_of(DryRun, await self._server.ask("beginOperation", body=body), filter=which)

    async def operate(
        self, action: str, which: JobFilter, *, wait: bool = True, every: float = 0.5, **how: Unpack[Doing]
    ) -> Operation:
        """Retry, cancel, restart, move, prioritise, discard or reinstate every job of any batch that the filter finds.
        Decided at once, carried out in pieces by the server; without *wait* the answer does not wait for them.
        """
        body = {"action": action, "filter": json.loads(which.text), **given(**how)}
        now = value_of(Operation, await self._server.ask("beginOperation", body=body))
        while wait and not now.finished:
            await self._server.sleep(every)
            now = await self.operation(now.id)
        return now

    async def operations(
        self, *, under_way: bool = False, before: int | None = None, limit: int = 50
    ) -> list[Operation]:
        """Operations over all batches and on single ones, newest first, *before* an id for the next page."""
        query = {"under_way": under_way, "cursor": None if before is None else cursor_of(before)}
        found = await self._server.pages("listAllOperations", "operations", most=limit, page=_PAGE, query=query)
        return values_of(Operation, found)

    async def operation(self, id: int) -> Operation:
        """An operation, and how far it has come."""
        return value_of(Operation, await self._server.ask("getOperation", id=id))

    async def cancel_operation(self, id: int) -> Operation:
        """End an operation; what it has done stays done."""
        return value_of(Operation, await self._server.ask("cancelOperation", id=id))

    async def errors(self, *, hours: int = 24, pipeline: str | None = None, limit: int = 100) -> list[FailureGroup]:
        """What failed in the last hours in any batch, grouped by equal errors, the largest of at most 200 groups first;
        their words are there where the key may see content.
        """
        query = {"hours": hours, "pipeline": pipeline, "limit": limit}
        found = (await self._server.ask("listAllErrors", query=query))["errors"]
        return values_of(FailureGroup, [{"example": None, **each} for each in found])

    async def search(self, text: str, *, pipeline: str | None = None) -> list[Hit]:
        """Jobs and batches by id, jobs by key, by the name of a file at the end of their key, by correlation id."""
        query = {"q": text, "pipeline": pipeline}
        return values_of(Hit, (await self._server.ask("searchAll", query=query))["hits"])


def _job(told: Mapping[str, Any]) -> Job:
    return value_of(Job, {"error": None, **as_text(told, "input", "output")})

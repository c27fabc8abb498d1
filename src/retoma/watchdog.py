"""The watchdog: the rounds that every worker makes for all, and that harm nobody when several make them."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Sequence

from retoma import resuming, scheduling
from retoma.database import TRANSIENT, Database, jitter
from retoma.errors import DatabaseUnreachable
from retoma.join import run_on
from retoma.model import Recovered
from retoma.store import calls, jobs, queues
from retoma.telemetry import emit
from retoma.telemetry.events import (
    BatchAdvanced,
    BatchFailed,
    BatchStalled,
    DatabaseLost,
    JobRecovered,
    JobsExpired,
    ScheduleFired,
)
from retoma.writer import called_off

_SLOW = 1.0  # seconds: an answer that takes longer has waited for a database that was away


class Watchdog:
    """Looks for silence; *recovered* hears how many jobs a round gave back."""

    def __init__(self, database: Callable[[], Database], *, lease: float, recovered: Callable[[int], None]) -> None:
        self._database = database
        self._lease = lease
        self._tell_recovered = recovered
        self._lost_at = -lease

    async def every(self, seconds: float, duty: Callable[[], Awaitable[None]]) -> None:
        """Do *duty* again and again; a database that does not answer is no reason to stop, but to try again soon."""
        failures = 0
        name = duty.__name__.strip("_")
        while True:
            try:
                await duty()
                if failures:
                    failures, self._lost_at = 0, time.monotonic()
            except (*TRANSIENT, DatabaseUnreachable) as error:
                failures += 1
                self._lost_at = time.monotonic()
                emit(DatabaseLost(doing=name, error=type(error).__name__))
            except Exception as error:  # noqa: BLE001 - a heart that has stopped for good is worse than any error
                told = {"message": f"The supervisor's duty to {name} failed", "exception": error}
                asyncio.get_running_loop().call_exception_handler(told)
            await asyncio.sleep(min(seconds, jitter(failures)) if failures else seconds)

    async def go_on(self, seconds: float, until: asyncio.Event) -> None:
        """All rounds, with so many *seconds* of rest between two, until told to stop."""
        duties = (self.sweep, self.look_after, self.fire, self.mend)
        loops = [asyncio.create_task(self.every(seconds, duty)) for duty in duties]
        await until.wait()
        await called_off(*loops)

    async def sweep(self) -> None:
        """Give back the jobs of workers that fell silent, and end those that waited too long."""
        began = time.monotonic()
        if expired := await self._database().all(jobs.expire()):
            emit(JobsExpired(jobs=len(expired)))
        now = time.monotonic()
        if now > began + _SLOW:
            self._lost_at = now
        # Not when the database has just come back: nobody could beat meanwhile, and everybody is to have the time to.
        if now > self._lost_at + self._lease:
            recovered = await self._database().all(jobs.recover())
            await self._database().all(calls.abandon())
            self._tell_recovered(len(recovered))
            tell(recovered)

    async def look_after(self) -> None:
        """Ask why batches do not move, and say so where they are stuck."""
        async with self._database().transaction() as connection:
            did = await run_on(connection, resuming.look_after())
        for why in did.stalled:
            emit(BatchStalled(batch=why.batch_id, verdict=str(why.verdict), sentence=why.sentence))
        for batch in did.advanced:
            emit(BatchAdvanced(batch=batch))
        for batch in did.failed:
            emit(BatchFailed(batch=batch, reason="resumes"))

    async def fire(self) -> None:
        """Queue the jobs of schedules whose time has come."""
        async with self._database().connection() as connection:
            fired = await run_on(connection, scheduling.fire())
        for name, job in fired:
            emit(ScheduleFired(schedule=name, job=job))

    async def mend(self) -> None:
        """Free the places of lanes whose job does not run any more."""
        await self._database().all(queues.mend_slots())


def tell(recovered: Sequence[Recovered]) -> None:
    """Say what became of the jobs of a worker that is gone."""
    for each in recovered:
        if each.ending != "released":
            emit(
                JobRecovered(
                    worker=each.worker_id,
                    job=each.id,
                    pipeline=each.pipeline,
                    attempt=each.attempt,
                    state=each.state,
                    ending=each.ending,
                    crashes=each.crashes,
                    reason=each.reason,
                    step=each.step,
                    correlation=each.correlation_id,
                )
            )

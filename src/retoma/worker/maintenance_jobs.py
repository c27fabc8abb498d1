"""Maintenance jobs that every installation needs, as schedules that a person can see, run now, pause and change. The
watchdog also sweeps every few seconds; the jobs are idempotent, so both may run.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import psycopg

from retoma.commands import jobs as job_commands
from retoma.commands import maintenance, pruning
from retoma.commands import schedules as schedule_commands
from retoma.model import validation
from retoma.model.job import Recovered
from retoma.model.retry import Retry
from retoma.postgres.connections import run_on
from retoma.run.pipeline import Pipeline, pipeline
from retoma.run.run import Run
from retoma.run.steps import AsyncConnection
from retoma.store import jobs
from retoma.store.query import Command
from retoma.system.settings import Settings
from retoma.telemetry import emit
from retoma.telemetry.events import ScheduleKept
from retoma.worker.webhook_jobs import deliver

QUEUE = validation.HOUSE_QUEUE
_HOUR = 3600.0


@pipeline("retoma.recover", internal=True, queue=QUEUE, retry=Retry(attempts=1))
async def recover(_: None, run: Run, *, settings: Settings) -> dict[str, int]:
    """Recover the jobs of silent workers, and diagnose batches that do not progress."""
    recovered: list[Recovered] = []
    rounds: list[maintenance.Round] = []

    async def taken(connection: AsyncConnection) -> int:
        recovered[:] = await run_on(connection, job_commands.only(jobs.recover()))
        return len(recovered)

    async def looked(connection: AsyncConnection) -> dict[str, int]:
        rounds[:] = [await run_on(connection, maintenance.look_after(round=settings.watchdog_seconds))]
        return {"batches_stalled": len(rounds[0].stalled), "batches_failed": len(rounds[0].failed)}

    # Emit events after the commit. A restored step did nothing in this attempt, so it emits nothing.
    jobs_recovered = await run.transact("jobs", taken)
    maintenance.tell_recovered(recovered)
    batches_seen = await run.transact("batches", looked)
    for did in rounds:
        maintenance.tell_round(did)
    return {"jobs_recovered": jobs_recovered, **batches_seen}


@pipeline("retoma.clean-up", internal=True, queue=QUEUE, retry=Retry(attempts=1))
async def clean_up(_: None, run: Run, *, settings: Settings) -> int:
    """End jobs that have been running for more than a day since their start, and return how many."""

    async def piece(connection: AsyncConnection) -> int:
        return len(await run_on(connection, job_commands.only(jobs.overdue(settings.overdue_hours * _HOUR))))

    return await _pieces(run, "overdue", piece)


@pipeline("retoma.prune", internal=True, queue=QUEUE, retry=Retry(attempts=1), timeout=600.0)
async def prune(_: None, run: Run, *, settings: Settings) -> dict[str, float]:
    """Delete what ended longer ago than the retention, one kind of row at a time. Returns how many rows were
    deleted, and by how many seconds the oldest remaining row is overdue. A failure in one kind does not stop the
    others, and is raised at the end.
    """
    older_than = settings.retention_days * 24 * _HOUR
    went: dict[str, float] = {}
    failed: list[psycopg.Error] = []
    for kind in pruning.KINDS:
        try:
            went[kind] = await _prune(run, kind, pruning.age_of(kind, settings))
        except psycopg.Error as error:
            failed.append(error)

    async def looked(connection: AsyncConnection) -> dict[str, float]:
        found = await run_on(connection, pruning.overstays(older_than))
        return {f"{each.kind}_behind_seconds": each.seconds for each in found if each.seconds > 0}

    if failed:
        raise failed[0]
    return went | await run.transact("behind", looked)


async def _prune(run: Run, kind: str, older_than: float) -> int:
    async def piece(connection: AsyncConnection, after: str) -> tuple[int, str | None]:
        return await run_on(connection, pruning.KINDS[kind](older_than, after))

    gone, pieces, after = 0, 0, ""
    while True:
        some, following = await run.transact(f"{kind}/{pieces}", piece, after)
        gone, pieces = gone + some, pieces + 1
        if following is None:
            return gone
        after = following


async def _pieces(run: Run, name: str, piece: Any) -> int:
    """Call *piece* in one transaction after another until nothing is left."""
    done = 0
    while some := await run.transact(f"{name}/{done}", piece):
        done += some
    return done


MAINTENANCE_JOBS: tuple[Pipeline[Any, Any], ...] = (recover, clean_up, prune, deliver)

_TIMES: tuple[tuple[Pipeline[None, Any], str], ...] = (
    (recover, "*/5 * * * *"),
    (clean_up, "0 4 * * *"),
    (prune, "23 * * * *"),
    (deliver, "*/10 * * * *"),  # the watchdog queues it sooner, when a message is due
)


def schedule_all(zone: str, pipelines: Iterable[Pipeline[Any, Any]] = ()) -> Command[None]:
    """Schedule the maintenance jobs and those *pipelines* that declare a cron expression. A schedule that a person has
    changed stays as it is; when the program declares another time, an event says so.
    """
    for each, cron in _TIMES:
        yield from schedule_commands.put(each, each.name, cron, None, zone=zone, declared=True)
    for each in pipelines:
        if each.cron is not None:
            kept = yield from schedule_commands.put(each, each.name, each.cron, None, zone=zone, declared=True)
            if kept.cron != each.cron:
                emit(ScheduleKept(schedule=kept.name, cron=kept.cron, declared=each.cron))

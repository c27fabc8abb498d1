"""The house's own jobs: what every installation needs done by the clock, as schedules that a person can see, run now,
pause and change. Workers sweep every few seconds besides; these are harmless when several do the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from retoma import commands, scheduling
from retoma.commands import Command
from retoma.join import run_on
from retoma.pipeline import Pipeline, pipeline
from retoma.resuming import look_after
from retoma.retry import Retry
from retoma.run import Run
from retoma.settings import Settings
from retoma.steps import AsyncConnection
from retoma.store import jobs
from retoma.telemetry import emit
from retoma.telemetry.events import ScheduleKept

QUEUE = "retoma"
_HOUR = 3600.0


@pipeline("retoma.recover", queue=QUEUE, retry=Retry(attempts=1))
async def recover(_: None, run: Run) -> dict[str, int]:
    """Take back the jobs of workers that fell silent, and ask why batches do not move."""

    async def taken(connection: AsyncConnection) -> int:
        return len(await run_on(connection, commands.only(jobs.recover())))

    async def looked(connection: AsyncConnection) -> dict[str, int]:
        did = await run_on(connection, look_after())
        return {"batches_stalled": len(did.stalled), "batches_failed": len(did.failed)}

    return {"jobs_recovered": await run.transact("jobs", taken), **await run.transact("batches", looked)}


@pipeline("retoma.clean-up", queue=QUEUE, retry=Retry(attempts=1))
async def clean_up(_: None, run: Run, *, settings: Settings) -> int:
    """End what has been running for longer than a day, counted from its start; how many that were."""

    async def piece(connection: AsyncConnection) -> int:
        return len(await run_on(connection, commands.only(jobs.overdue(settings.overdue_hours * _HOUR))))

    return await _pieces(run, "overdue", piece)


@pipeline("retoma.prune", queue=QUEUE, retry=Retry(attempts=1), timeout=600.0)
async def prune(_: None, run: Run, *, settings: Settings) -> int:
    """Remove what ended longer ago than the retention; how many jobs that were."""

    async def piece(connection: AsyncConnection) -> int:
        return await run_on(connection, commands.prune_some(settings.retention_days * 24 * _HOUR))

    return await _pieces(run, "gone", piece)


async def _pieces(run: Run, name: str, piece: Any) -> int:
    """Piece by piece, each in a transaction of its own, until nothing is left."""
    done = 0
    while some := await run.transact(f"{name}/{done}", piece):
        done += some
    return done


CHORES: tuple[Pipeline[Any, Any], ...] = (recover, clean_up, prune)

_TIMES: tuple[tuple[Pipeline[None, Any], str], ...] = (
    (recover, "*/5 * * * *"),
    (clean_up, "0 4 * * *"),
    (prune, "23 * * * *"),
)


def plant(zone: str, pipelines: Iterable[Pipeline[Any, Any]] = ()) -> Command[None]:
    """Schedule the chores, and those of *pipelines* that come by the clock; those whose time somebody
    changed stay, and where a program declares another, that is said.
    """
    for each, cron in _TIMES:
        yield from scheduling.put(each, each.name, cron, None, zone=zone, declared=True)
    for each in pipelines:
        if each.cron is not None:
            kept = yield from scheduling.put(each, each.name, each.cron, None, zone=zone, declared=True)
            if kept.cron != each.cron:
                emit(ScheduleKept(schedule=kept.name, cron=kept.cron, declared=each.cron))

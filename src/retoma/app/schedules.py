"""Schedules of an app: jobs that are enqueued by the clock."""

from __future__ import annotations

from typing import Any, TypeVar

from retoma.app.runner import Runner
from retoma.commands import schedules as schedule_commands
from retoma.model.machine import ScheduleRun
from retoma.model.schedule import Schedule
from retoma.run.pipeline import Pipeline
from retoma.store import schedules

I = TypeVar("I")


class Schedules:
    """Schedules of an app: jobs that are enqueued by the clock."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    async def put(
        self,
        pipeline: Pipeline[I, Any],
        input: I,
        *,
        name: str,
        cron: str,
        zone: str = "UTC",
        new: bool = False,
        conn: object = None,
    ) -> Schedule:
        """Enqueue a job at each time of *cron*, on the clocks of *zone*; the same *name* changes the schedule, unless
        it must be *new*.
        """
        return await self._run.ask(schedule_commands.put(pipeline, name, cron, input, zone=zone, new=new), conn)

    async def get(self, name: str, *, conn: object = None) -> Schedule:
        """One schedule."""
        return await self._run.ask(schedule_commands.one(name), conn)

    async def runs(self, *, each: int = 5) -> dict[str, list[ScheduleRun]]:
        """The newest jobs that each schedule queued, by its name, and what became of them."""
        found: dict[str, list[ScheduleRun]] = {}
        for run in await self._run.fetch(schedules.runs(each=each)):
            found.setdefault(run.schedule, []).append(run)
        return found

    async def change(
        self, name: str, *, cron: str | None = None, zone: str | None = None, conn: object = None
    ) -> Schedule:
        """Change the time of a schedule."""
        return await self._run.ask(schedule_commands.change(name, cron=cron, zone=zone), conn)

    async def all(self) -> list[Schedule]:
        """The schedules, by name."""
        return await self._run.fetch(schedules.all())

    async def run(self, name: str, *, conn: object = None) -> int:
        """Enqueue a schedule's job now and return its id; the next regular time stays."""
        return await self._run.ask(schedule_commands.run_now(name), conn)

    async def pause(self, name: str, *, conn: object = None) -> None:
        """Pause a schedule."""
        await self._run.ask(schedule_commands.pause(name), conn)

    async def resume(self, name: str, *, conn: object = None) -> Schedule:
        """Resume a schedule from its next regular time."""
        return await self._run.ask(schedule_commands.resume(name), conn)

    async def remove(self, name: str, *, conn: object = None) -> None:
        """Delete a schedule; the jobs that it enqueued stay."""
        await self._run.ask(schedule_commands.remove(name), conn)

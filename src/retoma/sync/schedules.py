"""Schedules of an app: jobs that are enqueued by the clock."""

# Made by tools/sync.py from app/schedules.py; change that one.

from __future__ import annotations

from typing import Any, TypeVar

from retoma.commands import schedules as schedule_commands
from retoma.model.machine import ScheduleRun
from retoma.model.schedule import Schedule
from retoma.run.pipeline import Pipeline
from retoma.store import schedules
from retoma.sync.runner import Runner

I = TypeVar("I")


class Schedules:
    """Schedules of an app: jobs that are enqueued by the clock."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def put(
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
        return self._run.ask(schedule_commands.put(pipeline, name, cron, input, zone=zone, new=new), conn)

    def get(self, name: str, *, conn: object = None) -> Schedule:
        """One schedule."""
        return self._run.ask(schedule_commands.one(name), conn)

    def runs(self, *, each: int = 5) -> dict[str, list[ScheduleRun]]:
        """The newest jobs that each schedule queued, by its name, and what became of them."""
        found: dict[str, list[ScheduleRun]] = {}
        for run in self._run.fetch(schedules.runs(each=each)):
            found.setdefault(run.schedule, []).append(run)
        return found

    def change(self, name: str, *, cron: str | None = None, zone: str | None = None, conn: object = None) -> Schedule:
        """Change the time of a schedule."""
        return self._run.ask(schedule_commands.change(name, cron=cron, zone=zone), conn)

    def all(self) -> list[Schedule]:
        """The schedules, by name."""
        return self._run.fetch(schedules.all())

    def run(self, name: str, *, conn: object = None) -> int:
        """Enqueue a schedule's job now and return its id; the next regular time stays."""
        return self._run.ask(schedule_commands.run_now(name), conn)

    def pause(self, name: str, *, conn: object = None) -> None:
        """Pause a schedule."""
        self._run.ask(schedule_commands.pause(name), conn)

    def resume(self, name: str, *, conn: object = None) -> Schedule:
        """Resume a schedule from its next regular time."""
        return self._run.ask(schedule_commands.resume(name), conn)

    def remove(self, name: str, *, conn: object = None) -> None:
        """Delete a schedule; the jobs that it enqueued stay."""
        self._run.ask(schedule_commands.remove(name), conn)

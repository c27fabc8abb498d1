"""Schedules of an app: jobs that come back by the clock."""

# Made by tools/sync.py from app/schedules.py; change that one.

from __future__ import annotations

from typing import Any, TypeVar

from retoma.commands import schedules as schedule_commands
from retoma.model.job import (
    Schedule,
)
from retoma.run.pipeline import Pipeline
from retoma.store import schedules
from retoma.sync.runner import Runner

I = TypeVar("I")


class Schedules:
    """Schedules of an app: jobs that come back by the clock."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def put(self, pipeline: Pipeline[I, Any], input: I, *, name: str, cron: str, zone: str = "UTC") -> Schedule:
        """Queue a job whenever *cron* comes, on the clocks of *zone*; the same *name* changes it."""
        return self._run.ask(schedule_commands.put(pipeline, name, cron, input, zone=zone))

    def change(self, name: str, *, cron: str | None = None, zone: str | None = None, conn: object = None) -> Schedule:
        """Let a schedule come at another time."""
        return self._run.ask(schedule_commands.change(name, cron=cron, zone=zone), conn)

    def all(self) -> list[Schedule]:
        """The schedules, by name."""
        return self._run.fetch(schedules.all())

    def run(self, name: str, *, conn: object = None) -> int:
        """Queue a schedule's job now; its clock goes on as it was. The job's id."""
        return self._run.ask(schedule_commands.run_now(name), conn)

    def pause(self, name: str, *, conn: object = None) -> None:
        """Let a schedule rest."""
        self._run.ask(schedule_commands.pause(name), conn)

    def resume(self, name: str, *, conn: object = None) -> Schedule:
        """Let a schedule go on, from the next time that comes."""
        return self._run.ask(schedule_commands.resume(name), conn)

    def remove(self, name: str, *, conn: object = None) -> None:
        """Forget a schedule; jobs it queued stay."""
        self._run.ask(schedule_commands.remove(name), conn)

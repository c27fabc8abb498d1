"""Schedules of an app: jobs that come back by the clock."""

from __future__ import annotations

from typing import Any, TypeVar

from retoma.app.runner import Runner
from retoma.commands import schedules as schedule_commands
from retoma.model.job import (
    Schedule,
)
from retoma.run.pipeline import Pipeline
from retoma.store import schedules

I = TypeVar("I")


class Schedules:
    """Schedules of an app: jobs that come back by the clock."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    async def put(self, pipeline: Pipeline[I, Any], input: I, *, name: str, cron: str, zone: str = "UTC") -> Schedule:
        """Queue a job whenever *cron* comes, on the clocks of *zone*; the same *name* changes it."""
        return await self._run.ask(schedule_commands.put(pipeline, name, cron, input, zone=zone))

    async def change(
        self, name: str, *, cron: str | None = None, zone: str | None = None, conn: object = None
    ) -> Schedule:
        """Let a schedule come at another time."""
        return await self._run.ask(schedule_commands.change(name, cron=cron, zone=zone), conn)

    async def all(self) -> list[Schedule]:
        """The schedules, by name."""
        return await self._run.fetch(schedules.all())

    async def run(self, name: str, *, conn: object = None) -> int:
        """Queue a schedule's job now; its clock goes on as it was. The job's id."""
        return await self._run.ask(schedule_commands.run_now(name), conn)

    async def pause(self, name: str, *, conn: object = None) -> None:
        """Let a schedule rest."""
        await self._run.ask(schedule_commands.pause(name), conn)

    async def resume(self, name: str, *, conn: object = None) -> Schedule:
        """Let a schedule go on, from the next time that comes."""
        return await self._run.ask(schedule_commands.resume(name), conn)

    async def remove(self, name: str, *, conn: object = None) -> None:
        """Forget a schedule; jobs it queued stay."""
        await self._run.ask(schedule_commands.remove(name), conn)

"""Queues of an app: pause, resume and weight them; limit a lane."""

from __future__ import annotations

from datetime import datetime

from retoma.app.runner import Runner
from retoma.commands import flow as flow_commands
from retoma.commands import jobs as job_commands
from retoma.commands.jobs import only
from retoma.model.machine import QueueState
from retoma.model.queue import Queue
from retoma.store import queues


class Queues:
    """Queues of an app: pause, resume and weight them; limit a lane."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    async def all(self) -> list[Queue]:
        """The queues, with how many jobs wait and run in each."""
        return await self._run.fetch(queues.all())

    async def look(self) -> list[QueueState]:
        """The queues with what waits, how fast jobs come and end, and how long they wait and run. Its cost does not
        grow with the number of jobs: counts stop at 10,000, and no lanes are read.
        """
        return await self._run.ask(flow_commands.queues())

    async def get(self, name: str) -> QueueState:
        """One queue, with its lanes."""
        return await self._run.ask(flow_commands.queue(name))

    async def paused_by(self, *names: str) -> dict[str, str]:
        """Who paused these queues, as far as the audit knows; needs an account that may read it."""
        return await self._run.ask(flow_commands.paused_by(names))

    async def pause(
        self,
        name: str,
        *,
        reason: str = "person",
        until: datetime | None = None,
        seconds: float | None = None,
        conn: object = None,
    ) -> datetime | None:
        """Stop claims from a queue; running jobs continue. With *until*, or for so many *seconds*, it goes on by itself
        by the clock of the database. Returns when that is.
        """
        return await self._run.transact(flow_commands.pause(name, reason=reason, until=until, seconds=seconds), conn)

    async def resume(self, name: str, *, conn: object = None) -> None:
        """Allow claims from a queue again."""
        await self._run.ask(only(queues.resume(name)), conn)

    async def weigh(self, name: str, weight: int, *, conn: object = None) -> None:
        """Give a queue *weight* turns for one turn of the others; the default is 1."""
        await self._run.ask(job_commands.weigh_queue(name, weight), conn)

    async def limit_lane(self, queue: str, lane: str, *, at_once: int | None, conn: object = None) -> None:
        """Let at most *at_once* jobs of a lane run at the same time; None lifts the limit."""
        await self._run.ask(job_commands.limit_lane(queue, lane, at_once=at_once), conn)

"""Workers of an app: who they are, what they hold and have done; ask one to end."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.app.runner import Runner
from retoma.commands import workers as worker_commands
from retoma.model.machine import HeldJob
from retoma.model.worker import Metrics, Presence
from retoma.store import workers


class Workers:
    """Workers of an app: who they are, what they hold and have done; ask one to end."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    async def all(
        self, *, gone: bool = False, label: str | None = None, before: int | None = None, limit: int = 200
    ) -> list[Presence]:
        """The workers, newest first; *gone* includes stopped ones, *before* only those with a lower number."""
        return await self._run.fetch(workers.all(gone=gone, label=label, before=before, limit=limit))

    async def metrics(self, label: str | int) -> Metrics:
        """The seven counters of the worker with *label*, or of the executor with that number."""
        return (await self._run.fetch(workers.metrics(label)))[0]

    async def holding(self, ids: Sequence[int]) -> list[HeldJob]:
        """The jobs that these executors hold now, each with the step that it was in at the last heartbeat."""
        return await self._run.fetch(workers.holding(ids))

    async def losses(self) -> dict[str, int]:
        """How many executors of each label were given up, because they were gone or their lease ended."""
        return {each.label: each.lost for each in await self._run.fetch(workers.losses())}

    async def drain(self, label: str, *, by: str | None = None, conn: object = None) -> list[int]:
        """Ask the workers that run now under *label* to take no more jobs and to end, as on SIGTERM: steps at hand are
        finished and saved, and the rest goes back to the queue. They hear of it with their next heartbeat. Returns the
        numbers of the executors that were asked.
        """
        return await self._run.ask(worker_commands.drain(label, by=by), conn)

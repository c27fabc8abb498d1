"""Workers of an app: who they are, what they hold and have done; ask one to end."""

# Made by tools/sync.py from app/workers.py; change that one.

from __future__ import annotations

from collections.abc import Sequence

from retoma.commands import workers as worker_commands
from retoma.model.machine import HeldJob
from retoma.model.worker import Metrics, Presence
from retoma.store import workers
from retoma.sync.runner import Runner


class Workers:
    """Workers of an app: who they are, what they hold and have done; ask one to end."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def all(
        self, *, gone: bool = False, label: str | None = None, before: int | None = None, limit: int = 200
    ) -> list[Presence]:
        """The workers, newest first; *gone* includes stopped ones, *before* only those with a lower number."""
        return self._run.fetch(workers.all(gone=gone, label=label, before=before, limit=limit))

    def metrics(self, label: str | int) -> Metrics:
        """The seven counters of the worker with *label*, or of the executor with that number."""
        return (self._run.fetch(workers.metrics(label)))[0]

    def holding(self, ids: Sequence[int]) -> list[HeldJob]:
        """The jobs that these executors hold now, each with the step that it was in at the last heartbeat."""
        return self._run.fetch(workers.holding(ids))

    def losses(self) -> dict[str, int]:
        """How many executors of each label were given up, because they were gone or their lease ended."""
        return {each.label: each.lost for each in self._run.fetch(workers.losses())}

    def drain(self, label: str, *, by: str | None = None, conn: object = None) -> list[int]:
        """Ask the workers that run now under *label* to take no more jobs and to end, as on SIGTERM: steps at hand are
        finished and saved, and the rest goes back to the queue. They hear of it with their next heartbeat. Returns the
        numbers of the executors that were asked.
        """
        return self._run.ask(worker_commands.drain(label, by=by), conn)

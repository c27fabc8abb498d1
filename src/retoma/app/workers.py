"""Workers of an app: who they are, and what they have done."""

from __future__ import annotations

from retoma.app.runner import Runner
from retoma.model.job import (
    Metrics,
    Presence,
)
from retoma.store import workers


class Workers:
    """Workers of an app: who they are, and what they have done."""

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

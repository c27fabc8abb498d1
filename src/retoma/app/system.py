"""The database of an app: how it is doing, whether its tables are sound, what is removed when its time is over."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import timedelta

import psycopg

from retoma.app.runner import Runner
from retoma.commands import pruning, verification
from retoma.model.batch import (
    Breach,
)
from retoma.model.job import (
    Health,
)
from retoma.model.upkeep import Overstay
from retoma.store import health


class System:
    """The database of an app: how it is doing, whether its tables are sound, what is removed when its time is over."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    async def health(self) -> Health:
        """How the database is doing: what can make a queue slow or unsafe, and who works."""
        found = (await self._run.fetch(health.look()))[0]
        return replace(found, echo_seconds=await self._run.echo())

    async def verify(self, *, sweep_seconds: float = 5.0, quick: bool = False) -> list[Breach]:
        """Recompute every invariant from the tables: what does not hold. Nothing, when all is well. *quick* looks only
        at what lives: what runs, and the batches that have not ended.
        """
        pieces = self.verify_pieces(sweep_seconds=sweep_seconds, quick=quick)
        return [each async for piece in pieces for each in piece.found]

    async def verify_pieces(
        self, *, after: str = "", sweep_seconds: float = 5.0, quick: bool = False
    ) -> AsyncIterator[verification.Verified]:
        """The same a bounded piece at a time, each with what it found and from where to go on: *after*."""
        how = verification.How(sweep_seconds=sweep_seconds, quick=quick)
        following: str | None = after
        while following is not None:
            piece = await self._run.ask(verification.piece(following, how))
            yield piece
            following = piece.next

    async def prune(self, older_than: timedelta | None = None) -> int:
        """Remove jobs, batches and calls that are older than *older_than* (the retention setting); how many went. A
        kind that fails holds up no other, and is raised at the end.
        """
        keep = timedelta(days=self._run.settings.retention_days)
        seconds = pruning.seconds_of(keep if older_than is None else older_than)
        gone, failed = 0, []
        for kind in pruning.KINDS:
            try:
                gone += await self._run.ask(pruning.whole(kind, pruning.age_of(kind, self._run.settings, seconds)))
            except psycopg.Error as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return gone

    async def overstays(self) -> list[Overstay]:
        """For each kind of rows that prune removes: how long the oldest is there past the retention."""
        return await self._run.ask(pruning.overstays(self._run.settings.retention_days * 86_400.0))

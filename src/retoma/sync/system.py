"""The database of an app: its health, the integrity of its tables, and the deletion of old rows."""

# Made by tools/sync.py from app/system.py; change that one.

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta

import psycopg

from retoma.commands import pruning, verification
from retoma.model.batch import (
    Breach,
)
from retoma.model.job import (
    Health,
)
from retoma.model.upkeep import Overstay
from retoma.store import health
from retoma.sync.runner import Runner


class System:
    """The database of an app: its health, the integrity of its tables, and the deletion of old rows."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def health(self) -> Health:
        """The health of the database: what can make a queue slow or unsafe, and the workers."""
        found = (self._run.fetch(health.look()))[0]
        return replace(found, echo_seconds=self._run.echo())

    def verify(self, *, sweep_seconds: float = 5.0, quick: bool = False) -> list[Breach]:
        """Recompute every invariant from the tables and return the violations; an empty list means that all is well.
        *quick* checks only running jobs and unfinished batches.
        """
        pieces = self.verify_pieces(sweep_seconds=sweep_seconds, quick=quick)
        return [each for piece in pieces for each in piece.found]

    def verify_pieces(
        self, *, after: str = "", sweep_seconds: float = 5.0, quick: bool = False
    ) -> Iterator[verification.Verified]:
        """The same in bounded pieces, each with its violations and the start of the next piece: *after*."""
        how = verification.How(sweep_seconds=sweep_seconds, quick=quick)
        following: str | None = after
        while following is not None:
            piece = self._run.ask(verification.piece(following, how))
            yield piece
            following = piece.next

    def prune(self, older_than: timedelta | None = None) -> int:
        """Delete jobs, batches and calls older than *older_than* (the retention setting), and return how many. A
        failure in one kind does not stop the others, and is raised at the end.
        """
        keep = timedelta(days=self._run.settings.retention_days)
        seconds = pruning.seconds_of(keep if older_than is None else older_than)
        gone, failed = 0, []
        for kind in pruning.KINDS:
            try:
                gone += self._run.ask(pruning.whole(kind, pruning.age_of(kind, self._run.settings, seconds)))
            except psycopg.Error as error:
                failed.append(error)
        if failed:
            raise failed[0]
        return gone

    def overstays(self) -> list[Overstay]:
        """For each kind of rows that prune deletes: by how much the oldest is past the retention."""
        return self._run.ask(pruning.overstays(self._run.settings.retention_days * 86_400.0))

"""The database of an app: its health, the integrity of its tables, and the deletion of old rows."""

# Made by tools/sync.py from app/system.py; change that one.

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import timedelta

import psycopg

from retoma.commands import finding, path_check, pruning, verification
from retoma.commands.jobs import only
from retoma.errors import NotFound
from retoma.model.alert import Alert
from retoma.model.batch import (
    Breach,
)
from retoma.model.health import Health
from retoma.model.machine import DutyRound, TableSize
from retoma.model.overview import Overview
from retoma.model.upkeep import Gauge, Overstay
from retoma.model.view import View
from retoma.store import alerts, duties, figures, health, overview, views
from retoma.store.health import Revision
from retoma.sync.runner import Runner


class System:
    """The database of an app: its health, the integrity of its tables, and the deletion of old rows."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def health(self) -> Health:
        """The health of the database: what can make a queue slow or unsafe, the workers, and whether the path of a job
        works: it is written, claimed, ended and notified of, and nothing of that stays.
        """
        return self.tried((self._run.fetch(health.look()))[0])

    def tried(self, looked: Health) -> Health:
        """The health that a look at the tables has found, with the path of a job tried."""
        wrote, claimed = [*self._run.rehearse(path_check.write(), path_check.claim), None, None][:2]
        return replace(looked, echo_seconds=self._run.echo(), write_seconds=wrote, claim_seconds=claimed)

    def figures(self) -> list[Gauge]:
        """The metrics that the tables tell: depth, age, stuck jobs, workers. One bounded look, for ``/metrics``."""
        return self._run.fetch(figures.look())

    def overview(self, *, money: bool = True) -> Overview:
        """The whole system at a glance: batches, jobs, costs of today and workers, every count bounded. The costs are
        summed over all calls of the day; without *money* they are zero, and the look is quick however many there are.
        """
        return (self._run.fetch(overview.look(money=money)))[0]

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

    def alerts(self, *, open: bool = True, before: int | None = None, limit: int = 50) -> list[Alert]:
        """Incidents that the watchdog found, the newest first; only those that are not over, unless *open* is False."""
        return self._run.fetch(alerts.page(open=open, before=before, limit=limit))

    def alert(self, id: int, *, conn: object = None) -> Alert:
        """One incident."""
        found = self._run.ask(only(alerts.page(id=id, limit=1)), conn)
        if not found:
            raise NotFound(f"There is no alert {id}.", next="'retoma alert list --all' shows them.")
        return found[0]

    def acknowledge(self, id: int, *, by: str = "person", note: str | None = None, conn: object = None) -> Alert:
        """Say that somebody looks after an incident. Who was first stays."""
        self._run.ask(only(alerts.acknowledge(id, by=by, note=note)), conn)
        return self.alert(id, conn=conn)

    def overstays(self) -> list[Overstay]:
        """For each kind of rows that prune deletes: by how much the oldest is past the retention."""
        return self._run.ask(pruning.overstays(self._run.settings.retention_days * 86_400.0))

    def views(self, owner: str, *, page: str | None = None) -> list[View]:
        """The saved views of *owner*, and those that everybody shares."""
        return self._run.ask(only(views.seen_by(owner, page=page)))

    def keep_view(
        self, name: str, *, page: str, query: str, owner: str, shared: bool = False, conn: object = None
    ) -> View:
        """Keep the query of a page under a name; the owner's view of that name is replaced."""
        return self._run.ask(finding.keep_view(name, page=page, query=query, owner=owner, shared=shared), conn)

    def remove_view(self, id: int, *, owner: str | None = None, conn: object = None) -> View:
        """Remove a saved view of *owner*; without one, anybody's."""
        return self._run.ask(finding.remove_view(id, owner=owner), conn)

    def sizes(self, schemas: Sequence[str] = ("retoma",)) -> list[TableSize]:
        """The largest tables of these schemas, with their indexes."""
        return self._run.fetch(health.sizes(schemas))

    def rounds(self) -> list[DutyRound]:
        """When each duty of the watchdog was last done, and by whom."""
        return self._run.fetch(duties.all())

    def revision(self) -> Revision:
        """The revision of the tables, and the size of the database."""
        return (self._run.fetch(health.revision()))[0]

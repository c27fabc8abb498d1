"""Claims jobs: one claim at a time, lanes in turn. A claim whose response was lost is looked up by its token."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from uuid import UUID, uuid4

import psycopg
from psycopg_pool import PoolClosed

from retoma.errors import DatabaseUnreachable
from retoma.model.job import Claim
from retoma.postgres.database import Database
from retoma.postgres.dedicated import Line
from retoma.postgres.faults import is_lost, retrying
from retoma.store import jobs, workers
from retoma.store.query import Query
from retoma.store.turns import Turns
from retoma.system.settings import Settings

_FOLLOWS = 4  # claims that may follow the lines just served before the next full scan
_KNOWN = 3  # samples needed of each kind before a full scan can be called expensive:
_DEAR, _DEARER = 0.02, 5.0  # it takes more than this many seconds, and this many times as long as a follow
_SHARE, _LONGEST = 20.0, 2.0  # then follow for this many times the seconds of a scan, and at most this many seconds
_LATE = 10.0  # seconds past the statement timeout after which a lost claim can no longer commit


class Claimer:
    """Claims jobs for one worker. *hungry* is true when the last claim returned fewer jobs than its limit. *line* is a
    dedicated connection; when it is set, claims use it instead of the pool.
    """

    def __init__(
        self,
        database: Database,
        settings: Settings,
        *,
        worker_id: int,
        queues: Sequence[str],
        pipelines: Sequence[str],
    ) -> None:
        self.hungry = False
        self._database = database
        self.line: Line | None = None
        self.settings = settings
        self._worker_id = worker_id
        self._queues = queues
        self._pipelines = pipelines
        self._turns = Turns()
        self._looked_at, self._follows = 0.0, 0
        self._look_seconds: deque[float] = deque(maxlen=_KNOWN)
        self._follow_seconds: deque[float] = deque(maxlen=_KNOWN)
        self._failures = 0
        self._under_way: set[UUID] = set()
        self._doubts: dict[UUID, tuple[float, set[int]]] = {}

    def knows(self, token: UUID | None) -> bool:
        """Whether the claim with this *token* is in progress, or its response was lost and is still being looked up."""
        return token in self._under_way or token in self._doubts

    async def held(self) -> list[tuple[Claim, UUID | None]]:
        """All jobs that this worker holds according to the database, each with the token of its claim."""
        asked = self.line or self._database
        look = workers.held(self._worker_id)
        return await retrying(lambda: asked.all(look), doing="looking what is held", outages=self._database.outages)

    async def claim(self, limit: int, *, suspects: bool = False) -> list[Claim]:
        """Claim up to *limit* ready jobs; with *suspects*, only jobs that must run alone. A scan that ends before it
        has visited every lane and finds nothing continues where it stopped, once around all lanes.

        A few claims follow the lines that were just served before the next full scan of all lines. When a long
        transaction makes full scans expensive, follows continue for longer, so that scans stay a small part of the
        time.
        """
        try:
            rows = await self._follow(limit) if not suspects and self._may_follow() else []
            if not rows:
                self._turns.begin()
                while not (rows := await self._look(limit, suspects)) and self._turns.cut:
                    pass
            self.hungry = len(rows) < limit
            return rows + await self._adopt() if self._doubts else rows
        finally:
            self._under_way.clear()  # the caller holds these claims now

    async def _follow(self, limit: int) -> list[Claim]:
        token = uuid4()
        following = jobs.follow(self._worker_id, limit=limit, token=token, turns=self._turns)
        rows = self._turns.followed(await self._ask(following, token, self._follow_seconds))
        self._follows += 1
        return rows

    def _may_follow(self) -> bool:
        if not self._turns.lines or (self.hungry and not self._look_is_dear()):
            return False
        if self._look_is_dear():
            return time.monotonic() < self._looked_at + min(_SHARE * min(self._look_seconds), _LONGEST)
        return self._follows < _FOLLOWS

    def _look_is_dear(self) -> bool:
        """Whether a full scan is slow by itself, and not because every statement is slow now."""
        if len(self._look_seconds) < _KNOWN or not self._follow_seconds:
            return False
        look = min(self._look_seconds)
        return look > _DEAR and look > _DEARER * min(self._follow_seconds)

    async def _look(self, limit: int, suspects: bool) -> list[Claim]:
        token = uuid4()
        claim = jobs.claim_alone if suspects else jobs.claim
        query = claim(self._worker_id, self._queues, self._pipelines, limit=limit, token=token, turns=self._turns)
        rows = self._turns.heard(await self._ask(query, token, self._look_seconds))
        self._looked_at, self._follows = time.monotonic(), 0
        return rows

    async def _ask(self, query: Query[Claim], token: UUID, seconds: deque[float]) -> list[Claim]:
        began = time.monotonic()
        self._under_way.add(token)
        try:
            rows = await (self.line or self._database).all(query)
        except (psycopg.Error, DatabaseUnreachable) as error:
            # A claim carries no job data, so no job can have caused the error: wait and try again, whatever it is.
            if isinstance(error, PoolClosed):
                raise
            if is_lost(error):
                self._doubts[token] = (time.monotonic() + self.settings.statement_seconds + _LATE, set())
            self._failures += 1
            await self._database.outages.sit_out("claiming", self._failures, error, longest=2.0)
            return []
        self._failures = 0
        seconds.append(time.monotonic() - began)
        return rows

    async def _adopt(self) -> list[Claim]:
        """Return the jobs of claims whose response was lost. The server may still execute such a claim later, so the
        lookup repeats until no statement of that age can be running.
        """
        found: list[Claim] = []
        for token, (until, known) in list(self._doubts.items()):
            rows = await self._database.persist(jobs.adopt(self._worker_id, token), doing="claiming")
            found += [row for row in rows if row.id not in known]
            known.update(row.id for row in rows)
            if time.monotonic() > until:
                del self._doubts[token]
                self._under_way.add(token)
        return found

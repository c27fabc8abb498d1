"""Taking jobs: one claim after the other, lanes in turn, and nothing forgotten that an unheard answer took."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from uuid import UUID, uuid4

from retoma.database import TRANSIENT, Database, jitter
from retoma.errors import DatabaseUnreachable
from retoma.model import Claim
from retoma.settings import Settings
from retoma.store import jobs
from retoma.telemetry import emit
from retoma.telemetry.events import DatabaseLost

_LATE = 10.0  # seconds past the longest statement, after which a lost claim can no longer be done


class Claiming:
    """Claims jobs for one worker. *hungry* when the last claim found less than it asked for."""

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
        self._settings = settings
        self._worker_id = worker_id
        self._queues = queues
        self._pipelines = pipelines
        self._after_lane = 0
        self._walk_cut = False
        self._doubts: dict[UUID, tuple[float, set[int]]] = {}

    async def claim(self, limit: int, *, suspects: bool = False) -> list[Claim]:
        """Take what is ready, of those that must run alone or of the others. When one walk does not reach every lane
        and finds nothing, go on, once around.
        """
        began, rounds = self._after_lane, 0
        while True:
            before = self._after_lane
            rows = await self._claim_once(limit, suspects)
            self.hungry = len(rows) < limit
            rounds += self._after_lane <= before
            if rows or not self._walk_cut or rounds > 1 or (rounds and self._after_lane >= began):
                return rows + await self._adopt() if self._doubts else rows

    async def _claim_once(self, limit: int, suspects: bool) -> list[Claim]:
        token = uuid4()
        query = jobs.claim(
            self._worker_id,
            self._queues,
            self._pipelines,
            limit=limit,
            token=token,
            after_lane=self._after_lane,
            suspects=suspects,
        )
        self._walk_cut = False
        try:
            rows = await self._database.all(query)
        except (*TRANSIENT, DatabaseUnreachable) as error:
            emit(DatabaseLost(doing="claiming", error=type(error).__name__))
            self._doubts[token] = (time.monotonic() + self._settings.statement_seconds + _LATE, set())
            await asyncio.sleep(jitter(1))
            return []
        self._after_lane = jobs.following_lane(self._after_lane, rows)
        if rows[0].id is None:
            self._walk_cut = rows[0].walked_to is not None
            return []
        return rows

    async def _adopt(self) -> list[Claim]:
        """The answers to some claims were lost: take what they took, once the database answers. The server may come
        to them even later, so it is asked again until no statement of that age can be under way.
        """
        found: list[Claim] = []
        for token, (until, known) in list(self._doubts.items()):
            rows = await self._database.persist(jobs.adopt(self._worker_id, token))
            found += [row for row in rows if row.id not in known]
            known.update(row.id for row in rows)
            if time.monotonic() > until:
                del self._doubts[token]
        return found

"""Batch configurations, cached per executor and read again when a batch changes."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from retoma.model.job import Claim
from retoma.postgres.database import Database
from retoma.store import batches
from retoma.store.batches import Configured

_MOST = 256


class Configurations:
    """A cache of batch configurations. Jobs that start together share one read."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[tuple[int, int | None, int], asyncio.Task[Configured]] = {}

    async def of(self, claim: Claim) -> tuple[dict[str, Any], str | None]:
        """The configuration of the job's batch, as its cohort has it, and the span of the batch's run. Each job gets
        its own copy, so a handler's changes stay in that handler.
        """
        assert claim.batch_id is not None
        key = (claim.batch_id, claim.batch_epoch, claim.cohort)
        if key not in self._known:
            if len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            self._known[key] = asyncio.create_task(self._read(claim.batch_id, claim.cohort))
        reading = self._known[key]
        try:
            text, run = await asyncio.shield(reading)
        except Exception:
            if self._known.get(key) is reading:
                del self._known[key]  # the next call reads it again
            raise
        found: dict[str, Any] = json.loads(text)  # json keeps integers of more than 64 bits
        return found, run

    async def _read(self, batch_id: int, cohort: int) -> Configured:
        asked = batches.configuration(batch_id, cohort=cohort)
        rows = await self._database.persist(asked, doing="reading a configuration")
        return rows[0] if rows else Configured()

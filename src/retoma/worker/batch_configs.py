"""What batches were made with, read once per executor and change."""

from __future__ import annotations

import asyncio
from typing import Any

import orjson

from retoma.database import Database
from retoma.model import Claim
from retoma.store import batches

_MOST = 256


class Configurations:
    """The configurations of the batches at hand; asked for once, however many of their jobs begin together."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[tuple[int, int | None], asyncio.Task[str]] = {}

    async def of(self, claim: Claim) -> dict[str, Any]:
        """A copy of its own for each job: what one handler changes in it, no other sees."""
        assert claim.batch_id is not None
        key = (claim.batch_id, claim.batch_epoch)
        if key not in self._known:
            if len(self._known) >= _MOST:
                del self._known[next(iter(self._known))]
            self._known[key] = asyncio.create_task(self._read(claim.batch_id))
        text: str = await asyncio.shield(self._known[key])
        found: dict[str, Any] = orjson.loads(text)
        return found

    async def _read(self, batch_id: int) -> str:
        rows = await self._database.persist(batches.configuration(batch_id))
        return rows[0] if rows else "{}"

"""Blobs that nobody has owned for a day go, once an hour."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import psycopg

from retoma.app.fetch import fetch
from retoma.model.retry import Retry
from retoma.model.validation import HOUSE_QUEUE
from retoma.pipelines.files import unowned_blobs
from retoma.pipelines.files.ingest import deleted
from retoma.providers import BlobStore
from retoma.run.pipeline import Pipeline, pipeline
from retoma.run.run import Run

KEEP = timedelta(days=1)
"""How long a blob may wait for its owner: longer than any upload lasts."""

Connection = psycopg.AsyncConnection[Any]


@pipeline("sweep-blobs", internal=True, queue=HOUSE_QUEUE, cron="37 * * * *", retry=Retry(attempts=1), timeout=600.0)
async def sweep_blobs(_: None, run: Run, *, blobs: BlobStore) -> int:
    """Delete what uploads that were broken off, and documents that were removed, have left in the store. What the store
    refuses to delete is tried again an hour later, behind nobody.
    """

    async def give_up(connection: Connection, since: datetime | None, blob: str) -> list[tuple[datetime, str]]:
        after = unowned_blobs.OLDEST if since is None else unowned_blobs.Loose(since, blob)
        found = await fetch(connection, unowned_blobs.give_up(KEEP.total_seconds(), after=after))
        return [(each.since, each.blob) for each in found]

    async def delete(names: list[str]) -> list[str]:
        return await deleted(blobs, names)

    async def forget(connection: Connection, names: list[str]) -> int:
        return len(await fetch(connection, unowned_blobs.forget(names)))

    swept, pieces = 0, 0
    since: datetime | None = None
    blob = ""
    while given_up := await run.transact(f"give-up/{pieces}", give_up, since, blob):
        gone = await run.step(f"delete/{pieces}", delete, [name for _, name in given_up])
        swept += await run.transact(f"forget/{pieces}", forget, gone)
        (since, blob), pieces = given_up[-1], pieces + 1
    return swept


PIPELINES: tuple[Pipeline[Any, Any], ...] = (sweep_blobs,)

"""Blobs that nobody has owned for a day go, once an hour."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import psycopg

from retoma.chores import QUEUE
from retoma.commands import only
from retoma.join import run_on
from retoma.pipeline import pipeline
from retoma.pipelines import loose_blobs
from retoma.pipelines.files import deleted
from retoma.providers import BlobStore
from retoma.retry import Retry
from retoma.run import Run

KEEP = timedelta(days=1)
"""How long a blob may wait for its owner: longer than any upload lasts."""

Connection = psycopg.AsyncConnection[Any]


@pipeline("sweep-blobs", queue=QUEUE, cron="37 * * * *", retry=Retry(attempts=1), timeout=600.0)
async def sweep_blobs(_: None, run: Run, *, blobs: BlobStore) -> int:
    """Delete what uploads that were broken off, and documents that were removed, have left in the store."""

    async def give_up(connection: Connection) -> list[str]:
        return await run_on(connection, only(loose_blobs.give_up(KEEP.total_seconds())))

    async def delete(names: list[str]) -> list[str]:
        return await deleted(blobs, names)

    async def forget(connection: Connection, names: list[str]) -> int:
        return len(await run_on(connection, only(loose_blobs.forget(names))))

    given_up = await run.transact("give-up", give_up)
    gone = await run.step("delete", delete, given_up)
    return await run.transact("forget", forget, gone)

"""Makes a batch of so many documents and sends the span of that. Prints the batch's id."""

from __future__ import annotations

import asyncio
import sys

import batch_app

from retoma.telemetry.tracing import configure


async def send() -> int:
    flush = configure(label="sender")
    documents = batch_app.documents(int(sys.argv[1]), seconds=0.3)
    async with batch_app.app as app:
        batch = await app.batch(
            batch_app.work, documents, name="traced", key=lambda document: document.key, stall_seconds=3.0
        )
    flush()
    return batch.id


print(asyncio.run(send()))  # noqa: T201

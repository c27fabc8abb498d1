"""Queues one document and sends the span of that; the arguments are its questions. Prints the job's id."""

from __future__ import annotations

import asyncio
import sys

import paid_app

from retoma.telemetry.tracing import configure


async def send() -> int:
    flush = configure(label="sender")
    async with paid_app.app as app:
        await app.calls.set_price(paid_app.PROVIDER, paid_app.MODEL, input=paid_app.INPUT, output=paid_app.OUTPUT)
        document = paid_app.Document(1, questions=int(sys.argv[1]))
        receipt = await app.enqueue(paid_app.inquire, document, correlation_id="request-4711")
    flush()
    return receipt.id


print(asyncio.run(send()))  # noqa: T201

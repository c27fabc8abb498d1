"""Hints that there is work. A hint may be lost without harm: whoever listens also looks by itself."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Collection
from uuid import uuid4

import psycopg

from retoma.database import connection_options, jitter
from retoma.settings import Settings
from retoma.telemetry import emit
from retoma.telemetry.events import HintsUnheard

CHANNEL = "retoma"
_PROBE_SECONDS = 10.0


async def listen(url: str, settings: Settings, queues: Collection[str], wake: Callable[[], None]) -> None:
    """Call *wake* whenever a job is queued in one of *queues*; for ever, across lost connections."""
    if settings.pooler == "transaction":
        emit(HintsUnheard(reason="a transaction pooler stands in between", poll=settings.poll_seconds))
        return
    attempt = 0
    while True:
        try:
            async with await psycopg.AsyncConnection.connect(url, **connection_options(settings)) as connection:
                await connection.execute(f"listen {CHANNEL}")
                attempt = 0
                wake()
                while True:
                    async for hint in connection.notifies(timeout=_PROBE_SECONDS):
                        if hint.payload in queues:
                            wake()
                    # Silence may be a dead connection: ask it something.
                    await connection.execute("select 1")
        except psycopg.Error:
            attempt += 1
            if attempt == 1:
                emit(HintsUnheard(reason="the listening connection was lost", poll=settings.poll_seconds))
            await asyncio.sleep(jitter(attempt))


def echo(url: str, settings: Settings, *, timeout: float = 2.0) -> float | None:
    """How many seconds a hint takes to come back to whoever sent it; None when it does not come."""
    if settings.pooler == "transaction":
        return None
    # A channel of its own, so that no worker is woken.
    channel = f"{CHANNEL}_echo_{uuid4().hex}"
    with psycopg.connect(url, **connection_options(settings)) as connection:
        connection.execute(f"listen {channel}")
        began = time.monotonic()
        connection.execute(f"notify {channel}")
        for _hint in connection.notifies(timeout=timeout, stop_after=1):
            return time.monotonic() - began
    return None

"""What comes by the clock: quotes that are stuck go on, and those that were begun a day ago are given up.

The engine's own watchdog gives the jobs of a dead worker to another within seconds. These rounds put the rows of the
quotes in step with that.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import psycopg

from retoma.app.fetch import fetch
from retoma.model.retry import Retry
from retoma.model.validation import HOUSE_QUEUE
from retoma.pipelines.quotes import requests
from retoma.run.pipeline import pipeline
from retoma.run.run import Run


@dataclass(frozen=True, slots=True, kw_only=True)
class Round:
    """What a round did: quotes that wait again, and quotes whose job had ended."""

    recovered: int
    settled: int


@pipeline(
    "recover-stuck-quotes",
    internal=True,
    queue=HOUSE_QUEUE,
    cron="*/5 * * * *",
    retry=Retry(attempts=1),
    timeout=240.0,
)
async def recover_stuck_quotes(_: None, run: Run) -> Round:
    """Let quotes go on that have shown no sign of life for ten minutes."""
    return await run.transact("recover", recovered)


@pipeline(
    "cleanup-old-processing",
    internal=True,
    queue=HOUSE_QUEUE,
    cron="0 4 * * *",
    retry=Retry(attempts=1),
    timeout=240.0,
)
async def cleanup_old_processing(_: None, run: Run) -> int:
    """Give up quotes that were begun more than a day ago; whoever still works on one hears of it at its next step."""
    return await run.transact("give-up", _given_up)


async def recovered(connection: psycopg.AsyncConnection[Any]) -> Round:
    """One round, in the caller's transaction."""
    settled = await fetch(connection, requests.settle())
    again = await fetch(connection, requests.recover())
    return Round(recovered=len(again), settled=len(settled))


async def _given_up(connection: psycopg.AsyncConnection[Any]) -> int:
    return len(await fetch(connection, requests.give_up()))

"""The jobs of ``retoma chaos``: each takes five steps and writes a row. What begins and what is done is noted in a file
that only grows, and that the engine never reads.
"""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any, NamedTuple

import psycopg

from retoma import Retoma, Retry, Run, pipeline
from retoma.store.query import load

VARIABLE = "RETOMA_CHAOS_DIARY"
QUEUE = "chaos"
STEPS = 5
BEGAN, DONE = "began", "done"
_SECONDS = 0.08
_SQL = load("retoma.bench.chaos", "log.sql")


class Line(NamedTuple):
    """Something began, or the handler was told that it is done."""

    job: int
    what: str
    step: str


def write(run: Run, what: str, step: str) -> None:
    """Note it in one write in append mode: lines of several processes do not mix, and a kill leaves whole lines."""
    file = os.open(os.environ[VARIABLE], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(file, f"{run.token.partition(':')[0]} {what} {step}\n".encode())
    finally:
        os.close(file)


def read(file: Path) -> list[Line]:
    """All that was noted, in its order."""
    if not file.exists():
        return []
    parts = (line.split(" ", 2) for line in file.read_text().splitlines())
    return [Line(int(job), what, step) for job, what, step in parts]


@pipeline("chaos", queue=QUEUE, retry=Retry(attempts=1000, wait=0.05, factor=1, jitter=0), timeout=600)
async def suffer(number: int, run: Run) -> int:
    """Five steps, and a row that commits with the last checkpoint or not at all."""
    for place in range(1, STEPS + 1):
        step = f"step/{place}"
        await run.step(step, _work, run, step)
        write(run, DONE, step)
    await run.transact("row", _row, run)
    return number


async def _work(run: Run, step: str) -> int:
    write(run, BEGAN, step)
    await asyncio.sleep(_SECONDS)
    return os.getpid()


async def _row(connection: psycopg.AsyncConnection[Any], run: Run) -> None:
    job, fence = run.token.split(":")
    await connection.execute(_SQL["effect"], {"job": int(job), "fence": int(fence)})


app = Retoma(pipelines=[suffer])

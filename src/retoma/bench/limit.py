"""What plain SQL can do here, from one process: the practical limit, measured in the same run."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import psycopg

from retoma.bench import figures
from retoma.bench.program import app
from retoma.postgres.database import connection_options

_BATCH = 100
_AT_ONCE = 20


async def noop_jobs(jobs: int) -> dict[str, Any]:
    """Claim a hundred and end a hundred, again and again, on one connection."""
    async with app.database.connection() as connection:
        load = figures.preload(jobs)
        await connection.execute(load.sql, load.params)
    options = connection_options(app.settings, hot=True)
    async with await psycopg.AsyncConnection.connect(app.database.url, **options) as connection:
        began = time.perf_counter()
        done = 0
        while True:
            claim = figures.raw_claim(_BATCH)
            rows = await (await connection.execute(claim.sql, claim.params)).fetchall()
            if not rows:
                break
            end = figures.raw_end([row[0] for row in rows])
            await connection.execute(end.sql, end.params)
            done += len(rows)
    return {"jobs": done, "per_second": round(done / (time.perf_counter() - began))}


async def steps(rows: int) -> dict[str, Any]:
    """One commit per step, twenty connections at once."""
    options = connection_options(app.settings)

    async def some(first: int) -> None:
        async with await psycopg.AsyncConnection.connect(app.database.url, **options) as connection:
            for number in range(first, rows, _AT_ONCE):
                step = figures.raw_step(number, "step")
                await connection.execute(step.sql, step.params)

    began = time.perf_counter()
    await asyncio.gather(*(some(first) for first in range(_AT_ONCE)))
    return {"steps": rows, "steps_per_second": round(rows / (time.perf_counter() - began))}

"""The figures of calls: what the limiter gives in a second, and what run.ask costs beside the request itself."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

from retoma.bench import figures
from retoma.bench.machine import worker
from retoma.bench.program import ECHO, app, ask
from retoma.calls.limiter import Limiter
from retoma.store import workers

Figures = dict[str, Any]

_PLENTY = 2_000_000_000  # a minute: the limit is there and never reached
_AT_ONCE = 100


async def permits(number: int) -> Figures:
    """Permits of one limited model in one process: a hundred at once, which share slices, and one after the other."""
    await app.calls.set_limit(ECHO, requests=_PLENTY, tokens=_PLENTY)
    said = workers.hello(label="bench", host="-", pid=0, version="-", queues=[], pipelines=[], at_once=1, lease=600)
    limiter = Limiter(app.database, (await app.fetch(said))[0])

    async def some(permits: int) -> list[float]:
        waits = []
        for _ in range(permits):
            began = time.perf_counter()
            await limiter.acquire([ECHO], 100)
            waits.append(1000 * (time.perf_counter() - began))
            limiter.release(ECHO, guessed=100, used=100)
        return waits

    await some(10)
    began = time.perf_counter()
    await asyncio.gather(*(some(number // _AT_ONCE) for _ in range(_AT_ONCE)))
    seconds = time.perf_counter() - began
    alone = await some(number // 10)
    return {
        "permits": number,
        "per_second": round(number / seconds),
        "alone_per_second": round(len(alone) / (sum(alone) / 1000)),
        "alone_p50_ms": round(statistics.median(alone), 2),
    }


async def asked(jobs: int, *, at_once: int) -> Figures:
    """Milliseconds that run.ask takes beside the bare call, in a worker, with a provider that answers at once."""
    await app.calls.set_limit(ECHO, requests=_PLENTY, tokens=_PLENTY)
    with worker(app.database.url, at_once=at_once):
        warm = await app.enqueue(ask, -1)
        await app.jobs.wait(warm.id, timeout=120)
        receipts = await app.enqueue_many(ask, range(jobs))
        async with asyncio.timeout(300):
            while (await app.fetch(figures.counts()))[0].completed < jobs + 1:
                await asyncio.sleep(1.0)  # the rows say when the last one ended
    pace = (await app.fetch(figures.pace()))[0]
    over = sorted([await app.jobs.output(ask, each.id) for each in receipts])
    return {
        "jobs": jobs,
        "at_once": at_once,
        "overhead_p50_ms": round(statistics.median(over), 2),
        "overhead_p95_ms": round(over[int(jobs * 0.95)], 2),
        "asks_per_second": round(pace.jobs / (pace.seconds or 1)),
    }

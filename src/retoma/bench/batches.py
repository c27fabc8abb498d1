"""The figures of batches: how quickly they are made, looked at and resumed."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from typing import Any

from retoma.bench import figures
from retoma.bench.program import app, noop
from retoma.store.query import Query

Figures = dict[str, Any]
Act = Callable[[Query[Any]], Awaitable[None]]


async def created(jobs: int) -> Figures:
    """A batch and all its jobs, in one transaction."""
    began = time.perf_counter()
    await app.batch(noop, range(jobs), name="created", key=str)
    seconds = time.perf_counter() - began
    return {"jobs": jobs, "seconds": round(seconds, 2), "per_second": round(jobs / seconds)}


async def progress(jobs: int, act: Act, quiet: Callable[[], Awaitable[None]], *, history: int) -> Figures:
    """Milliseconds of one look at a batch, among *history* jobs that ended before."""
    await act(figures.history(history))
    batch = await app.batch(noop, range(jobs), name="looked at", key=str)
    await act(figures.half_done(batch.id))
    await quiet()
    looks: dict[str, Callable[[], Awaitable[object]]] = {
        "progress": lambda: app.batches.progress(batch.id),
        "explain": lambda: app.batches.explain(batch.id),
        "errors": lambda: app.batches.errors(batch.id),
    }
    found: Figures = {"jobs": jobs, "history": history}
    for name, look in looks.items():
        times = []
        for _ in range(100):
            began = time.perf_counter()
            await look()
            times.append(1000 * (time.perf_counter() - began))
        times.sort()
        found[f"{name}_p50_ms"], found[f"{name}_p95_ms"] = round(times[50], 1), round(times[95], 1)
    return found


async def resumed(jobs: int, act: Act) -> Figures:
    """Seconds to resume a stalled batch, and to try again every one of its jobs when all have failed."""
    batch = await app.batch(noop, range(jobs), name="resumed", key=str)
    await act(figures.half_done(batch.id))
    await app.batches.look_after()
    began = time.perf_counter()
    await app.batches.resume(batch.id)
    resume = time.perf_counter() - began
    other = await app.batch(noop, range(jobs), name="failed", key=str)
    await act(figures.all_failed(other.id))
    await act(figures.counted_failed(other.id))
    began = time.perf_counter()
    done = await app.batches.retry_failed(other.id)
    again = time.perf_counter() - began
    return {"jobs": jobs, "resume_seconds": round(resume, 3), "retried": done.jobs, "retry_seconds": round(again, 2)}

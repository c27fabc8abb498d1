"""A steady load for many minutes: what grows, and how fast."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any, NamedTuple

from retoma.bench import figures
from retoma.bench.machine import WorkerProcess, open_files, resident_megabytes, worker
from retoma.bench.program import app, ask, nap, noop, steps

Figures = dict[str, Any]

_EVERY = 10.0  # seconds between two samples
_KEPT = timedelta(minutes=2)
_WARM = 3  # of the samples, one in so many comes before caches are warm and the first rows are pruned


class Sample(NamedTuple):
    """What was there at one moment."""

    seconds: float
    ended: int
    waiting: int
    rows: int
    megabytes_on_disk: float
    connections: int
    worker_megabytes: float
    worker_files: int
    look_ms: float


async def soak(minutes: float, *, pace: int = 100) -> Figures:
    """Queue *pace* jobs a second, a batch now and then, prune what ended two minutes ago, and fit a line through
    everything that could grow. A slope is told as the share of the mean by which it grows in an hour.
    """
    await app.calls.set_limit("bench/echo", requests=2_000_000_000, tokens=2_000_000_000)
    began = time.monotonic()
    samples: list[Sample] = []
    with worker(app.database.url, processes=2, at_once=20) as running:
        duties = [asyncio.create_task(each) for each in (_feed(pace), _prune())]
        try:
            while (passed := time.monotonic() - began) < minutes * 60:
                await asyncio.sleep(_EVERY)
                samples.append(await _sample(passed, running))
                _check(duties)
        finally:
            for each in duties:
                each.cancel()
            await asyncio.gather(*duties, return_exceptions=True)
    breaches = await app.system.verify()
    return {"minutes": minutes, "pace": pace, "breaches": len(breaches), **_told(samples)}


def _check(duties: Sequence[asyncio.Task[None]]) -> None:
    for each in duties:
        if each.done():
            each.result()


async def _feed(pace: int) -> None:
    number = 0
    while True:
        began = time.monotonic()
        await app.enqueue_many(noop, range(pace // 2))
        await app.enqueue_many(steps, range(pace // 4))
        await app.enqueue_many(ask, range(number, number + pace // 8))
        await app.enqueue_many(nap, [0.2] * (pace // 8))
        if number % 10 == 0:
            await app.batch(noop, range(pace), name=f"soak {number}")
        number += 1
        await asyncio.sleep(max(0.0, 1.0 - (time.monotonic() - began)))


async def _prune() -> None:
    while True:
        await asyncio.sleep(15.0)
        await app.system.prune(_KEPT)


async def _sample(seconds: float, running: WorkerProcess) -> Sample:
    began = time.perf_counter()
    (size,) = await app.fetch(figures.size())
    look = 1000 * (time.perf_counter() - began)
    return Sample(
        seconds=seconds,
        ended=size.ended,
        waiting=size.waiting,
        rows=size.rows,
        megabytes_on_disk=size.bytes / 1e6,
        connections=size.connections,
        worker_megabytes=resident_megabytes(running.pid),
        worker_files=open_files(running.pid),
        look_ms=look,
    )


def _told(samples: Sequence[Sample]) -> Figures:
    settled = samples[len(samples) // _WARM :]
    found: Figures = {"samples": len(samples)}
    for name in Sample._fields[2:]:
        values = [float(getattr(each, name)) for each in settled]
        mean = sum(values) / len(values)
        slope = slope_of([each.seconds for each in settled], values)
        found[name] = {
            "first": round(values[0], 1),
            "last": round(values[-1], 1),
            "percent_per_hour": round(100 * slope * 3600 / mean, 1) if mean else 0.0,
        }
    passed = settled[-1].seconds - settled[0].seconds
    found["ended_per_second"] = round((settled[-1].ended - settled[0].ended) / passed, 1) if passed else None
    return found


def slope_of(times: Sequence[float], values: Sequence[float]) -> float:
    """The slope of the straight line that lies nearest to *values*, per second."""
    number = len(times)
    middle, mean = sum(times) / number, sum(values) / number
    spread = sum((each - middle) ** 2 for each in times)
    together = sum((at - middle) * (value - mean) for at, value in zip(times, values, strict=True))
    return together / spread if spread else 0.0

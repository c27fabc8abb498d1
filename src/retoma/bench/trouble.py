"""Figures of bad days: a worker killed whole, and readers that hold old snapshots while jobs run."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import statistics
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

import psycopg

from retoma.bench import figures
from retoma.bench.machine import WorkerProcess, family, worker
from retoma.bench.program import app, nap

Figures = dict[str, Any]

_READERS = 4
_SNAPSHOT_SECONDS = 5.0  # how long a reader keeps one snapshot


async def whole_worker(jobs: int, *, rounds: int) -> Figures:
    """Seconds from kill -9 of a supervisor and its executors until another worker runs their jobs, default settings."""
    waits: list[float] = []
    for _ in range(rounds):
        waits += await _killed_whole(jobs)
    return {
        "jobs": jobs,
        "rounds": rounds,
        "lease_seconds": app.settings.lease_seconds,
        "median_seconds": round(statistics.median(waits), 2),
        "longest_seconds": round(max(waits), 2),
    }


async def _killed_whole(jobs: int) -> list[float]:
    ids = [receipt.id for receipt in await app.enqueue_many(nap, [600.0] * jobs)]
    with worker(app.database.url, at_once=jobs) as dying:
        await _all_run(ids, other_than=0)
        first = {(await app.jobs.get(id)).fence for id in ids}
        with worker(app.database.url, at_once=jobs):
            await _workers(2)
            since = (await app.fetch(figures.clock()))[0]
            kill_whole(dying)
            await _all_run(ids, other_than=max(first))
            waits = await app.fetch(figures.claimed_after(ids, since))
            for id in ids:
                await app.jobs.cancel(id)
            await _none_runs()
    return waits


async def _all_run(ids: Sequence[int], *, other_than: int) -> None:
    async with asyncio.timeout(300):
        while len(await app.fetch(figures.running_above(ids, other_than))) < len(ids):
            await asyncio.sleep(0.05)


async def _workers(number: int) -> None:
    async with asyncio.timeout(60):
        while len(await app.workers.all()) < number:
            await asyncio.sleep(0.05)


async def _none_runs() -> None:
    async with asyncio.timeout(60):
        while (await app.fetch(figures.counts()))[0].running:
            await asyncio.sleep(0.05)


def kill_whole(running: WorkerProcess) -> None:
    """End a supervisor and everything that it started, without a word."""
    for pid in family(running.pid):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)


async def held_open(measured: Callable[[], Awaitable[Figures]], again: Callable[[], Awaitable[None]]) -> Figures:
    """No-op jobs with a transaction that stays open from before the first job on and readers that keep snapshots for
    seconds, beside the same without them; *again* empties the database in between.
    """
    without = await measured()
    await again()
    async with _old_snapshots(app.database.url):
        beside = await measured()
    return {
        "readers": _READERS,
        "per_second": beside["per_second"],
        "per_second_without": without["per_second"],
        "ratio": round(beside["per_second"] / without["per_second"], 2),
    }


@asynccontextmanager
async def _old_snapshots(url: str) -> AsyncIterator[None]:
    async with await psycopg.AsyncConnection.connect(url) as holder:
        await holder.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        await holder.execute("select count(*) from retoma.workers")
        readers = [asyncio.create_task(_read(url)) for _ in range(_READERS)]
        try:
            yield
        finally:
            for each in readers:
                each.cancel()
            await asyncio.gather(*readers, return_exceptions=True)


async def _read(url: str) -> None:
    async with await psycopg.AsyncConnection.connect(url) as reader:
        await reader.set_isolation_level(psycopg.IsolationLevel.REPEATABLE_READ)
        while True:
            async with reader.transaction():
                for _ in range(int(_SNAPSHOT_SECONDS)):
                    await reader.execute("select id, state from retoma.jobs order by id desc limit 200")
                    await asyncio.sleep(1.0)

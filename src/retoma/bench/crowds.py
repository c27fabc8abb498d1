"""Figures among many: claims beside what cannot be served, commands on large batches, lists of long tables."""

from __future__ import annotations

import asyncio
import statistics
import time
from collections.abc import Awaitable, Callable
from typing import Any

from retoma.bench import figures
from retoma.bench.machine import worker
from retoma.bench.program import app, nap, noop
from retoma.model.ids import BatchId
from retoma.model.job import AttemptEnding, Ended
from retoma.postgres.database import Database
from retoma.store import jobs, workers
from retoma.store.query import Query
from retoma.worker.claimer import Claimer

Figures = dict[str, Any]
Act = Callable[[Query[Any]], Awaitable[None]]

_AT_A_TIME = 100


async def claims(number: int, act: Act, quiet: Callable[[], Awaitable[None]], *, closed: int, sleeping: int) -> Figures:
    """Jobs claimed and ended per second and one idle claim, alone and then beside *closed* paused batches and
    *sleeping* lanes in which every job sleeps.
    """
    found: Figures = {"jobs": number, "paused_batches": closed, "sleeping_lanes": sleeping}
    database = Database(app.database.url, app.settings, hot=True)
    await database.open()
    try:
        for name in ("alone", "beside_them"):
            if name == "beside_them":
                await act(figures.paused_batches(closed))
                await act(figures.sleeping_lanes(sleeping))
            await act(figures.preload(number))
            await quiet()
            found |= {f"{key}_{name}": value for key, value in (await _claimed(database, number)).items()}
    finally:
        await database.close()
    found["busy_ratio"] = round(found["per_second_beside_them"] / found["per_second_alone"], 2)
    return found


async def _claimed(database: Database, number: int) -> Figures:
    said = workers.hello(
        label="bench", host="-", pid=0, version="-", queues=[noop.queue], pipelines=[noop.name], at_once=1, lease=600
    )
    worker_id = (await database.all(said))[0]
    claiming = Claimer(database, app.settings, worker_id=worker_id, queues=[noop.queue], pipelines=[noop.name])
    began, done = time.perf_counter(), 0
    while done < number:
        rows = await claiming.claim(_AT_A_TIME)
        ended = [
            Ended(row, AttemptEnding.COMPLETED, output="null", seconds=0.0)
            for row in sorted(rows, key=lambda row: row.id)
        ]
        await database.all(jobs.end_alone(worker_id, ended))
        done += len(rows)
    busy = time.perf_counter() - began
    idle = []
    for _ in range(50):
        began = time.perf_counter()
        await claiming.claim(_AT_A_TIME)
        idle.append(1000 * (time.perf_counter() - began))
    return {"per_second": round(number / busy), "idle_claim_ms": round(statistics.median(idle), 2)}


async def commands(number: int) -> Figures:
    """Seconds until a command on a batch of *number* jobs is decided and until it is carried out, and how many jobs of
    another batch end per second meanwhile, beside how many end without it.
    """
    large = await app.batch(noop, range(number), name="large")
    await app.batches.pause(large.id)
    other = await app.batch(nap, [0.01] * 200_000, name="other")
    with worker(app.database.url, at_once=_AT_A_TIME):
        async with asyncio.timeout(60):
            while not (await app.batches.progress(other.id)).done:
                await asyncio.sleep(0.1)
        before = await _rate(other.id, 5.0)
        began = time.perf_counter()
        carrying = asyncio.create_task(app.batches.cancel(large.id))
        async with asyncio.timeout(120):
            while (await app.batches.get(large.id)).state != "cancelled":
                await asyncio.sleep(0.005)
        decided = time.perf_counter() - began
        meanwhile = await _rate(other.id, 5.0)
        await carrying
        async with asyncio.timeout(600):
            while (await app.batches.get(large.id)).operation_id is not None:
                await asyncio.sleep(0.1)
        done = time.perf_counter() - began
        if not (await app.batches.get(other.id)).state.ended:  # on a busy machine the command outlasts it
            await app.batches.cancel(other.id)
    return {
        "jobs": number,
        "decided_seconds": round(decided, 3),
        "carried_out_seconds": round(done, 1),
        "others_per_second_before": round(before),
        "others_per_second_meanwhile": round(meanwhile),
        "ratio": round(meanwhile / before, 2),
    }


async def _rate(id: BatchId, seconds: float) -> float:
    first, began = (await app.batches.progress(id)).done, time.perf_counter()
    await asyncio.sleep(seconds)
    return ((await app.batches.progress(id)).done - first) / (time.perf_counter() - began)


async def lists(number: int, act: Act, quiet: Callable[[], Awaitable[None]]) -> Figures:
    """Milliseconds of the lists that people look at, among *number* jobs that have ended."""
    for _ in range(max(1, number // 1_000_000)):
        await act(figures.history(min(number, 1_000_000)))
    await app.batch(noop, range(10_000), name="listed", key=str)
    await quiet()
    looks: dict[str, Callable[[], Awaitable[object]]] = {
        "newest": lambda: app.jobs.find(limit=50),
        "failed": lambda: app.jobs.find(state="failed", limit=50),
        "review": lambda: app.jobs.find(state="review", limit=50),
        "running": lambda: app.jobs.find(state="running", limit=50),
        "by_queue": lambda: app.jobs.find(queue="nowhere", limit=50),
        "by_pipeline": lambda: app.jobs.find(pipeline="nothing", limit=50),
        "by_key": lambda: app.jobs.find(key="7", limit=50),
        "queues": app.queues.all,
        "batches": app.batches.find,
    }
    found: Figures = {"jobs": number}
    for name, look in looks.items():
        times = []
        for _ in range(40):
            began = time.perf_counter()
            await look()
            times.append(1000 * (time.perf_counter() - began))
        times.sort()
        found[f"{name}_p95_ms"] = round(times[38], 1)
    return found

"""Our own figures, measured on this machine, as JSON; ratios to what plain SQL can do in the same run."""

from __future__ import annotations

import asyncio
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from importlib.metadata import version
from typing import Any

import psycopg

from retoma import Settings
from retoma.app.extension import branches_of
from retoma.bench import (
    asking,
    batches,
    books,
    crowds,
    figures,
    limit,
    local,
    pages,
    pipelines,
    quote_desk,
    quote_pages,
    quotes,
    searching,
    soak,
    streams,
    telemetry,
    trouble,
    uploads,
)
from retoma.bench.machine import WorkerProcess, server_cpu, worker
from retoma.bench.program import STEPS, app, clock, nap, noop, steps
from retoma.pipelines import ALL
from retoma.postgres import migrate
from retoma.postgres.prepare import reach
from retoma.store import workers

Figures = dict[str, Any]

_ONLY_WHEN_NAMED = frozenset({"soak", "lists_of_ten_million", "quotes_through_kills"})  # they take long, or much room
_RESTING = 0.1  # processor seconds in one second, at most, of a worker that has started and has nothing to do


async def bulk_enqueue(jobs: int) -> Figures:
    """Jobs queued per second, many at a time."""
    began = time.perf_counter()
    await app.enqueue_many(noop, range(jobs))
    return {"jobs": jobs, "per_second": round(jobs / (time.perf_counter() - began))}


async def single_enqueue(jobs: int) -> Figures:
    """Jobs queued per second, each awaited before the next."""
    await app.enqueue(noop, 0)
    began = time.perf_counter()
    for number in range(jobs):
        await app.enqueue(noop, number)
    return {"jobs": jobs, "per_second": round(jobs / (time.perf_counter() - began))}


async def _until(done: Callable[[figures.Counts], bool], *, limit: float = 300.0, every: float = 0.05) -> None:
    async with asyncio.timeout(limit):
        while not done((await app.fetch(figures.counts()))[0]):
            await asyncio.sleep(every)


@asynccontextmanager
async def _working(processes: int = 1, environment: Mapping[str, str] | None = None) -> AsyncIterator[WorkerProcess]:
    """A worker that has started and found nothing to do when the block begins; that far its work does not count."""
    await app.queues.pause(noop.queue)
    with worker(app.database.url, processes=processes, environment=environment) as running:
        async with asyncio.timeout(60):
            while len(await app.workers.all()) < processes:
                await asyncio.sleep(0.05)
            while running.count() > _RESTING:
                await asyncio.sleep(1.0)
        await app.queues.resume(noop.queue)
        yield running


async def noop_jobs(
    jobs: int,
    *,
    processes: int = 1,
    waiting: int = 0,
    batch: bool = False,
    environment: Mapping[str, str] | None = None,
) -> Figures:
    """Jobs that do nothing, from the first claim to the last ending; *waiting* more are in the queue."""
    began, (room, wal_before) = time.perf_counter(), await _used()
    if batch:
        await app.batch(noop, range(jobs), name="noop")
    else:
        await _act(figures.preload(jobs + waiting))
    loaded = time.perf_counter()
    await _quiet()
    quiet = time.perf_counter()
    async with await psycopg.AsyncConnection.connect(app.database.url) as connection:
        backend = connection.info.backend_pid
        before, wal = server_cpu(backend), (await app.fetch(figures.written()))[0]
        async with _working(processes, environment) as running:
            # The rows say when the last job ended. To look counts them all, which takes a core if it is done often.
            await _until(lambda now: now.completed >= jobs, every=1.0)
        after, wal_after = server_cpu(backend), (await app.fetch(figures.written()))[0]
    pace = (await app.fetch(figures.pace()))[0]
    room_after, wal_last = await _used()
    found = {
        "jobs": pace.jobs,
        "waiting": waiting,
        "disk_bytes_per_job": round((room_after - room) / (jobs + waiting)),
        "wal_bytes_per_job_with_its_enqueue": round((wal_last - wal_before) / (jobs + waiting)),
        "load_seconds": round(loaded - began, 1),
        "vacuum_seconds": round(quiet - loaded, 1),
        "executors": processes,
        "per_second": round(pace.jobs / (pace.seconds or 1)),
        "worker_cpu_ms_per_job": round(1000 * running.cpu_seconds / pace.jobs, 4),
        "wal_bytes_per_job": round((wal_after - wal) / pace.jobs),
        "peak_megabytes_of_one_process": round(running.peak_megabytes),
    }
    if before is not None and after is not None:
        found["server_cpu_ms_per_job"] = round(1000 * (after - before) / pace.jobs, 4)
    return found


async def _used() -> tuple[float, float]:
    """Bytes on the disk, and of write-ahead log so far."""
    return (await app.fetch(figures.room()))[0], (await app.fetch(figures.written()))[0]


async def pickup(jobs: int) -> Figures:
    """Milliseconds from the enqueue's return to the handler's first line, with an idle worker."""
    with worker(app.database.url, at_once=10):
        warm = await app.enqueue(clock, 0)
        await app.jobs.wait(warm.id, timeout=60)
        waits = []
        for number in range(jobs):
            await asyncio.sleep(0.05)
            queued = await app.enqueue(clock, number)
            at = time.monotonic()
            await app.jobs.wait(queued.id, timeout=30, every=0.02)
            waits.append(1000 * (await app.jobs.output(clock, queued.id) - at))
    waits.sort()
    return {
        "jobs": jobs,
        "p50_ms": round(statistics.median(waits), 2),
        "p99_ms": round(waits[min(jobs - 1, int(jobs * 0.99))], 2),
    }


async def durable_steps(jobs: int) -> Figures:
    """Steps saved per second, jobs of ten steps, a hundred at once."""
    await app.enqueue_many(steps, range(jobs))
    async with _working() as running:
        await _until(lambda now: now.completed >= jobs)
    pace = (await app.fetch(figures.pace()))[0]
    return {
        "jobs": jobs,
        "steps_per_second": round(STEPS * pace.jobs / (pace.seconds or 1)),
        "worker_cpu_ms_per_step": round(1000 * running.cpu_seconds / pace.jobs / STEPS, 4),
    }


async def recovery(jobs: int) -> Figures:
    """Seconds from kill -9 of an executor until its jobs can be claimed again, its supervisor alive."""
    await app.enqueue_many(nap, [600.0] * jobs)
    with worker(app.database.url, at_once=jobs):
        await _until(lambda now: now.running >= jobs)
        await asyncio.sleep(0.5)
        alive = await app.fetch(workers.all())
        since = (await app.fetch(figures.clock()))[0]
        _kill(alive[0].pid)
        async with asyncio.timeout(60):
            while (again := (await app.fetch(figures.given_back(since)))[0]).jobs < jobs:
                await asyncio.sleep(0.05)
        for job in await app.jobs.find(state="running", limit=jobs):
            await app.jobs.cancel(job.id)
        await _until(lambda now: now.running == 0)
    return {
        "jobs": jobs,
        "first_seconds": round(again.first_seconds or 0, 3),
        "last_seconds": round(again.last_seconds or 0, 3),
    }


async def heartbeat(jobs: int) -> Figures:
    """Milliseconds of one heartbeat for an executor that holds *jobs* jobs."""
    said = workers.hello(label="bench", host="-", pid=0, version="-", queues=[], pipelines=[], at_once=jobs, lease=60)
    worker_id = (await app.fetch(said))[0]
    await _act(figures.preload(jobs))
    await _act(figures.take_all(worker_id))
    beats = 50
    began = time.perf_counter()
    for _ in range(beats):
        await app.fetch(workers.heartbeat([workers.Pulse(worker_id)]))
        await app.fetch(workers.called_off([worker_id]))
    return {"jobs_held": jobs, "ms_per_beat": round(1000 * (time.perf_counter() - began) / beats, 2), "statements": 2}


def _clear() -> None:
    branches = branches_of(ALL)
    for branch in reversed(branches):
        migrate.downgrade(app.database.url, app.settings, to="base", branch=branch)
    migrate.upgrade(app.database.url, app.settings, branches=branches)


def _kill(pid: int) -> None:
    import signal  # noqa: PLC0415

    os.kill(pid, signal.SIGKILL)


async def _act(query: Any) -> None:
    async with app.database.connection() as connection:
        await connection.execute("set statement_timeout = 0")
        await connection.execute(query.sql, query.params)


async def _quiet() -> None:
    async with app.database.connection() as connection:
        await connection.execute("set statement_timeout = 0")
        await connection.execute("vacuum analyze retoma.jobs")
        await connection.execute("checkpoint")


Plan = dict[str, Callable[[], Awaitable[Figures]]]


def plan(*, quick: bool, waiting: int | None = None, number: int | None = None) -> Plan:
    """The measurements, in order; *quick* is a tenth of the work. *waiting* jobs lie behind those of the deep queue,
    and so many quotes go through kills as *number* says.
    """
    part = 10 if quick else 1
    return {**_of_the_engine(part, quick=quick, waiting=waiting), **_of_the_products(part, number)}


def _of_the_engine(part: int, *, quick: bool, waiting: int | None) -> Plan:
    deep = 1_000_000 // part
    return {
        "limit_noop_jobs": lambda: limit.noop_jobs(20_000 // part),
        "limit_steps": lambda: limit.steps(5_000 // part),
        "bulk_enqueue": lambda: bulk_enqueue(20_000 // part),
        "single_enqueue": lambda: single_enqueue(2_000 // part),
        "noop_jobs": lambda: noop_jobs(20_000 // part),
        "noop_jobs_two_executors": lambda: noop_jobs(20_000 // part, processes=2),
        "telemetry_overhead": lambda: telemetry.overhead(3 if quick else 8, jobs=4_000 if quick else 20_000, act=_act),
        "pickup": lambda: pickup(200 // part),
        "durable_steps": lambda: durable_steps(1_000 // part),
        "recovery": lambda: recovery(10),
        "whole_worker_recovery": lambda: trouble.whole_worker(10, rounds=2 if quick else 7),
        "noop_jobs_beside_old_snapshots": lambda: trouble.held_open(
            lambda: noop_jobs(100_000 // part), lambda: asyncio.to_thread(_clear)
        ),
        "noop_jobs_deep": lambda: noop_jobs(20_000 // part, waiting=deep if waiting is None else waiting),
        "claims_beside_what_cannot_be_served": lambda: crowds.claims(
            20_000 // part, _act, _quiet, closed=1_000, sleeping=20_000
        ),
        "command_on_a_large_batch": lambda: crowds.commands(1_000_000 // part),
        "lists": lambda: crowds.lists(deep, _act, _quiet),
        "lists_of_ten_million": lambda: crowds.lists(10 * deep, _act, _quiet),
        "soak": lambda: soak.soak(3 if quick else 30),
        "heartbeat": lambda: heartbeat(10_000),
        "noop_jobs_of_a_batch": lambda: noop_jobs(20_000 // part, batch=True),
        "batch_created": lambda: batches.created(100_000 // part),
        "batch_progress": lambda: batches.progress(10_000, _act, _quiet, history=deep),
        "batch_resumed": lambda: batches.resumed(100_000 // part, _act),
        "pages": lambda: pages.pages(deep if waiting is None else waiting, _act, _quiet),
        "streams": lambda: streams.followed(300, 1_000 // part),
        "permits": lambda: asking.permits(20_000 // part),
        "ask": lambda: asking.asked(1_000 // part, at_once=1),
        "ask_many_at_once": lambda: asking.asked(5_000 // part, at_once=50),
    }


def _of_the_products(part: int, number: int | None) -> Plan:
    return {
        "extraction": lambda: local.extraction(200 // part),
        "embedding": lambda: local.embedding(10 // part),
        "classification": lambda: local.classification(10 // part),
        "uploads": lambda: uploads.uploads(2_000 // part, busy=False),
        "uploads_two_processes": lambda: uploads.uploads(2_000 // part, busy=False, processes=2),
        "uploads_while_busy": lambda: uploads.uploads(2_000 // part, busy=True, processes=2),
        "uploads_at_once": lambda: uploads.bursts(20 // part, busy=False, processes=2),
        "uploads_at_once_while_busy": lambda: uploads.bursts(20 // part, busy=True, processes=2),
        "uploads_at_once_to_one_process_while_busy": lambda: uploads.bursts(20 // part, busy=True),
        "uploads_paced_while_busy": lambda: uploads.uploads(1_000 // part, busy=True, pace=100, processes=2),
        "documents": lambda: pipelines.documents(200 // part),
        "classified_documents": lambda: pipelines.classified(200 // part),
        "search": lambda: searching.by_index(100_000 // part, asked=200 // part),
        "search_one_by_one": lambda: searching.one_by_one(10_000 // part, asked=50 // part),
        "quotes_through_kills": lambda: quotes.through_kills(10_000 // part if number is None else number),
        "quote_statistics": lambda: quote_desk.statistics_among(1_000_000 // part, _act, asked=200),
        "pages_parsed": lambda: quote_pages.pages_parsed(10 // part, pictures=20 // part),
        "book_words": lambda: books.words(100 // part, words=1_500),
        "book_resume": lambda: books.resumed(100, words=1_500 // part),
        "books_at_once": lambda: books.at_once(100 // part, chapters=10, words=500),
    }


async def measure(names: list[str], *, quick: bool, waiting: int | None = None, number: int | None = None) -> Figures:
    """Run the measurements called *names* (all, when none are) in a database that is emptied for each."""
    found: Figures = {"retoma": version("retoma"), "python": platform.python_version()}
    async with app:
        async with app.database.connection() as connection:
            found["postgresql"] = connection.info.server_version
        for name, measurement in plan(quick=quick, waiting=waiting, number=number).items():
            if name not in names if names else name in _ONLY_WHEN_NAMED:
                continue
            await asyncio.to_thread(_clear)
            sys.stderr.write(f"{name} … ")
            sys.stderr.flush()
            busy = round(os.getloadavg()[0], 1)
            found[name] = {**await measurement(), "load_average_before": busy}
            sys.stderr.write(f"{found[name]}\n")
    return found


def main(
    *, only: tuple[str, ...] = (), quick: bool = False, waiting: int | None = None, quotes: int | None = None
) -> None:
    """Measure in a database of our own, and print JSON on standard output."""
    settings = Settings.load()
    url, server = reach(settings)
    if server is not None:
        url = server.superuser_url  # a database is made and dropped, and the server is told to write a checkpoint
    name = f"{url.rpartition('/')[0]}/retoma_bench"
    try:
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop database if exists retoma_bench with (force)")
            connection.execute("create database retoma_bench")
        migrate.upgrade(name, settings, branches=branches_of(ALL))
        app.registry.settings = settings.model_copy(update={"database_url": name})
        found = asyncio.run(measure(list(only), quick=quick, waiting=waiting, number=quotes))
        with psycopg.connect(url, autocommit=True) as connection:
            connection.execute("drop database if exists retoma_bench with (force)")
    finally:
        if server is not None:
            server.release()
    sys.stdout.write(json.dumps(found, indent=2) + "\n")

"""Runs every ready job in this process until none is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import socket
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from importlib.metadata import version

from retoma.app.retoma import Retoma
from retoma.commands import schedules as schedule_commands
from retoma.errors import ConfigurationError
from retoma.model.job import AttemptEnding
from retoma.postgres.connections import run_on
from retoma.postgres.database import Database
from retoma.postgres.faults import UNAVAILABLE
from retoma.store import jobs, workers
from retoma.store.workers import Pulse
from retoma.worker.executor import Executor
from retoma.worker.status_board import StatusBoard


async def drain(app: Retoma, *, at_once: int | None = None, queues: Sequence[str] | None = None) -> int:
    """Run every ready job in this process until none is left; returns how many jobs ended.

    First it does the duties of a worker: jobs of silent workers are recovered, late ones expire, schedules fire.
    """
    async with app:
        while await app.jobs.recover():
            pass
        while await app.fetch(jobs.expire()):
            pass
        async with app.database.connection() as connection:
            await run_on(connection, schedule_commands.fire())
        async with an_executor(app, at_once or app.settings.worker_at_once, queues) as executor:
            await executor.drain()
            return executor.totals.completed + executor.totals.failed


@asynccontextmanager
async def an_executor(app: Retoma, at_once: int, queues: Sequence[str] | None) -> AsyncIterator[Executor]:
    """An executor in this process, with its own row among the workers and a heartbeat."""
    registry = app.registry
    if not registry.own:
        raise ConfigurationError("This app has no pipelines to work on.", next="Pass pipelines=[…] to Retoma.")
    names = list(queues or registry.queues)
    hello = workers.hello(
        label=app.settings.worker_label,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("retoma"),
        queues=names,
        pipelines=sorted(registry.pipelines),
        at_once=at_once,
        lease=app.settings.lease_seconds,
    )
    # Its own pool, created as a worker creates it, so that a test gets the same plans as production.
    database = Database(app.database.url, app.settings, hot=True, most=6)
    await database.open()
    worker_id = (await app.fetch(hello))[0]
    board = StatusBoard.new(at_once)
    executor = Executor(
        database=database,
        transactions=app.database,
        settings=app.settings,
        pipelines=registry.pipelines,
        providers=registry.provided,
        queues=names,
        worker_id=worker_id,
        board=board,
    )
    beating = asyncio.create_task(_beat_for(app, executor))
    try:
        yield executor
    finally:
        executor.stop(now=True)
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        await executor.journal.settled()
        executor.journal.close()
        with contextlib.suppress(*UNAVAILABLE):
            await _beat(app, executor)
        await app.database.persist(jobs.bury(worker_id, [], reason="stopped", error="The test was over."))
        await database.close()
        board.close()


async def _beat_for(app: Retoma, executor: Executor) -> None:
    while True:
        with contextlib.suppress(*UNAVAILABLE):
            if not await _beat(app, executor):
                executor.stop(now=True)
            believed = [(note.job, executor.worker_id, note.fence) for note in executor.board.notes()]
            for job, _, fence, why in await app.fetch(workers.called_off([executor.worker_id], believed)):
                executor.call_off(job, fence, AttemptEnding(why))
        await asyncio.sleep(app.settings.heartbeat_seconds)


async def _beat(app: Retoma, executor: Executor) -> bool:
    totals = executor.totals
    at = time.monotonic()
    pulse = Pulse(
        id=executor.worker_id,
        pid=os.getpid(),
        claimed=totals.claimed,
        completed=totals.completed,
        failed=totals.failed,
        retried=totals.retried,
        busy=totals.busy,
    )
    alive = bool(await app.fetch(workers.heartbeat([pulse])))
    if alive:
        executor.board.beat = at
    return alive

"""Work here while a command waits: where no worker serves a pipeline, the command is the worker."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, TypeVar

from retoma.cli import output
from retoma.system.concurrency import cancel_and_wait

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.run.pipeline import Pipeline

T = TypeVar("T")

_LOOK_SECONDS = 2.0  # between two looks whether a worker is still there
_MOST_PROCESSES = 2


def hush() -> None:
    """Before the program is loaded: keep the log lines of a worker out of what a person looks at."""
    os.environ.setdefault("RETOMA_LOG_LEVEL", "error")


async def served(app: Retoma, pipeline: Pipeline[Any, Any]) -> bool:
    """Whether a worker is there that knows *pipeline*."""
    return any(each.alive and pipeline.name in each.pipelines for each in await app.workers.all())


async def ended(
    app: Retoma,
    waiting: Coroutine[Any, Any, T],
    pipeline: Pipeline[Any, Any],
    *,
    reference: str,
    explains: bool = False,
) -> T | None:
    """What *waiting* gives. While no worker serves *pipeline*, one works here; None when it was asked to stop.
    *explains*: what waits says by itself why nothing moves.
    """
    following = asyncio.create_task(waiting)
    wondering = asyncio.create_task(asyncio.sleep(0) if explains else _say_when_paused(app, pipeline.queue))
    try:
        while not following.done():
            if await served(app, pipeline):
                await asyncio.wait({following}, timeout=_LOOK_SECONDS)
            elif not await _work_until(app, following, pipeline, reference):
                return None
        return following.result()
    finally:
        await cancel_and_wait(following, wondering)


async def _say_when_paused(app: Retoma, queue: str) -> None:
    """Nothing begins in a paused queue, and whoever waits for it is told so."""
    told = False
    while True:
        paused = any(each.name == queue and each.paused_at for each in await app.queues.all())
        if paused and not told:
            output.talk("Queue {name} is paused; 'retoma queue resume {name}' lets it go on.", name=queue)
        told = paused
        await asyncio.sleep(_LOOK_SECONDS)


async def _work_until(app: Retoma, following: asyncio.Task[Any], pipeline: Pipeline[Any, Any], reference: str) -> bool:
    """Whether *following* ended; else the worker was asked to stop before it."""
    processes = max(app.settings.worker_processes, min(_MOST_PROCESSES, os.cpu_count() or 1))
    worker = app.worker(queues=[pipeline.queue], processes=processes, reference=reference)
    working = asyncio.create_task(worker.run())
    try:
        await asyncio.wait({working, following}, return_when=asyncio.FIRST_COMPLETED)
    finally:
        worker.stop()
        await asyncio.gather(working, return_exceptions=True)
    if not following.done():
        working.result()  # if it ended for another reason than being asked, that is raised
    return following.done()

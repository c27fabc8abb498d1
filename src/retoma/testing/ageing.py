"""Lets time pass for a job, by moving its times into the past."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from typing import TypeVar

from retoma import sync
from retoma.app.retoma import Retoma
from retoma.errors import Conflict, NotFound
from retoma.model.job import Job, Receipt
from retoma.postgres.connections import run_on
from retoma.store import ageing
from retoma.store.query import Command, Query

T = TypeVar("T")

_LOOKS = 40
_PAUSE = 0.05
"""The sessions of a worker that was just killed stay visible for a moment."""


async def age(
    where: Retoma | sync.Retoma | object,
    job: int | Job | Receipt | None = None,
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
) -> None:
    """Let time pass for one job, or for all: its times are moved into the past, and no clock is changed.

    *where* is an app or a connection. The worker of a running job becomes silent for as long. A live worker would lose
    its job, so while one holds it, `Conflict` is raised and nothing is changed.
    """
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    id = job if isinstance(job, int) or job is None else job.id
    await _refuse_living(where, id)
    aged = await _ask(where, ageing.age(id, span.total_seconds()))
    if id is not None and not aged:
        raise NotFound(f"There is no job {id}.", next="Enqueue it first; it may have been pruned.")


async def _refuse_living(where: object, id: int | None) -> None:
    for _ in range(_LOOKS):
        held = await _ask(where, ageing.held(id))
        if not held:
            return
        await asyncio.sleep(_PAUSE)
    raise Conflict(
        f"Job {held[0].job_id} is in the hands of a worker that is alive (process {held[0].pid} on {held[0].host}).",
        next="Stop that worker, or give the test a database of its own.",
    )


async def _ask(where: object, query: Query[T]) -> list[T]:
    if isinstance(where, Retoma):
        return await where.fetch(query)
    if isinstance(where, sync.Retoma):
        return where.fetch(query)
    return await run_on(where, _just(query))


def _just(query: Query[T]) -> Command[list[T]]:
    rows: list[T] = yield query
    return rows

"""Time passes for a job: its past is moved further back."""

from __future__ import annotations

from datetime import timedelta
from typing import TypeVar

from retoma import sync
from retoma.app import Retoma
from retoma.commands import Command
from retoma.errors import NotFound
from retoma.join import run_on
from retoma.model import Job, Receipt
from retoma.query import Query
from retoma.store import ageing

T = TypeVar("T")


async def age(
    where: Retoma | sync.Retoma | object,
    job: int | Job | Receipt | None = None,
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
) -> None:
    """Let time pass for one job, or for all: its past is moved further back, and no clock is touched.

    *where* is an app or a connection. The worker of a running job has then been silent for as long.
    """
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    id = job if isinstance(job, int) or job is None else job.id
    query = ageing.age(id, span.total_seconds())
    if isinstance(where, Retoma):
        aged = await where.fetch(query)
    elif isinstance(where, sync.Retoma):
        aged = where.fetch(query)
    else:
        aged = await run_on(where, _just(query))
    if id is not None and not aged:
        raise NotFound(f"There is no job {id}.", next="It may have been pruned.")


def _just(query: Query[T]) -> Command[list[T]]:
    rows: list[T] = yield query
    return rows

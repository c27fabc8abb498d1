"""What the measurements ask of the tables, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple
from uuid import UUID

from retoma.store.query import Query, load

SQL = load("retoma.bench.queries", "figures.sql")


class Pace(NamedTuple):
    """So many jobs in so many seconds."""

    jobs: int
    seconds: float | None


class Again(NamedTuple):
    """Jobs that were given back, and how long after the kill."""

    jobs: int
    first_seconds: float | None
    last_seconds: float | None


class Counts(NamedTuple):
    """How many jobs are done, and how many run."""

    completed: int
    running: int


class Size(NamedTuple):
    """How much there is, and who is connected."""

    ended: int
    waiting: int
    rows: int
    bytes: int
    connections: int


class Ended(NamedTuple):
    """Jobs that ended after a moment, and how long after it the last did."""

    jobs: int
    not_completed: int
    seconds: float | None


def _when(now: datetime) -> datetime:
    return now


def _row(*columns: object) -> tuple[object, ...]:
    return columns


def preload(jobs: int, *, queue: str = "bench-noop") -> Query[tuple[object, ...]]:
    return Query(SQL["preload"], _row, {"jobs": jobs, "queue": queue})


def emptied() -> Query[tuple[object, ...]]:
    return Query(SQL["emptied"], _row)


def settled() -> Query[tuple[object, ...]]:
    return Query(SQL["settled"], _row)


def newest() -> Query[int]:
    return Query(SQL["newest"], int)


def over(id: int) -> Query[bool]:
    return Query(SQL["over"], bool, {"id": id})


def left() -> Query[int]:
    return Query(SQL["left"], int)


def paused_batches(number: int) -> Query[tuple[object, ...]]:
    return Query(SQL["paused_batches"], _row, {"number": number})


def sleeping_lanes(number: int) -> Query[tuple[object, ...]]:
    return Query(SQL["sleeping_lanes"], _row, {"number": number})


def pace() -> Query[Pace]:
    return Query(SQL["pace"], Pace)


def given_back(since: datetime) -> Query[Again]:
    return Query(SQL["given_back"], Again, {"since": since})


def clock() -> Query[datetime]:
    return Query(SQL["clock"], _when)


def counts() -> Query[Counts]:
    return Query(SQL["counts"], Counts)


def written() -> Query[float]:
    return Query(SQL["written"], float)


def room() -> Query[float]:
    return Query(SQL["room"], float)


def take_all(worker_id: int) -> Query[tuple[object, ...]]:
    return Query(SQL["take_all"], _row, {"worker_id": worker_id})


def raw_claim(limit: int) -> Query[tuple[object, ...]]:
    return Query(SQL["raw_claim"], _row, {"limit": limit})


def raw_end(ids: Sequence[int]) -> Query[tuple[object, ...]]:
    return Query(SQL["raw_end"], _row, {"ids": list(ids)})


def raw_step(job_id: int, step: str) -> Query[tuple[object, ...]]:
    return Query(SQL["raw_step"], _row, {"job_id": job_id, "step": step})


def history(jobs: int) -> Query[tuple[object, ...]]:
    return Query(SQL["history"], _row, {"jobs": jobs})


def half_done(id: int) -> Query[tuple[object, ...]]:
    return Query(SQL["half_done"], _row, {"id": id})


def all_failed(id: int) -> Query[tuple[object, ...]]:
    return Query(SQL["all_failed"], _row, {"id": id})


def counted_failed(id: int) -> Query[tuple[object, ...]]:
    return Query(SQL["counted_failed"], _row, {"id": id})


def running_above(ids: Sequence[int], fence: int) -> Query[int]:
    return Query(SQL["running_above"], int, {"ids": list(ids), "fence": fence})


def claimed_after(ids: Sequence[int], since: datetime) -> Query[float]:
    return Query(SQL["claimed_after"], float, {"ids": list(ids), "since": since})


def size() -> Query[Size]:
    return Query(SQL["size"], Size)


def ended_since(since: datetime) -> Query[Ended]:
    return Query(SQL["ended_since"], Ended, {"since": since})


def pages_since(since: datetime) -> Query[int]:
    return Query(SQL["pages_since"], int, {"since": since})


def shelve(ids: Sequence[UUID]) -> Query[tuple[object, ...]]:
    return Query(SQL["shelve"], _row, {"ids": list(ids)})


def index_bytes(index: str) -> Query[int]:
    return Query(SQL["index_bytes"], int, {"index": index})


def index_definition(index: str) -> Query[str]:
    return Query(SQL["index_definition"], str, {"index": index})

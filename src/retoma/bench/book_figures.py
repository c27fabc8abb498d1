"""What the measurements of books ask of the tables, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from retoma.store.query import Query, load

SQL = load("retoma.bench.queries", "book_figures.sql")


class Made(NamedTuple):
    """What became of the chapters of some books."""

    chapters: int
    saved: int
    passed: int
    saved_again: int
    words: int


def _when(at: datetime) -> datetime:
    return at


def claimed_at(job_id: int) -> Query[datetime]:
    return Query(SQL["claimed_at"], _when, {"job_id": job_id})


def made(sessions: Sequence[str]) -> Query[Made]:
    return Query(SQL["made"], Made, {"sessions": list(sessions)})

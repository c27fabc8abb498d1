"""Queries for tests: move rows into the past, and count how much work is done."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime

from retoma.model.validation import HOUSE_QUEUE
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "ageing.sql")


@dataclass(frozen=True, slots=True)
class Tally:
    """Ended jobs, saved checkpoints, and unfinished jobs."""

    ended: int
    saved: int
    left: int


@dataclass(frozen=True, slots=True)
class Holding:
    """A job and the live worker that holds it."""

    job_id: int
    worker_id: int
    host: str
    pid: int


@dataclass(frozen=True, slots=True)
class Statement:
    """A statement that a session runs, and since when."""

    pid: int
    since: datetime


def age(job_id: int | None, seconds: float) -> Query[int]:
    """Without *job_id*, every job."""
    return Query(SQL["age"], int, {"job_id": job_id, "seconds": seconds})


def held(job_id: int | None) -> Query[Holding]:
    """Without *job_id*, the first of all jobs."""
    return Query(SQL["held"], Holding, {"job_id": job_id})


def tally() -> Query[Tally]:
    return Query(SQL["tally"], Tally, {"house": HOUSE_QUEUE})


def statements() -> Query[Statement]:
    return Query(SQL["statements"], Statement)

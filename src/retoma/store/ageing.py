"""How tests let time pass, and see how far the work has come, as queries."""

from __future__ import annotations

from dataclasses import dataclass

from retoma.query import Query, load

SQL = load("retoma.store.queries", "ageing.sql")


@dataclass(frozen=True, slots=True)
class Tally:
    """Jobs that have ended, checkpoints that were saved, jobs that are left."""

    ended: int
    saved: int
    left: int


def age(job_id: int | None, seconds: float) -> Query[int]:
    """Without *job_id*, every job."""
    return Query(SQL["age"], int, {"job_id": job_id, "seconds": seconds})


def tally() -> Query[Tally]:
    return Query(SQL["tally"], Tally)

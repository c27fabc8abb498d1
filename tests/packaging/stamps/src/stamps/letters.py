"""Letters, as queries."""

from __future__ import annotations

from dataclasses import dataclass

from retoma.store.query import Query, load

SQL = load("stamps.queries", "letters.sql")


@dataclass(frozen=True, slots=True)
class Letter:
    """A letter and its number."""

    number: int
    text: str


def put(job_id: int, text: str) -> Query[int]:
    return Query(SQL["put"], int, {"job_id": job_id, "text": text})


def all_of_them() -> Query[Letter]:
    return Query(SQL["all_of_them"], Letter)

"""Queries about attempts: how each claim of a job ended."""

from __future__ import annotations

from retoma.model.job import Attempt
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "attempts.sql")


def of(job_id: int) -> Query[Attempt]:
    return Query(SQL["of"], Attempt, {"job_id": job_id})

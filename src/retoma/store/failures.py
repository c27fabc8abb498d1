"""Queries about failures over all batches."""

from __future__ import annotations

from retoma.model.failure import FailureGroup
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "failures.sql")

_MOST_GROUPS = 2000
_MOST_JOBS = 20_000


def groups(*, hours: float, pipeline: str | None = None, limit: int = 100) -> Query[FailureGroup]:
    params = {"hours": hours, "pipeline": pipeline, "limit": limit}
    return Query(SQL["groups"], FailureGroup, {**params, "groups": _MOST_GROUPS, "most": _MOST_JOBS})

"""Executions, as queries."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.pipelines.classification.model import Execution
from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.classification.queries", "executions.sql")


def _id(id: int, *_: object) -> int:
    return id


def create(batch_id: int, project_id: int, settings_hash: str) -> Query[int]:
    params = {"batch_id": batch_id, "project_id": project_id, "settings_hash": settings_hash}
    return Query(SQL["create"], _id, params)


def page(
    *,
    id: int | None = None,
    project_id: int | None = None,
    states: Sequence[str] | None = None,
    archived: bool = False,
    before: int | None = None,
    limit: int = 100,
) -> Query[Execution]:
    params = {
        "id": id,
        "project_id": project_id,
        "states": None if states is None else array(states),
        "archived": archived,
        "before": before,
        "limit": limit,
    }
    return Query(SQL["page"], Execution, params)


def archive(id: int) -> Query[int]:
    return Query(SQL["archive"], _id, {"id": id})


def unfinished(project_id: int, settings_hash: str) -> Query[int]:
    return Query(SQL["unfinished"], _id, {"project_id": project_id, "settings_hash": settings_hash})


def replanned(id: int, settings_hash: str) -> Query[int]:
    return Query(SQL["replanned"], _id, {"id": id, "settings_hash": settings_hash})


def mixed(id: int) -> Query[bool]:
    return Query(SQL["mixed"], bool, {"id": id})


def project_of(batch_id: int) -> Query[int]:
    return Query(SQL["project_of"], _id, {"batch_id": batch_id})

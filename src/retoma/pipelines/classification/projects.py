"""Projects, as queries."""

from __future__ import annotations

from typing import Any

from retoma.pipelines.classification.model import Project
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.classification.queries", "projects.sql")

FIELDS = (
    "name",
    "description",
    "prompt_id",
    "model",
    "mode",
    "position",
    "chunk_tokens",
    "at_once",
    "max_resumes",
    "max_retries",
)
"""What can be said of a project."""


def _id(id: int, *_: object) -> int:
    return id


def create(given: dict[str, Any]) -> Query[int]:
    """*given* holds all FIELDS."""
    return Query(SQL["create"], _id, {name: given[name] for name in FIELDS})


def change(id: int, given: dict[str, Any]) -> Query[int]:
    """*given* holds some FIELDS; what is missing stays as it was."""
    return Query(SQL["change"], _id, {"id": id, **{name: given.get(name) for name in FIELDS}})


def one(id: int) -> Query[Project]:
    return Query(SQL["one"], Project, {"id": id})


def page(
    *, name: str | None = None, search: str | None = None, before: int | None = None, limit: int = 200
) -> Query[Project]:
    return Query(SQL["page"], Project, {"name": name, "search": search, "before": before, "limit": limit})


def archive(id: int) -> Query[int]:
    return Query(SQL["archive"], _id, {"id": id})


def hold(id: int) -> Query[int]:
    return Query(SQL["hold"], _id, {"id": id})

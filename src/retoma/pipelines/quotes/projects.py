"""Projects and their configurations, as queries."""

from __future__ import annotations

from retoma.pipelines.quotes.model import Project, Version
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.quotes.queries", "projects.sql")


def create(name: str) -> Query[int]:
    return Query(SQL["create"], int, {"name": name})


def page(*, id: int | None = None, name: str | None = None, limit: int = 200) -> Query[Project]:
    return Query(SQL["page"], Project, {"id": id, "name": name, "limit": limit})


def hold(id: int) -> Query[int]:
    return Query(SQL["hold"], int, {"id": id})


def configure(project_id: int, terms: str, *, by: str) -> Query[int]:
    return Query(SQL["configure"], int, {"project_id": project_id, "terms": terms, "by": by})


def versions(project_id: int, *, id: int | None = None) -> Query[Version]:
    return Query(SQL["versions"], Version, {"project_id": project_id, "id": id})

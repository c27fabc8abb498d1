"""Queries about saved views: the query of a page under a name."""

from __future__ import annotations

from retoma.model.view import View
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "views.sql")


def seen_by(owner: str, *, page: str | None = None) -> Query[View]:
    return Query(SQL["seen_by"], View, {"owner": owner, "page": page})


def keep(name: str, *, page: str, query: str, owner: str, shared: bool) -> Query[View]:
    return Query(SQL["keep"], View, {"name": name, "page": page, "query": query, "owner": owner, "shared": shared})


def remove(id: int, *, owner: str | None) -> Query[View]:
    return Query(SQL["remove"], View, {"id": id, "owner": owner})

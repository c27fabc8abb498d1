"""How a book stands, for the audit, as a query."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from retoma.store.query import Query, load

SQL = load("retoma.pipelines.books.queries", "standing.sql")


def book(id: str) -> Query[str]:
    return Query(SQL["book"], str, {"id": id})


KINDS: Mapping[str, Callable[[str], Query[str]]] = {"book": book}

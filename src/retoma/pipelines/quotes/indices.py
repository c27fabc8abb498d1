"""The tables of price indices, as queries."""

from __future__ import annotations

from retoma.pipelines.quotes.model import LoadedIndex
from retoma.pipelines.quotes.pricing.correction import IndexTable
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.quotes.queries", "indices.sql")


def put(table: IndexTable, content: str, *, by: str) -> Query[int]:
    params = {
        "index": table.index,
        "source": table.source,
        "dated": table.dated,
        "first_month": min(table.percents),
        "last_month": table.last,
        "content": content,
        "sha256": table.sha256,
        "by": by,
    }
    return Query(SQL["put"], int, params)


def page(*, index: str | None = None, sha256: str | None = None, limit: int = 200) -> Query[LoadedIndex]:
    return Query(SQL["page"], LoadedIndex, {"index": index, "sha256": sha256, "limit": limit})

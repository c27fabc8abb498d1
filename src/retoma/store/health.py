"""How the database is doing, as a query."""

from __future__ import annotations

from retoma.model import Health
from retoma.query import Query, load

SQL = load("retoma.store.queries", "health.sql")


def look() -> Query[Health]:
    return Query(SQL["look"], Health)

"""How the database is doing, as queries."""

from __future__ import annotations

from retoma.model import Health, Holder
from retoma.query import Query, load

SQL = load("retoma.store.queries", "health.sql")


def look() -> Query[Health]:
    return Query(SQL["look"], Health)


def holders(pid: int) -> Query[Holder]:
    return Query(SQL["holders"], Holder, {"pid": pid})

"""Queries about the health of the database."""

from __future__ import annotations

from retoma.model.job import Health, Holder
from retoma.model.upkeep import Overstay
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "health.sql")


def look() -> Query[Health]:
    return Query(SQL["look"], Health)


def holders(pid: int) -> Query[Holder]:
    return Query(SQL["holders"], Holder, {"pid": pid})


def overstays(older_than: float) -> Query[Overstay]:
    return Query(SQL["overstays"], Overstay, {"older_than": older_than})

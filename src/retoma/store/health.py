"""Queries about the health of the database."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retoma.model.health import Health, Holder
from retoma.model.machine import TableSize
from retoma.model.upkeep import Overstay
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "health.sql")


def look() -> Query[Health]:
    return Query(SQL["look"], Health)


def holders(pid: int) -> Query[Holder]:
    return Query(SQL["holders"], Holder, {"pid": pid})


def overstays(older_than: float) -> Query[Overstay]:
    return Query(SQL["overstays"], Overstay, {"older_than": older_than})


def sizes(schemas: Sequence[str], *, limit: int = 12) -> Query[TableSize]:
    return Query(SQL["sizes"], TableSize, {"schemas": list(schemas), "limit": limit})


class Revision(NamedTuple):
    """At which revision the tables are, and how large the database is."""

    revision: str | None
    bytes: int


def revision() -> Query[Revision]:
    return Query(SQL["revision"], Revision)

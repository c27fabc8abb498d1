"""The query of the metrics that live in the database."""

from __future__ import annotations

from retoma.model.upkeep import Gauge
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "figures.sql")

MOST = 50_000
"""Rows of an index that one part of the look reads at most."""


def look(*, most: int = MOST) -> Query[Gauge]:
    """*most* bounds each part: a value that has reached it means "at least"."""
    return Query(SQL["look"], Gauge, {"most": most})

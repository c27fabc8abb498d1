"""Queries about the whole system at a glance."""

from __future__ import annotations

from retoma.model.overview import Overview
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "overview.sql")

_MOST = 50_000  # what a count stops at
_LINES = 1_000  # lanes whose oldest job is looked for


def look(*, most: int = _MOST, money: bool = True) -> Query[Overview]:
    """Without *money* the sums of today are zero, and no call is read."""
    return Query(SQL["look"], Overview, {"most": most, "look": _LINES, "money": money})

"""Queries about how queues move."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retoma.model.machine import MOST_COUNTED, Depth, Lane, Pace
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "flow.sql")

_LINES = 2_000  # lanes with waiting jobs that are visited; one index step each
_LOOK = 2_000  # jobs that are read for a pace


class PausedBy(NamedTuple):
    """Who paused a queue."""

    name: str
    who: str


def depths(*, name: str | None = None, most: int = MOST_COUNTED) -> Query[Depth]:
    """All queues, or the one called *name*."""
    return Query(SQL["depths"], Depth, {"name": name, "most": most, "lines": _LINES})


def pace(names: Sequence[str], *, seconds: float = 300.0, look: int = _LOOK) -> Query[Pace]:
    return Query(SQL["pace"], Pace, {"names": list(names), "seconds": seconds, "look": look})


def lanes(queue: str, *, most: int = 1_000, limit: int = 100) -> Query[Lane]:
    return Query(SQL["lanes"], Lane, {"queue": queue, "most": most, "limit": limit})


def paused_by(names: Sequence[str]) -> Query[PausedBy]:
    return Query(SQL["paused_by"], PausedBy, {"names": list(names)})

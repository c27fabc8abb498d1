"""The rounds that somebody must make, as queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "duties.sql")


@dataclass(frozen=True, slots=True)
class Due:
    """What one look found to do."""

    rounds: list[str]
    """Those that were taken for the asker."""
    sweep: bool
    """A lease is over, a wait, or what a call was awaited for."""
    fire: bool
    missing: bool
    """Of the sessions of some worker none is left."""
    workers: int
    next_lease: float | None
    """Seconds until the first lease is over, if nobody beats for it until then."""
    swept: bool


def look(rounds: Mapping[str, float], *, every: float, taken_by: str) -> Query[Due]:
    """*rounds* are those that the asker would make, with the seconds between two; *every* is that of the sweep."""
    params = {
        "names": list(rounds),
        "intervals": list(rounds.values()),
        "every": every,
        "taken_by": taken_by,
    }
    return Query(SQL["look"], Due, params)


def leave(name: str, *, taken_by: str) -> Query[str]:
    return Query(SQL["leave"], str, {"name": name, "taken_by": taken_by})

"""Queries about the watchdog's periodic duties."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from retoma.model.machine import DutyRound
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "duties.sql")


@dataclass(frozen=True, slots=True)
class Due:
    """What one check found to do."""

    rounds: list[str]
    """The duties that this caller has acquired."""
    sweep: bool
    """Whether a lease, a wait in the queue or the wait for a call has expired."""
    fire: bool
    missing: bool
    """Whether some worker has no open session left."""
    workers: int
    next_lease: float | None
    """Seconds until the first lease ends, unless a heartbeat renews it."""
    swept: bool


def look(rounds: Mapping[str, float], *, every: float, taken_by: str) -> Query[Due]:
    """*rounds* are the duties that the caller can do, with their intervals in seconds; *every* is the
    interval of the sweep.
    """
    params = {
        "names": list(rounds),
        "intervals": list(rounds.values()),
        "every": every,
        "taken_by": taken_by,
    }
    return Query(SQL["look"], Due, params)


def leave(name: str, *, taken_by: str) -> Query[str]:
    return Query(SQL["leave"], str, {"name": name, "taken_by": taken_by})


def all() -> Query[DutyRound]:
    return Query(SQL["all"], DutyRound)

"""Where jobs wait, and the lines inside a queue, as queries."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.model import Queue
from retoma.query import Query, load

SQL = load("retoma.store.queries", "queues.sql")


def _name(name: str, *_: object) -> str:
    return name


def _place(lane_id: int, place: int) -> tuple[int, int]:
    return lane_id, place


def pause(name: str, *, reason: str) -> Query[str]:
    return Query(SQL["pause"], _name, {"name": name, "reason": reason})


def resume(name: str) -> Query[str]:
    return Query(SQL["resume"], _name, {"name": name})


def all() -> Query[Queue]:
    return Query(SQL["all"], Queue)


def lanes(queue: str, names: Sequence[str], *, at_once: int | None) -> Query[tuple[int, int]]:
    return Query(SQL["lanes"], _place, {"queue": queue, "names": list(names), "at_once": at_once})


def limit_lane(queue: str, name: str, *, at_once: int | None) -> Query[int]:
    return Query(SQL["limit_lane"], int, {"queue": queue, "name": name, "at_once": at_once})


def mend_slots() -> Query[tuple[int, int]]:
    return Query(SQL["mend_slots"], _place)


def hint(name: str) -> Query[str]:
    return Query(SQL["hint"], _name, {"name": name})

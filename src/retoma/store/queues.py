"""Queries about queues and the lanes inside them."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from retoma.model.queue import Queue
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "queues.sql")


def _name(name: str, *_: object) -> str:
    return name


def _paused(_name: str, until: datetime | None, over: bool | None) -> tuple[datetime | None, bool]:
    return until, bool(over)


def _place(lane_id: int, place: int) -> tuple[int, int]:
    return lane_id, place


def pause(
    name: str, *, reason: str, until: datetime | None = None, seconds: float | None = None
) -> Query[tuple[datetime | None, bool]]:
    """Until when, and whether that is over already."""
    return Query(SQL["pause"], _paused, {"name": name, "reason": reason, "until": until, "seconds": seconds})


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


def weigh(name: str, weight: int) -> Query[str]:
    return Query(SQL["weigh"], _name, {"name": name, "weight": weight})


def all_seated() -> Query[int]:
    return Query(SQL["all_seated"], int)


def _page(last: int | None, id: int | None) -> tuple[int | None, int | None]:
    return last, id


Page = tuple[int | None, int | None]
"""The last lane of the page that was read, and a lane that was found; None when there is none."""


def any_lane() -> Query[bool]:
    return Query(SQL["any_lane"], bool)


def idle_lanes(*, after: int, limit: int) -> Query[Page]:
    return Query(SQL["idle_lanes"], _page, {"after": after, "limit": limit})


def rest_lanes(ids: Sequence[int]) -> Query[int]:
    """Run this only in the transaction that found the lanes idle."""
    return Query(SQL["rest_lanes"], int, {"ids": list(ids)})


def wake_lanes(*, after: int, limit: int) -> Query[Page]:
    return Query(SQL["wake_lanes"], _page, {"after": after, "limit": limit})


def empty_lanes(*, after: int, limit: int) -> Query[Page]:
    return Query(SQL["empty_lanes"], _page, {"after": after, "limit": limit})


def remove_lanes(ids: Sequence[int]) -> Query[int]:
    """Run this only in the transaction that found the lanes empty."""
    return Query(SQL["remove_lanes"], int, {"ids": list(ids)})

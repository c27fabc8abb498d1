"""Queries about provider limits."""

from __future__ import annotations

from retoma.model.call import Grant, Limit
from retoma.model.machine import LimitState
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "limits.sql")


def _name(name: str) -> str:
    return name


def _id(id: int, _hints: int) -> int:
    return id


def take(
    *names: str,
    worker_id: int,
    requests: float,
    spare: float = 0.0,
    least_tokens: float,
    places: int,
    busy: int,
    back: tuple[str, float, float] = ("", 0.0, 0.0),
    horizon: float = 1.0,
    longest: float = 30.0,
) -> Query[Grant]:
    """*names* go from the narrowest to the widest; the first one with a limit applies. *places* is how many requests
    the executor wants in flight, and *busy* how many it has. *back* is what it returns of a limit: name, requests and
    tokens. When plenty is left, up to *spare* requests are granted in advance. A request may be granted up to *horizon*
    seconds ahead; no wait is longer than *longest* seconds.
    """
    params = {
        "names": list(names),
        "worker_id": worker_id,
        "requests": requests,
        "spare": spare,
        "least_tokens": least_tokens,
        "places": places,
        "busy": busy,
        "back_name": back[0],
        "back_requests": back[1],
        "back_tokens": back[2],
        "horizon": horizon,
        "longest": longest,
    }
    return Query(SQL["take"], Grant, params)


def give_back(name: str, *, requests: float, tokens: float) -> Query[str]:
    return Query(SQL["give_back"], _name, {"name": name, "requests": requests, "tokens": tokens})


def sit(name: str, worker_id: int, *, taken: int) -> Query[str]:
    """*taken* is the total number of requests that the executor has in flight; it may be 0."""
    return Query(SQL["sit"], _name, {"name": name, "worker_id": worker_id, "taken": taken})


def mend(*, limit: int = 500) -> Query[str]:
    return Query(SQL["mend"], _name, {"limit": limit})


def cool(name: str, *, seconds: float, reason: str) -> Query[str]:
    return Query(SQL["cool"], _name, {"name": name, "seconds": seconds, "reason": reason})


def tell(
    name: str, *, good: bool, reason: str | None = None, age: float = 0.0, most: int = 5, pause: float = 5.0
) -> Query[str]:
    """*age* is how many seconds ago the request was sent. Returns the name when this closed the breaker."""
    params = {"name": name, "good": good, "reason": reason, "age": age, "most": most, "pause": pause}
    return Query(SQL["tell"], _name, params)


def wake(name: str, *, after: float = 0.0, at_once: int = 20, limit: int = 500) -> Query[int]:
    """The first *at_once* jobs are due at once, the others a hundred a second after them, starting
    *after* seconds from now.
    """
    return Query(SQL["wake"], _id, {"name": name, "after": after, "at_once": at_once, "limit": limit})


def put(name: str, *, requests: int | None, tokens: int | None, at_once: int | None, keep: bool = False) -> Query[str]:
    params = {"name": name, "requests": requests, "tokens": tokens, "at_once": at_once, "keep": keep}
    return Query(SQL["put"], _name, params)


def remove(name: str) -> Query[str]:
    return Query(SQL["remove"], _name, {"name": name})


def all() -> Query[Limit]:
    return Query(SQL["all"], Limit)


def stand() -> Query[LimitState]:
    return Query(SQL["stand"], LimitState)


def close(name: str) -> Query[str]:
    return Query(SQL["close"], _name, {"name": name})

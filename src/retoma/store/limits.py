"""What providers allow, as queries."""

from __future__ import annotations

from retoma.call import Limit, Slice
from retoma.query import Query, load

SQL = load("retoma.store.queries", "limits.sql")


def _name(name: str) -> str:
    return name


def take(
    *names: str,
    worker_id: int,
    requests: float,
    least_tokens: float,
    places: int,
    busy: int,
    back: tuple[str, float, float] = ("", 0.0, 0.0),
    horizon: float = 1.0,
    longest: float = 30.0,
) -> Query[Slice]:
    """*names* go from the narrowest to the widest; the first that is limited counts. *places* is how many requests the
    executor would like to have under way, and *busy* how many it has; *back* what it had left of a limit: its name,
    requests and tokens. A request may be given up to *horizon* seconds ahead; nobody is sent away for more than
    *longest*.
    """
    params = {
        "names": list(names),
        "worker_id": worker_id,
        "requests": requests,
        "least_tokens": least_tokens,
        "places": places,
        "busy": busy,
        "back_name": back[0],
        "back_requests": back[1],
        "back_tokens": back[2],
        "horizon": horizon,
        "longest": longest,
    }
    return Query(SQL["take"], Slice, params)


def give_back(name: str, *, requests: float, tokens: float) -> Query[str]:
    return Query(SQL["give_back"], _name, {"name": name, "requests": requests, "tokens": tokens})


def sit(name: str, worker_id: int, *, taken: int) -> Query[str]:
    return Query(SQL["sit"], _name, {"name": name, "worker_id": worker_id, "taken": taken})


def leave(name: str, worker_id: int) -> Query[str]:
    return Query(SQL["leave"], _name, {"name": name, "worker_id": worker_id})


def cool(name: str, *, seconds: float, reason: str) -> Query[str]:
    return Query(SQL["cool"], _name, {"name": name, "seconds": seconds, "reason": reason})


def tell(name: str, *, good: bool, reason: str | None = None, most: int = 5, pause: float = 5.0) -> Query[str]:
    params = {"name": name, "good": good, "reason": reason, "most": most, "pause": pause}
    return Query(SQL["tell"], _name, params)


def put(name: str, *, requests: int | None, tokens: int | None, at_once: int | None, keep: bool = False) -> Query[str]:
    params = {"name": name, "requests": requests, "tokens": tokens, "at_once": at_once, "keep": keep}
    return Query(SQL["put"], _name, params)


def all() -> Query[Limit]:
    return Query(SQL["all"], Limit)

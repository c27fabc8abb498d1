"""Queries about stored replies to idempotent requests."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "replies.sql")


@dataclass(frozen=True, slots=True)
class Request:
    """An idempotent request: the caller, the route, and the key."""

    principal: str
    route: str
    key: str


@dataclass(frozen=True, slots=True)
class Reply:
    """The stored reply, and the hash of its request; *headers* are JSON."""

    request_hash: str
    status: int
    headers: str
    body: str


def hold(request: Request) -> Query[bool]:
    return Query(SQL["hold"], bool, asdict(request))


def one(request: Request) -> Query[Reply]:
    return Query(SQL["one"], Reply, asdict(request))


def keep(request: Request, reply: Reply) -> Query[str]:
    return Query(SQL["keep"], str, {**asdict(request), **asdict(reply)})


def prune(*, limit: int = 1000) -> Query[str]:
    return Query(SQL["prune"], str, {"limit": limit})

"""Queries about webhooks: endpoints, messages and the log of their delivery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "webhooks.sql")


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where messages go; never its secret. *waiting* messages are under way or held, *failed* ones will not arrive.
    Until *previous_until* messages carry two signatures.
    """

    id: str
    url: str
    description: str
    kinds: list[str]
    created_at: datetime
    succeeded_at: datetime | None
    failed_at: datetime | None
    failures: int
    disabled_at: datetime | None
    disabled_reason: str | None
    previous_until: datetime | None
    waiting: int
    failed: int


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message to an endpoint, and how it stands. *id* is its webhook-id."""

    id: str
    endpoint_id: str
    kind: str
    body: str
    state: str
    attempts: int
    status: int | None
    error: str | None
    created_at: datetime
    next_at: datetime | None
    ended_at: datetime | None


@dataclass(frozen=True, slots=True)
class Attempt:
    """One request of a delivery, and how it ended."""

    attempt: int
    at: datetime
    status: int | None
    error: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Message:
    """A message that somebody has taken to deliver it."""

    id: str
    endpoint_id: str
    kind: str
    body: str
    attempt: int
    tries: int
    url: str
    secret: str
    previous_secret: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """How a request ended: it *arrived*, or is sent again after *delay*, or never. *gone*: no more is wanted."""

    arrived: bool
    status: int | None = None
    error: str | None = None
    seconds: float = 0.0
    delay: float | None = None
    gone: bool = False


@dataclass(frozen=True, slots=True)
class SettledMessage:
    """An endpoint after a request to it."""

    id: str
    disabled: bool


def add(id: str, url: str, *, description: str, kinds: Sequence[str], secret: str) -> Query[Endpoint]:
    params = {"id": id, "url": url, "description": description, "kinds": list(kinds), "secret": secret}
    return Query(SQL["add"], Endpoint, params)


def all(id: str | None = None) -> Query[Endpoint]:
    return Query(SQL["all"], Endpoint, {"id": id})


def rotate(id: str, secret: str, *, grace: float) -> Query[str]:
    return Query(SQL["rotate"], str, {"id": id, "secret": secret, "grace": grace})


def enable(id: str) -> Query[str]:
    return Query(SQL["enable"], str, {"id": id})


def disable(id: str, *, reason: str) -> Query[str]:
    return Query(SQL["disable"], str, {"id": id, "reason": reason})


def remove(id: str) -> Query[str]:
    return Query(SQL["remove"], str, {"id": id})


def test(id: str) -> Query[str]:
    return Query(SQL["test"], str, {"id": id})


def anybody() -> Query[bool]:
    return Query(SQL["anybody"], bool)


def lost() -> Query[str]:
    return Query(SQL["lost"], str)


def _queued(id: int, hint: str) -> int:  # noqa: ARG001 - the hint is sent by being asked for
    return id


def hurry(schedule: str) -> Query[int]:
    return Query(SQL["hurry"], _queued, {"schedule": schedule})


def take(*, lease: float, each: int = 10, limit: int = 50, id: str | None = None) -> Query[Message]:
    return Query(SQL["take"], Message, {"lease": lease, "each": each, "limit": limit, "id": id})


def settle(message: Message, outcome: Outcome) -> Query[SettledMessage]:
    params = {
        "id": message.id,
        "attempt": message.attempt,
        "arrived": outcome.arrived,
        "status": outcome.status,
        "error": outcome.error,
        "seconds": outcome.seconds,
        "delay": outcome.delay,
        "gone": outcome.gone,
    }
    return Query(SQL["settle"], SettledMessage, params)


def replay(id: str) -> Query[str]:
    return Query(SQL["replay"], str, {"id": id})


def deliveries(
    *,
    endpoint_id: str | None = None,
    id: str | None = None,
    state: str | None = None,
    before: tuple[datetime, str] | None = None,
    limit: int = 50,
) -> Query[Delivery]:
    params = {
        "endpoint_id": endpoint_id,
        "id": id,
        "state": state,
        "before": before[0] if before else None,
        "before_id": before[1] if before else None,
        "limit": limit,
    }
    return Query(SQL["deliveries"], Delivery, params)


def attempts(id: str) -> Query[Attempt]:
    return Query(SQL["attempts"], Attempt, {"id": id})


def prune(older_than: float, *, limit: int = 1000) -> Query[str]:
    return Query(SQL["prune"], str, {"older_than": older_than, "limit": limit})

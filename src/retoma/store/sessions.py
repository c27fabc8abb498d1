"""Queries about browser sessions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retoma.store.keys import Key
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "sessions.sql")


@dataclass(frozen=True, slots=True)
class Session:
    """What is known of a session; never its secret. *usable*: not ended, not expired, and its key is accepted."""

    id: str
    opened_by: str
    key_id: str | None
    user_id: str | None
    name: str | None
    address: str | None
    created_at: datetime
    seen_at: datetime
    expires_at: datetime
    ended_at: datetime | None
    usable: bool


@dataclass(frozen=True, slots=True)
class NewSession:
    """A session to be created: with an API key, by a user, with the key of the environment, or with the
    token of a keyless server.
    """

    id: str
    secret_hash: bytes
    opened_by: str
    key_id: str | None
    user_id: str | None
    proof: bytes | None
    link_hash: bytes | None
    made: float | None
    address: str | None
    lasts: float


@dataclass(frozen=True, slots=True)
class Person:
    """The user who opened a session."""

    id: str
    name: str
    role: str


@dataclass(frozen=True, slots=True)
class Lock:
    """What a presented session is compared with; *rested* when it was last seen more than a minute ago."""

    secret_hash: bytes
    opened_by: str
    proof: bytes | None
    rested: bool
    usable: bool
    user: Person | None
    key: Key | None


def _lock(secret_hash: bytes, opened_by: str, proof: bytes | None, rested: bool, usable: bool, *opener: Any) -> Lock:
    user, key = opener[:3], opener[3:]
    return Lock(
        secret_hash,
        opened_by,
        proof,
        rested,
        usable,
        Person(*user) if user[0] is not None else None,
        Key(*key) if key[0] is not None else None,
    )


def open(new: NewSession) -> Query[str]:
    params = {
        "id": new.id,
        "secret_hash": new.secret_hash,
        "opened_by": new.opened_by,
        "key_id": new.key_id,
        "user_id": new.user_id,
        "proof": new.proof,
        "link_hash": new.link_hash,
        "made": new.made,
        "address": new.address,
        "lasts": new.lasts,
    }
    return Query(SQL["open"], str, params)


def lock_of(id: str) -> Query[Lock]:
    return Query(SQL["lock_of"], _lock, {"id": id})


def seen(id: str) -> Query[str]:
    return Query(SQL["seen"], str, {"id": id})


def end(id: str) -> Query[str]:
    return Query(SQL["end"], str, {"id": id})


def all(*, over: bool = False, limit: int = 1000) -> Query[Session]:
    return Query(SQL["all"], Session, {"over": over, "limit": limit})


def gone(keys: Sequence[str], sessions: Sequence[str]) -> Query[str]:
    return Query(SQL["gone"], str, {"keys": list(keys), "sessions": list(sessions)})


def prune(older_than: float, *, limit: int = 1000) -> Query[str]:
    return Query(SQL["prune"], str, {"older_than": older_than, "limit": limit})

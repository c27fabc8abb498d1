"""Queries about API keys."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "keys.sql")


@dataclass(frozen=True, slots=True)
class Key:
    """What is known of an API key; never its secret. *usable*: not revoked, and not expired. *ends_soon*: it
    expires within two weeks.
    """

    id: str
    name: str
    scopes: list[str]
    pipelines: list[str] | None
    created_at: datetime
    expires_at: datetime | None
    revoked_at: datetime | None
    last_used_at: datetime | None
    usable: bool
    ends_soon: bool


@dataclass(frozen=True, slots=True)
class Lock:
    """What a presented key is compared with; *rested* when its last use was noted more than a minute ago.
    *previous_hash* is the hash of the secret before a rotation, while it is still accepted.
    """

    secret_hash: bytes
    previous_hash: bytes | None
    rested: bool
    key: Key


@dataclass(frozen=True, slots=True)
class Tally:
    """How many keys and accounts exist, and how many of them are accepted; *people* are the accounts among these."""

    existing: int
    usable: int
    people: int


def _lock(secret_hash: bytes, previous_hash: bytes | None, rested: bool, *key: Any) -> Lock:
    return Lock(secret_hash, previous_hash, rested, Key(*key))


def create(
    id: str,
    name: str,
    secret_hash: bytes,
    *,
    scopes: Sequence[str],
    pipelines: Sequence[str] | None,
    expires: float | None,
) -> Query[Key]:
    params = {
        "id": id,
        "name": name,
        "secret_hash": secret_hash,
        "scopes": list(scopes),
        "pipelines": None if pipelines is None else list(pipelines),
        "expires": expires,
    }
    return Query(SQL["create"], Key, params)


def all() -> Query[Key]:
    return Query(SQL["all"], Key)


def lock_of(id: str) -> Query[Lock]:
    return Query(SQL["lock_of"], _lock, {"id": id})


def use(id: str) -> Query[str]:
    return Query(SQL["use"], str, {"id": id})


def revoke(id: str) -> Query[str]:
    return Query(SQL["revoke"], str, {"id": id})


def rotate(id: str, secret_hash: bytes, *, grace: float, expires: float | None) -> Query[Key]:
    params = {"id": id, "secret_hash": secret_hash, "grace": grace, "expires": expires, "never": expires is None}
    return Query(SQL["rotate"], Key, params)


def tally() -> Query[Tally]:
    return Query(SQL["tally"], Tally)

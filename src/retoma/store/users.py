"""Queries about people's accounts."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "users.sql")


@dataclass(frozen=True, slots=True)
class User:
    """What is known of an account; never its password. *issuer* is the OpenID provider that vouches for it."""

    id: str
    name: str
    role: str
    has_password: bool
    issuer: str | None
    created_at: datetime
    password_at: datetime | None
    signed_in_at: datetime | None
    locked_at: datetime | None


@dataclass(frozen=True, slots=True)
class UserLock:
    """What a given password is compared with."""

    password_hash: str | None
    user: User


def _lock(password_hash: str | None, *user: Any) -> UserLock:
    return UserLock(password_hash, User(*user))


def add(id: str, name: str, role: str, password_hash: str | None) -> Query[User]:
    params = {"id": id, "name": name, "role": role, "password_hash": password_hash}
    return Query(SQL["add"], User, params)


def all() -> Query[User]:
    return Query(SQL["all"], User)


def find(who: str) -> Query[User]:
    return Query(SQL["find"], User, {"who": who})


def lock_of(name: str) -> Query[UserLock]:
    return Query(SQL["lock_of"], _lock, {"name": name})


def set_role(id: str, role: str) -> Query[str]:
    return Query(SQL["set_role"], str, {"id": id, "role": role})


def set_password(id: str, password_hash: str) -> Query[str]:
    return Query(SQL["set_password"], str, {"id": id, "password_hash": password_hash})


def rehash(id: str, password_hash: str, *, before: str) -> Query[str]:
    return Query(SQL["rehash"], str, {"id": id, "password_hash": password_hash, "before": before})


def signed_in(id: str) -> Query[str]:
    return Query(SQL["signed_in"], str, {"id": id})


def lock(id: str) -> Query[str]:
    return Query(SQL["lock"], str, {"id": id})


def unlock(id: str) -> Query[str]:
    return Query(SQL["unlock"], str, {"id": id})


def remove(id: str) -> Query[str]:
    return Query(SQL["remove"], str, {"id": id})


def arrive(id: str, name: str, role: str, *, issuer: str, subject: str) -> Query[User]:
    params = {"id": id, "name": name, "role": role, "issuer": issuer, "subject": subject}
    return Query(SQL["arrive"], User, params)

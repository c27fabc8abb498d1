"""Queries about sign-ins that failed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "tries.sql")


@dataclass(frozen=True, slots=True)
class Counted:
    """Somebody whose failures are counted: how many are free, and after how many seconds they are forgotten."""

    subject: str
    free: int
    forgotten: float


@dataclass(frozen=True, slots=True)
class Refused:
    """Somebody who is refused now, and for how many seconds."""

    subject: str
    seconds: float


def begin(counted: Sequence[Counted], *, first: float, longest: float) -> Query[float | None]:
    params = {
        "subjects": [each.subject for each in counted],
        "free": [each.free for each in counted],
        "forgotten": [each.forgotten for each in counted],
        "first": first,
        "longest": longest,
    }
    return Query(SQL["begin"], lambda seconds: seconds, params)


def right(name: str, address: str, *, free: int) -> Query[str]:
    return Query(SQL["right"], str, {"name": name, "address": address, "free": free})


def forget(subject: str) -> Query[str]:
    return Query(SQL["forget"], str, {"subject": subject})


def refused(subjects: Sequence[str]) -> Query[Refused]:
    return Query(SQL["refused"], Refused, {"subjects": list(subjects)})


def prune(older_than: float, *, limit: int = 1000) -> Query[str]:
    return Query(SQL["prune"], str, {"older_than": older_than, "limit": limit})

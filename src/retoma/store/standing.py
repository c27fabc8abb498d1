"""Queries for the audit: the current state of a thing."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "standing.sql")


def _number(id: str) -> int | None:
    return int(id) if re.fullmatch(r"[0-9]{1,18}", id) else None


def batch(id: str) -> Query[str]:
    return Query(SQL["batch"], str, {"id": _number(id)})


def job(id: str) -> Query[str]:
    return Query(SQL["job"], str, {"id": _number(id)})


def queue(id: str) -> Query[str]:
    return Query(SQL["queue"], str, {"id": id})


def schedule(id: str) -> Query[str]:
    return Query(SQL["schedule"], str, {"id": id})


def limit(id: str) -> Query[str]:
    return Query(SQL["limit"], str, {"id": id})


def key(id: str) -> Query[str]:
    return Query(SQL["key"], str, {"id": id})


def session(id: str) -> Query[str]:
    return Query(SQL["session"], str, {"id": id})


KINDS: Mapping[str, Callable[[str], Query[str]]] = {
    "batch": batch,
    "job": job,
    "queue": queue,
    "schedule": schedule,
    "limit": limit,
    "key": key,
    "session": session,
}
"""The kinds whose state can be read, beside those of extensions; for others only the request is known."""

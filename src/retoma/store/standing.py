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


def alert(id: str) -> Query[str]:
    return Query(SQL["alert"], str, {"id": _number(id)})


def session(id: str) -> Query[str]:
    return Query(SQL["session"], str, {"id": id})


def operation(id: str) -> Query[str]:
    return Query(SQL["operation"], str, {"id": _number(id)})


def view(id: str) -> Query[str]:
    return Query(SQL["view"], str, {"id": _number(id)})


def worker(id: str) -> Query[str]:
    return Query(SQL["worker"], str, {"id": id})


def review(id: str) -> Query[str]:
    return Query(SQL["review"], str, {"id": _number(id)})


def user(id: str) -> Query[str]:
    return Query(SQL["user"], str, {"id": id})


def webhook(id: str) -> Query[str]:
    return Query(SQL["webhook"], str, {"id": id})


def delivery(id: str) -> Query[str]:
    return Query(SQL["delivery"], str, {"id": id})


KINDS: Mapping[str, Callable[[str], Query[str]]] = {
    "batch": batch,
    "job": job,
    "queue": queue,
    "schedule": schedule,
    "limit": limit,
    "key": key,
    "session": session,
    "operation": operation,
    "view": view,
    "worker": worker,
    "review": review,
    "user": user,
    "webhook": webhook,
    "delivery": delivery,
    "alert": alert,
}
"""The kinds whose state can be read, beside those of extensions; for others only the request is known."""

"""Queries about the audit: who did what."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "audit.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """An entry for the audit: who did what to what, from where, and how it ended. *after* is the state afterwards and
    other facts about it; never content or a secret.
    """

    who: str
    name: str | None = None
    via: str
    address: str | None = None
    route: str
    action: str
    object_kind: str | None = None
    object_id: str | None = None
    before: str | None = None
    after: str | None = None
    correlation_id: str | None = None
    outcome: str
    times: int = 1


@dataclass(frozen=True, slots=True)
class Audited:
    """Something that somebody did, or was refused. *times*: how often, when many alike were counted together."""

    id: int
    at: datetime
    who: str
    name: str | None
    via: str
    address: str | None
    route: str
    action: str
    object_kind: str | None
    object_id: str | None
    before: dict[str, Any] | None
    after: dict[str, Any] | None
    correlation_id: str | None
    outcome: str
    times: int


_BEFORE, _AFTER = 10, 11


def _audited(*columns: Any) -> Audited:
    read = [
        orjson.loads(value) if place in (_BEFORE, _AFTER) and value else value for place, value in enumerate(columns)
    ]
    return Audited(*read)


def write(entries: Sequence[Entry]) -> Query[int]:
    names = Entry.__slots__
    return Query(SQL["write"], int, {name: [getattr(each, name) for each in entries] for name in names})


def page(
    *,
    who: str | None = None,
    action: str | None = None,
    object_kind: str | None = None,
    object_id: str | None = None,
    outcome: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    lately: float | None = None,
    before: int | None = None,
    limit: int = 50,
) -> Query[Audited]:
    params = {
        "who": who,
        "action": action,
        "object_kind": object_kind,
        "object_id": object_id,
        "outcome": outcome,
        "since": since,
        "until": until,
        "lately": lately,
        "before": before,
        "limit": limit,
    }
    return Query(SQL["page"], _audited, params)


def prune(older_than: float, *, limit: int = 1000) -> Query[int]:
    return Query(SQL["prune"], int, {"older_than": older_than, "limit": limit})

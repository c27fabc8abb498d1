"""Queries about alerts: what is wrong now, the incidents, and what is sent about them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import orjson

from retoma.model.alert import Alert, Delivery, Finding, Turn
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "alerts.sql")

_FACTS_OF_ALERT, _FACTS_OF_DELIVERY, _FACTS_OF_FINDING = 4, 7, 3


def _read(columns: tuple[Any, ...], place: int) -> list[Any]:
    """The columns, with the facts as values."""
    return [orjson.loads(value) if at == place else value for at, value in enumerate(columns)]


def _finding(*columns: Any) -> Finding:
    return Finding(*_read(columns, _FACTS_OF_FINDING))


def _delivery(*columns: Any) -> Delivery:
    return Delivery(*_read(columns, _FACTS_OF_DELIVERY))


def _alert(*columns: Any) -> Alert:
    return Alert(*_read(columns, _FACTS_OF_ALERT))


def judge(
    *,
    unserved_seconds: float,
    late_seconds: float,
    failed_seconds: float,
    silent_seconds: float,
    stuck_jobs: int,
    most: int = 10_000,
) -> Query[Finding]:
    params = {
        "unserved_seconds": unserved_seconds,
        "late_seconds": late_seconds,
        "failed_seconds": failed_seconds,
        "silent_seconds": silent_seconds,
        "stuck_jobs": stuck_jobs,
        "most": most,
    }
    return Query(SQL["judge"], _finding, params)


def note(found: Sequence[Finding], *, quiet: float) -> Query[Turn]:
    """*quiet*: after how many seconds without it an incident is over."""
    params = {
        "rules": [each.rule for each in found],
        "subjects": [each.subject for each in found],
        "severities": [each.severity for each in found],
        "facts": [orjson.dumps(each.facts).decode() for each in found],
        "quiet": quiet,
    }
    return Query(SQL["note"], Turn, params)


def plan(channels: Sequence[str], *, resolved: bool) -> Query[int]:
    return Query(SQL["plan"], int, {"channels": list(channels), "resolved": resolved})


def take(channels: Sequence[str], *, pause: float, most: int, limit: int = 1) -> Query[Delivery]:
    """*pause*: seconds until the second try, twice as long before each further one; *most*: how often it is tried."""
    params = {"channels": list(channels), "pause": pause, "most": most, "limit": limit}
    return Query(SQL["take"], _delivery, params)


def delivered(id: int, channel: str, what: str, *, error: str | None = None) -> Query[int]:
    return Query(SQL["delivered"], int, {"id": id, "channel": channel, "what": what, "error": error})


def page(*, id: int | None = None, open: bool = False, before: int | None = None, limit: int = 50) -> Query[Alert]:
    params = {"id": id, "open": open, "before": before, "limit": limit}
    return Query(SQL["page"], _alert, params)


def acknowledge(id: int, *, by: str, note: str | None = None) -> Query[int]:
    return Query(SQL["acknowledge"], int, {"id": id, "by": by, "note": note})


def prune(older_than: float, *, limit: int) -> Query[int]:
    return Query(SQL["prune"], int, {"older_than": older_than, "limit": limit})

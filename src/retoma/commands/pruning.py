"""Deletes what is past its retention: each kind on its own, oldest first, in bounded pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime, timedelta

from retoma.errors import ConfigurationError
from retoma.model import validation
from retoma.model.upkeep import Overstay
from retoma.store import (
    alerts,
    audit,
    batches,
    calls,
    health,
    jobs,
    operations,
    replies,
    sessions,
    sign_ins,
    tries,
    webhooks,
    workers,
)
from retoma.store.query import Command
from retoma.system.settings import Settings

Piece = tuple[int, str | None]
"""How many rows were deleted, and where the next piece begins; None when there is none."""

_AT_A_TIME = 1000
_MORE = "more"
_DAY = 86_400.0


def seconds_of(older_than: timedelta) -> float:
    """*older_than* in seconds, as the queries expect it."""
    seconds = min(older_than.total_seconds(), validation.CENTURY)
    if seconds < 0:
        raise ConfigurationError("What is pruned must be older than some time that has passed.")
    return seconds


def _jobs(older_than: float, _after: str) -> Command[Piece]:
    gone = yield jobs.prune(older_than, limit=_AT_A_TIME)
    return len(gone), _MORE if len(gone) == _AT_A_TIME else None


def _batches(older_than: float, _after: str) -> Command[Piece]:
    ended = yield batches.end_waiting(older_than, limit=_AT_A_TIME)
    retired = yield batches.retire(older_than)
    gone = yield batches.prune(limit=_AT_A_TIME)
    return sum(what != "event" for _, what in gone), _MORE if ended or retired or gone else None


def _calls(older_than: float, after: str) -> Command[Piece]:
    begin = {"after": _looked(after)} if after else {}
    looked: list[calls.Looked] = yield calls.prune(older_than, limit=_AT_A_TIME, **begin)
    return (looked[0].gone, f"{looked[0].asked_at.isoformat()} {looked[0].id}") if looked else (0, None)


def _looked(text: str) -> calls.Looked:
    at, id = text.split(" ")
    return calls.Looked(datetime.fromisoformat(at), int(id), 0)


def _replies(_older_than: float, _after: str) -> Command[Piece]:
    gone = yield replies.prune(limit=_AT_A_TIME)
    return 0, _MORE if len(gone) == _AT_A_TIME else None  # not counted: they are kept for a day at most


def _workers(older_than: float, _after: str) -> Command[Piece]:
    gone = yield workers.prune(older_than, limit=_AT_A_TIME)
    return 0, _MORE if len(gone) == _AT_A_TIME else None


def _sessions(older_than: float, _after: str) -> Command[Piece]:
    gone = yield sessions.prune(older_than, limit=_AT_A_TIME)
    return 0, _MORE if len(gone) == _AT_A_TIME else None


def _operations(older_than: float, _after: str) -> Command[Piece]:
    gone = yield operations.prune(older_than, limit=_AT_A_TIME)
    return 0, _MORE if len(gone) == _AT_A_TIME else None


def _tries(_older_than: float, _after: str) -> Command[Piece]:
    gone = yield tries.prune(_DAY, limit=_AT_A_TIME)
    late = yield sign_ins.prune(limit=_AT_A_TIME)
    return 0, _MORE if _AT_A_TIME in (len(gone), len(late)) else None  # not counted: they are kept for a day


def _webhooks(older_than: float, _after: str) -> Command[Piece]:
    gone = yield webhooks.prune(older_than, limit=_AT_A_TIME)
    return 0, _MORE if len(gone) == _AT_A_TIME else None


def _audit(older_than: float, _after: str) -> Command[Piece]:
    gone = yield audit.prune(older_than, limit=_AT_A_TIME)
    return 0, _MORE if len(gone) == _AT_A_TIME else None


def _alerts(older_than: float, _after: str) -> Command[Piece]:
    gone = yield alerts.prune(older_than, limit=_AT_A_TIME)
    return 0, _MORE if len(gone) == _AT_A_TIME else None


KINDS: Mapping[str, Callable[[float, str], Command[Piece]]] = {
    "jobs": _jobs,
    "batches": _batches,
    "calls": _calls,
    "replies": _replies,
    "workers": _workers,
    "sessions": _sessions,
    "operations": _operations,
    "tries": _tries,
    "webhooks": _webhooks,
    "audit": _audit,
    "alerts": _alerts,
}


def age_of(kind: str, settings: Settings, older_than: float | None = None) -> float:
    """The retention of one *kind*, in seconds. The audit has its own, whatever the caller asks."""
    if kind == "audit":
        return settings.audit_days * _DAY
    return settings.retention_days * _DAY if older_than is None else older_than


def whole(kind: str, older_than: float) -> Command[int]:
    """Delete all of one *kind*. Run each statement in a transaction of its own."""
    gone, after = 0, ""
    while True:
        some, following = yield from KINDS[kind](older_than, after)
        gone += some
        if following is None:
            return gone
        after = following


def overstays(older_than: float) -> Command[list[Overstay]]:
    """For each kind, by how much its oldest row is past the retention."""
    rows: list[Overstay] = yield health.overstays(older_than)
    return rows

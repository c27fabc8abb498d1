"""Batches, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, NamedTuple

from retoma.batch import Batch, Durations, ErrorGroup, Event, Found, Progress, StepFigures
from retoma.evidence import Evidence
from retoma.query import Query, load

SQL = load("retoma.store.queries", "batches.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A batch to be."""

    name: str
    pipeline: str
    queue: str
    at_once: int | None
    route: str | None
    labels: str
    configuration: str
    correlation_id: str | None
    max_resumes: int
    max_failure_rate: float | None
    budget: Decimal | None
    stall_seconds: float
    expires: float


class Hold(NamedTuple):
    """A batch under its lock."""

    state: str
    was: str
    epoch: int
    resumes: int
    max_resumes: int
    unfinished: int
    sealed: bool
    reason: str | None


class Filling(NamedTuple):
    """An open batch, held by who fills it."""

    id: int
    queue: str
    lane: str
    pipeline: str
    correlation_id: str | None


def _id(id: int, *_: object) -> int:
    return id


def create(new: NewBatch) -> Query[int]:
    params = {
        "name": new.name,
        "pipeline": new.pipeline,
        "queue": new.queue,
        "at_once": new.at_once,
        "route": new.route,
        "labels": new.labels,
        "configuration": new.configuration,
        "correlation_id": new.correlation_id,
        "max_resumes": new.max_resumes,
        "max_failure_rate": new.max_failure_rate,
        "budget": new.budget,
        "stall_seconds": new.stall_seconds,
        "expires": new.expires,
    }
    return Query(SQL["create"], _id, params)


def hold(id: int) -> Query[Hold]:
    return Query(SQL["hold"], Hold, {"id": id})


def filling(id: int) -> Query[Filling]:
    return Query(SQL["filling"], Filling, {"id": id})


def seal(id: int, *, expected: int | None) -> Query[int]:
    return Query(SQL["seal"], _id, {"id": id, "expected": expected})


def size(id: int) -> Query[tuple[int, int]]:
    """How many jobs it has, and how many of them wait."""
    return Query(SQL["size"], lambda jobs, waiting: (jobs, waiting), {"id": id})


def pause(id: int, *, reason: str, needed: Decimal | None = None) -> Query[int]:
    return Query(SQL["pause"], _id, {"id": id, "reason": reason, "needed": needed})


def resume(id: int, *, epoch: int | None, max_resumes: int | None, by: str) -> Query[tuple[int, str]]:
    """(batch, the state it was in), when this call moved it."""
    params = {"id": id, "epoch": epoch, "max_resumes": max_resumes, "by": by}
    return Query(SQL["resume"], lambda batch, was, _hint: (batch, was), params)


def take_back(id: int, *, limit: int = 2000) -> Query[int]:
    return Query(SQL["take_back"], _id, {"id": id, "limit": limit})


def cancel(id: int, *, reason: str) -> Query[int]:
    return Query(SQL["cancel"], _id, {"id": id, "reason": reason})


def cancel_jobs(id: int | None = None, *, limit: int = 2000) -> Query[int]:
    return Query(SQL["cancel_jobs"], _id, {"id": id, "limit": limit})


def retry_failed(
    id: int, *, fingerprint: str | None, cancelled: bool, attempts: int | None, limit: int = 2000
) -> Query[int]:
    params = {"id": id, "fingerprint": fingerprint, "cancelled": cancelled, "attempts": attempts, "limit": limit}
    return Query(SQL["retry_failed"], _id, params)


def restart(id: int, *, after: int, limit: int = 2000) -> Query[int]:
    return Query(SQL["restart"], _id, {"id": id, "after": after, "limit": limit})


def restarted(id: int, *, configuration: str | None) -> Query[int]:
    return Query(SQL["restarted"], _id, {"id": id, "configuration": configuration})


def change(
    id: int,
    *,
    name: str | None = None,
    labels: str | None = None,
    max_resumes: int | None = None,
    max_failure_rate: float | None = None,
    stall_seconds: float | None = None,
    budget: Decimal | None = None,
    told: str,
) -> Query[int]:
    params = {
        "id": id,
        "name": name,
        "labels": labels,
        "max_resumes": max_resumes,
        "max_failure_rate": max_failure_rate,
        "stall_seconds": stall_seconds,
        "budget": budget,
        "told": told,
    }
    return Query(SQL["change"], _id, params)


def stall(id: int, *, epoch: int, event_seq: int, verdict: str, cause: str) -> Query[int]:
    params = {"id": id, "epoch": epoch, "event_seq": event_seq, "verdict": verdict, "cause": cause}
    return Query(SQL["stall"], _id, params)


def give_up() -> Query[int]:
    return Query(SQL["give_up"], _id)


def advance() -> Query[int]:
    return Query(SQL["advance"], _id)


def unsealed() -> Query[int]:
    return Query(SQL["unsealed"], _id)


def silent() -> Query[int]:
    return Query(SQL["silent"], _id)


def one(id: int) -> Query[Batch]:
    return Query(SQL["one"], Batch, {"id": id})


def page(
    *,
    states: Sequence[str] | None = None,
    pipeline: str | None = None,
    labels: str | None = None,
    name: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> Query[Batch]:
    params: dict[str, Any] = {
        "states": list(states) if states else None,
        "pipeline": pipeline,
        "labels": labels,
        "name": name,
        "before": before,
        "limit": limit,
    }
    return Query(SQL["page"], Batch, params)


def progress(id: int) -> Query[Progress]:
    return Query(SQL["progress"], Progress, {"id": id})


def steps(id: int) -> Query[StepFigures]:
    return Query(SQL["steps"], StepFigures, {"id": id})


def durations(id: int) -> Query[Durations]:
    return Query(SQL["durations"], Durations, {"id": id})


def errors(id: int) -> Query[ErrorGroup]:
    return Query(SQL["errors"], ErrorGroup, {"id": id})


def evidence(id: int) -> Query[Evidence]:
    return Query(SQL["evidence"], Evidence, {"id": id})


def plan(id: int) -> Query[Found]:
    return Query(SQL["plan"], Found, {"id": id})


def events(id: int, *, after: int, limit: int) -> Query[Event]:
    params = {"id": id, "after": after, "limit": limit}
    return Query(SQL["events"], lambda seq, kind, at, data: Event(id, seq, kind, at, data), params)


def news(cursors: dict[int, int], *, limit: int) -> Query[Event]:
    """The events of many batches, each after its own cursor."""
    params = {"ids": list(cursors), "after": list(cursors.values()), "limit": limit}
    return Query(SQL["news"], Event, params)


def configuration(id: int) -> Query[str]:
    return Query(SQL["configuration"], str, {"id": id})


def prune(older_than: float, *, limit: int = 1000) -> Query[tuple[int, str]]:
    """What went: (id, "job" or "batch")."""
    return Query(SQL["prune"], lambda gone, what: (gone, what), {"older_than": older_than, "limit": limit})

"""Queries about batches."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, NamedTuple

from retoma.model.batch import Batch, Durations, ErrorGroup, Event, Found, Progress, StepFigures
from retoma.model.cohort import Cohort
from retoma.model.evidence import Evidence
from retoma.model.ids import BatchId
from retoma.model.pilot import Tried
from retoma.model.result import StoredResult
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "batches.sql")

CHANNEL = "retoma_batches"
LISTENING = 7_368_021_116
"""The key of the advisory lock that every listener holds in shared mode."""


@dataclass(frozen=True, slots=True, kw_only=True)
class NewBatch:
    """A batch to be created."""

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
    traceparent: str | None = None
    finish: str | None = None
    """What is declared of its last step, as JSON."""


class Hold(NamedTuple):
    """A batch whose row is locked."""

    state: str
    was: str
    epoch: int
    resumes: int
    max_resumes: int
    unfinished: int
    sealed: bool
    reason: str | None
    total: int | None
    failures: int
    operation_id: int | None
    traceparent: str | None
    finishing: str | None
    finish_job_id: int | None


class Filling(NamedTuple):
    """An open batch, locked by the transaction that fills it."""

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
        "traceparent": new.traceparent,
        "finish": new.finish,
    }
    return Query(SQL["create"], _id, params)


def alone(id: int) -> Query[str]:
    return Query(SQL["alone"], str, {"id": id})


def hold(id: int) -> Query[Hold]:
    return Query(SQL["hold"], Hold, {"id": id})


def filling(id: int) -> Query[Filling]:
    return Query(SQL["filling"], Filling, {"id": id})


def sample(id: int, *, jobs: int, kinds: int = 12) -> Query[int]:
    return Query(SQL["sample"], _id, {"id": id, "jobs": jobs, "kinds": kinds})


def begin_pilot(id: int, *, jobs: Collection[int]) -> Query[int]:
    return Query(SQL["begin_pilot"], _id, {"id": id, "jobs": list(jobs)})


def release(id: int, *, by: str) -> Query[int]:
    return Query(SQL["release"], _id, {"id": id, "by": by})


def pilot(id: int) -> Query[Tried]:
    return Query(SQL["pilot"], Tried, {"id": id})


def seal(id: int, *, expected: int | None) -> Query[int]:
    return Query(SQL["seal"], _id, {"id": id, "expected": expected})


def size(id: int) -> Query[tuple[int, int]]:
    """The number of its jobs, and how many of them wait."""
    return Query(SQL["size"], lambda jobs, waiting: (jobs, waiting), {"id": id})


def pause(id: int, *, reason: str, needed: Decimal | None = None, by: str | None = None) -> Query[int]:
    return Query(SQL["pause"], _id, {"id": id, "reason": reason, "needed": needed, "by": by})


def resume(
    id: int, *, epoch: int | None, max_resumes: int | None, by: str, traceparent: str | None = None
) -> Query[tuple[str, bool]]:
    """(the state it was in, whether a live worker serves it), when this call changed it. *traceparent* is the span of
    the resume, to which the next one links.
    """
    params = {"id": id, "epoch": epoch, "max_resumes": max_resumes, "by": by, "traceparent": traceparent}
    return Query(SQL["resume"], lambda _id, was, served, _hint: (was, served), params)


def wake(id: int, *, limit: int = 2000) -> Query[int]:
    return Query(SQL["wake"], _id, {"id": id, "limit": limit})


def take_back(id: int, *, limit: int = 2000) -> Query[int]:
    return Query(SQL["take_back"], _id, {"id": id, "limit": limit})


def cancel(id: int, *, reason: str, by: str | None = None) -> Query[int]:
    return Query(SQL["cancel"], _id, {"id": id, "reason": reason, "by": by})


class Seen(NamedTuple):
    """A job that a command on its batch visited: whether it was changed, and whether nothing is left to do for it."""

    id: int
    moved: bool
    settled: bool


def _seen(id: int, moved: bool, settled: bool, *_: object) -> Seen:
    return Seen(id, moved, settled)


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """Which jobs of a batch a statement visits: those after a cursor, or those that are named."""

    after: int = 0
    ids: Sequence[int] | None = None
    limit: int = 2000

    def params(self, id: int, states: Sequence[str]) -> dict[str, Any]:
        ids = None if self.ids is None else list(self.ids)
        return {"id": id, "states": list(states), "after": self.after, "ids": ids, "limit": self.limit}


ALL = Piece()


def cancel_jobs(id: int, piece: Piece = ALL) -> Query[Seen]:
    return Query(SQL["cancel_jobs"], _seen, piece.params(id, ("queued", "running")))


def cancel_rest(*, limit: int = 2000) -> Query[int]:
    return Query(SQL["cancel_rest"], _id, {"limit": limit})


def hold_jobs(id: int, piece: Piece, states: Sequence[str]) -> Query[int]:
    return Query(SQL["hold_jobs"], _id, piece.params(id, states))


def retry_failed(
    id: int,
    piece: Piece = ALL,
    *,
    held: Sequence[int],
    fingerprint: str | None,
    cancelled: bool,
    attempts: int | None,
    until: datetime | None = None,
    by: str | None = None,
) -> Query[Seen]:
    more = {"held": list(held), "fingerprint": fingerprint, "attempts": attempts, "until": until, "by": by}
    return Query(SQL["retry_failed"], _seen, piece.params(id, retried(cancelled=cancelled)) | more)


def retried(*, cancelled: bool) -> tuple[str, ...]:
    """The states of the jobs that a retry of a batch visits."""
    return ("failed", "cancelled") if cancelled else ("failed",)


def restart(id: int, piece: Piece = ALL) -> Query[Seen]:
    states = ("queued", "running", "completed", "skipped", "failed", "review", "cancelled")
    return Query(SQL["restart"], _seen, piece.params(id, states))


def has(id: int, states: Sequence[str]) -> Query[bool]:
    return Query(SQL["has"], bool, {"id": id, "states": list(states)})


def reopen(id: int, *, by: str | None = None) -> Query[int]:
    return Query(SQL["reopen"], _id, {"id": id, "by": by})


def settle(id: int, *, followed: bool = False) -> Query[tuple[int, str]]:
    """Nothing more is queued by an operation; or, with *followed*, the job of the last step has followed its batch."""
    return Query(SQL["settle"], lambda id_, state: (id_, state), {"id": id, "followed": followed})


class Owing(NamedTuple):
    """A batch whose last step needs a hand."""

    id: int
    job_id: int
    finishing: str
    owed: bool


def owing(ids: Collection[int] | None = None, *, limit: int = 100) -> Query[Owing]:
    return Query(SQL["owing"], Owing, {"ids": None if ids is None else list(ids), "limit": limit})


def dismiss(id: int, job_id: int) -> Query[int]:
    return Query(SQL["dismiss"], _id, {"id": id, "job_id": job_id})


def restarted(id: int, *, configuration: str | None, by: str | None = None) -> Query[int]:
    return Query(SQL["restarted"], _id, {"id": id, "configuration": configuration, "by": by})


def change(id: int, changes: Mapping[str, Any], *, told: str) -> Query[int]:
    names = ("name", "labels", "max_resumes", "max_failure_rate", "stall_seconds", "budget")
    params = {name: changes.get(name) for name in names} | {"id": id, "given": list(changes), "told": told}
    return Query(SQL["change"], _id, params)


def stall(id: int, *, epoch: int, event_seq: int, verdict: str, cause: str) -> Query[int]:
    params = {"id": id, "epoch": epoch, "event_seq": event_seq, "verdict": verdict, "cause": cause}
    return Query(SQL["stall"], _id, params)


def recall(id: int, *, epoch: int, event_seq: int, verdict: str, cause: str) -> Query[int]:
    params = {"id": id, "epoch": epoch, "event_seq": event_seq, "verdict": verdict, "cause": cause}
    return Query(SQL["recall"], _id, params)


def give_up(id: int | None = None, *, event_seq: int | None = None, round: float = 0.0) -> Query[int]:
    return Query(SQL["give_up"], _id, {"id": id, "event_seq": event_seq, "round": round})


def advance() -> Query[int]:
    return Query(SQL["advance"], _id)


def unsealed() -> Query[int]:
    return Query(SQL["unsealed"], _id)


def silent(*, limit: int = 100) -> Query[int]:
    return Query(SQL["silent"], _id, {"limit": limit})


def one(id: int) -> Query[Batch]:
    return Query(SQL["one"], Batch, {"id": id})


def page(
    *,
    states: Sequence[str] | None = None,
    pipeline: str | None = None,
    labels: str | None = None,
    name: str | None = None,
    text: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> Query[Batch]:
    params: dict[str, Any] = {
        "states": list(states) if states else None,
        "pipeline": pipeline,
        "labels": labels,
        "name": name,
        "text": text,
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


def results(
    id: int, *, states: Sequence[str], after: int, limit: int, steps: Sequence[str] = ()
) -> Query[StoredResult]:
    params = {"id": id, "states": list(states), "after": after, "limit": limit, "steps": list(steps)}
    return Query(SQL["results"], StoredResult, params)


def plan(id: int) -> Query[Found]:
    return Query(SQL["plan"], Found, {"id": id})


def events(id: int, *, after: int, limit: int, jobs: bool = True) -> Query[Event]:
    params = {"id": id, "after": after, "limit": limit, "jobs": jobs}
    return Query(SQL["events"], lambda seq, kind, at, data: Event(BatchId(id), seq, kind, at, data), params)


def pipelines(ids: Collection[int]) -> Query[tuple[int, str]]:
    return Query(SQL["pipelines"], lambda id_, pipeline: (id_, pipeline), {"ids": list(ids)})


def news(cursors: Mapping[BatchId, int], *, limit: int) -> Query[Event]:
    """The events of many batches, each after its own cursor."""
    params = {"ids": list(cursors), "after": list(cursors.values()), "limit": limit}
    return Query(SQL["news"], Event, params)


def hint(ids: Sequence[int]) -> Query[bool]:
    """Whether somebody listens; if so, notify about these batches, or about all when none are named."""
    return Query(SQL["hint"], bool, {"ids": ",".join(map(str, ids)), "listening": LISTENING})


class Configured(NamedTuple):
    """What every job of a batch shares: its configuration as JSON, and the span of the batch's run, which is the one
    that made it or resumed it last.
    """

    configuration: str = "{}"
    traceparent: str | None = None


def replanned(id: int, *, configuration: str, by: str | None, note: str | None) -> Query[int]:
    return Query(SQL["replanned"], int, {"id": id, "configuration": configuration, "by": by, "note": note})


def replan(id: int, piece: Piece, *, held: Sequence[int], cohort: int) -> Query[Seen]:
    return Query(SQL["replan"], _seen, piece.params(id, ("queued",)) | {"held": list(held), "cohort": cohort})


def cohorts(id: int) -> Query[Cohort]:
    return Query(SQL["cohorts"], Cohort, {"id": id})


def configuration(id: int, *, cohort: int) -> Query[Configured]:
    return Query(SQL["configuration"], Configured, {"id": id, "cohort": cohort})


def end_waiting(older_than: float, *, limit: int = 1000) -> Query[int]:
    return Query(SQL["end_waiting"], _id, {"older_than": older_than, "limit": limit})


def retire(older_than: float, *, limit: int = 100) -> Query[int]:
    return Query(SQL["retire"], _id, {"older_than": older_than, "limit": limit})


def prune(*, limit: int = 1000) -> Query[tuple[int, str]]:
    """What was deleted: (id, "job", "event" or "batch")."""
    return Query(SQL["prune"], lambda id_, what: (id_, what), {"limit": limit})


def resting_for(reasons: Sequence[str]) -> Query[int]:
    return Query(SQL["resting_for"], _id, {"reasons": list(reasons)})

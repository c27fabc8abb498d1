"""Queries about workers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple
from uuid import UUID

from retoma.model.job import Claim
from retoma.model.machine import HeldJob
from retoma.model.worker import Metrics, Presence
from retoma.store.query import Query, load
from retoma.system.process_identity import ProcessIdentity

SQL = load("retoma.store.queries", "workers.sql")


@dataclass(slots=True)
class Pulse:
    """What one heartbeat reports for one executor; the counters are totals since its start."""

    id: int
    pid: int = 0
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    recovered: int = 0
    busy: float = 0.0
    memory: float | None = None
    """Megabytes that the process uses."""
    doing: str | None = None
    """JSON: job, fence and step of each place that is busy."""


def hello(
    *,
    label: str,
    host: str,
    pid: int,
    version: str,
    queues: Sequence[str],
    pipelines: Sequence[str],
    at_once: int,
    lease: float,
    hint: int | None = None,
    where: ProcessIdentity | None = None,
) -> Query[int]:
    """*hint* is the key of the advisory lock that the sessions of its worker hold."""
    found = where or ProcessIdentity()
    params = {
        "label": label,
        "host": host,
        "pid": pid,
        "version": version,
        "queues": list(queues),
        "pipelines": list(pipelines),
        "at_once": at_once,
        "lease": lease,
        "hint": hint,
        "machine": found.machine,
        "supervisor": found.pid,
        "supervisor_started": found.started,
    }
    return Query(SQL["hello"], int, params)


def heartbeat(pulses: Sequence[Pulse]) -> Query[int]:
    params = {
        "ids": [each.id for each in pulses],
        "pids": [each.pid for each in pulses],
        "claimed": [each.claimed for each in pulses],
        "completed": [each.completed for each in pulses],
        "failed": [each.failed for each in pulses],
        "retried": [each.retried for each in pulses],
        "recovered": [each.recovered for each in pulses],
        "busy": [each.busy for each in pulses],
        "memory": [each.memory for each in pulses],
        "doing": [each.doing for each in pulses],
    }
    return Query(SQL["heartbeat"], int, params)


class CalledOff(NamedTuple):
    """A job that a worker must drop."""

    id: int
    worker_id: int
    fence: int
    why: str


def called_off(ids: Sequence[int], believed: Sequence[tuple[int, int, int]] = ()) -> Query[CalledOff]:
    """*believed* is what the workers themselves say they run: rows of (job, worker, fence)."""
    params = {
        "ids": list(ids),
        "jobs": [job for job, _, _ in believed],
        "holders": [worker_id for _, worker_id, _ in believed],
        "fences": [fence for _, _, fence in believed],
    }
    return Query(SQL["called_off"], CalledOff, params)


def asked_to_drain(ids: Sequence[int]) -> Query[int]:
    return Query(SQL["asked_to_drain"], int, {"ids": list(ids)})


def drain(label: str, *, by: str | None = None) -> Query[int]:
    """The numbers of the executors that were asked; none when nobody works under *label*."""
    return Query(SQL["drain"], int, {"label": label, "by": by})


def holding(ids: Sequence[int], *, limit: int = 1_000) -> Query[HeldJob]:
    return Query(SQL["holding"], HeldJob, {"ids": list(ids), "limit": limit})


class Losses(NamedTuple):
    """How many executors of a label were given up."""

    label: str
    lost: int


def losses() -> Query[Losses]:
    return Query(SQL["losses"], Losses)


def held(worker_id: int, *, limit: int = 10_000) -> Query[tuple[Claim, UUID | None]]:
    """Claims without their inputs, and the tokens with which they were claimed."""
    return Query(SQL["held"], _held, {"worker_id": worker_id, "limit": limit})


def _held(claim_token: UUID | None, *columns: Any) -> tuple[Claim, UUID | None]:
    return Claim(*columns), claim_token


def stopping(ids: Sequence[int]) -> Query[int]:
    return Query(SQL["stopping"], int, {"ids": list(ids)})


@dataclass(frozen=True, slots=True)
class Missing:
    """A worker without any open session. *gone* when it may be given up without looking for its process."""

    id: int
    where: ProcessIdentity
    seen_at: datetime
    gone: bool


def missing(*, absent: float = 3.0) -> Query[Missing]:
    """*absent* is for how many seconds a worker must have been missing before another machine gives it up."""

    def row(
        id: int,
        machine: str | None,
        supervisor: int | None,
        supervisor_started: int | None,
        seen_at: datetime,
        gone: bool,
    ) -> Missing:
        return Missing(id, ProcessIdentity(machine, supervisor, supervisor_started), seen_at, gone)

    return Query(SQL["missing"], row, {"absent": absent})


def give_up(found: Sequence[Missing]) -> Query[int]:
    params = {"ids": [each.id for each in found], "seen": [each.seen_at for each in found]}
    return Query(SQL["give_up"], int, params)


def one(id: int) -> Query[Presence]:
    return Query(SQL["one"], Presence, {"id": id})


def all(
    *, gone: bool = False, label: str | None = None, before: int | None = None, limit: int = 200
) -> Query[Presence]:
    return Query(SQL["all"], Presence, {"gone": gone, "label": label, "before": before, "limit": limit})


def metrics(worker: str | int) -> Query[Metrics]:
    """The totals of all executors with a label, or of the one with a number."""
    label, id = (None, worker) if isinstance(worker, int) else (worker, None)
    return Query(SQL["metrics"], Metrics, {"label": label, "id": id})


def prune(older_than: float, *, limit: int = 1000) -> Query[int]:
    return Query(SQL["prune"], int, {"older_than": older_than, "limit": limit})

"""Who works, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from retoma.model import Metrics, Presence
from retoma.query import Query, load

SQL = load("retoma.store.queries", "workers.sql")


@dataclass(slots=True)
class Pulse:
    """What one heartbeat says of one executor; the figures are totals since it started."""

    id: int
    pid: int = 0
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    recovered: int = 0
    busy: float = 0.0


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
) -> Query[int]:
    params = {
        "label": label,
        "host": host,
        "pid": pid,
        "version": version,
        "queues": list(queues),
        "pipelines": list(pipelines),
        "at_once": at_once,
        "lease": lease,
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
    }
    return Query(SQL["heartbeat"], int, params)


class CalledOff(NamedTuple):
    """A job that a worker must let go of."""

    job: int
    worker_id: int
    fence: int
    why: str


def called_off(ids: Sequence[int], believed: Sequence[tuple[int, int, int]] = ()) -> Query[CalledOff]:
    """*believed* is what the workers run, as far as they know: rows of (job, worker, fence)."""
    params = {
        "ids": list(ids),
        "jobs": [job for job, _, _ in believed],
        "holders": [worker_id for _, worker_id, _ in believed],
        "fences": [fence for _, _, fence in believed],
    }
    return Query(SQL["called_off"], CalledOff, params)


def stopping(ids: Sequence[int]) -> Query[int]:
    return Query(SQL["stopping"], int, {"ids": list(ids)})


def one(id: int) -> Query[Presence]:
    return Query(SQL["one"], Presence, {"id": id})


def all(*, gone: bool = False, limit: int = 200) -> Query[Presence]:
    return Query(SQL["all"], Presence, {"gone": gone, "limit": limit})


def metrics(worker: str | int) -> Query[Metrics]:
    """Of all executors that carry a label, or of the one that has a number."""
    label, id = (None, worker) if isinstance(worker, int) else (worker, None)
    return Query(SQL["metrics"], Metrics, {"label": label, "id": id})


def prune(older_than: float) -> Query[int]:
    return Query(SQL["prune"], int, {"older_than": older_than})

"""Queries about the life of a job."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypedDict
from uuid import UUID

from retoma.model.ids import JobId
from retoma.model.job import AttemptEnding, Claim, Ended, Job, JobState, Receipt, Recovered
from retoma.store.query import Query, array, load
from retoma.store.turns import Turns

SQL = load("retoma.store.queries", "jobs.sql")

MOST_CRASHES = 3
"""A job that has crashed its executor this often is quarantined."""

ALONE_FROM = MOST_CRASHES - 1
"""A job that has been blamed for this many crashes runs alone, so that the last crash proves its cause. The SQL repeats
this number, because the partial index over those jobs does.
"""

BESIDE = "beside"
"""Why an attempt ended that had begun when another job took their executor down."""

MOST_BESIDE = 10
"""A job that was given back so often because another one took their executor down runs alone, without blame."""

MOST_OUTAGES = 20
"""How often a job may be postponed at no cost because the database was unreachable."""


class Order(TypedDict):
    """What the jobs of one enqueue have in common, under the names of the parameters."""

    pipeline: str
    queue: str
    batch_id: int | None
    priority: int
    run_at: datetime | None
    delay: float
    expires: float | None
    max_attempts: int
    timeout: float
    correlation_id: str | None
    traceparent: str | None


def _id_and_state(id: int, state: str, *_: object) -> tuple[int, str]:
    return id, state


def _id(id: int, *_: object) -> int:
    return id


def enqueue(
    order: Order,
    inputs: Sequence[str],
    keys: Sequence[str | None],
    lanes: Sequence[str | None],
    *,
    correlation_ids: Sequence[str | None] = (),
    notify: bool,
) -> Query[Receipt]:
    """*correlation_ids*: one per job, in place of the order's."""
    params = {
        **order,
        "inputs": array(inputs),
        "keys": array(keys),
        "lanes": array(lanes),
        "correlation_ids": array(correlation_ids),
        "notify": notify,
    }
    return Query(SQL["enqueue"], Receipt, params)


def enqueue_one(order: Order, input: str, key: str | None, *, notify: bool) -> Query[Receipt]:
    """As *enqueue*, for one job without a lane."""
    params = {**order, "input": input, "key": key, "notify": notify}
    return Query(SQL["enqueue_one"], _receipt, params)


def _receipt(id: JobId, key: str | None, state: JobState, new: bool, *_: object) -> Receipt:
    return Receipt(id, key, state, new)


def by_keys(order: Order, keys: Sequence[str]) -> Query[Receipt]:
    params = {"pipeline": order["pipeline"], "batch_id": order["batch_id"], "keys": list(keys)}
    return Query(SQL["by_keys"], Receipt, params)


def claim(
    worker_id: int, queues: Sequence[str], pipelines: Sequence[str], *, limit: int, token: UUID, turns: Turns
) -> Query[Claim]:
    """Claims all jobs except those that must run alone."""
    return Query(
        SQL["claim"], Claim, _claiming(worker_id, queues, pipelines, limit, token, turns) | {"suspects": False}
    )


def claim_alone(
    worker_id: int, queues: Sequence[str], pipelines: Sequence[str], *, limit: int, token: UUID, turns: Turns
) -> Query[Claim]:
    """Claims only jobs that must run alone."""
    params = _claiming(worker_id, queues, pipelines, limit, token, turns) | {"suspects": True}
    return Query(SQL["claim_alone"], Claim, params)


def _claiming(
    worker_id: int, queues: Sequence[str], pipelines: Sequence[str], limit: int, token: UUID, turns: Turns
) -> dict[str, Any]:
    return {
        "worker_id": worker_id,
        "queues": list(queues),
        "pipelines": list(pipelines),
        "limit": limit,
        "claim_token": token,
        "after_lanes": [turns.after_lane(each) for each in queues],
        "turned": [turns.turned(each) for each in queues],
    }


def follow(worker_id: int, *, limit: int, token: UUID, turns: Turns) -> Query[Claim]:
    """Claims the next jobs of the lines that *turns* follows."""
    lines = turns.lines
    params = {
        "worker_id": worker_id,
        "limit": limit,
        "claim_token": token,
        "queues": [each.queue for each in lines],
        "lanes": [each.lane_id for each in lines],
        "pipelines": [each.pipeline for each in lines],
        "priorities": [each.priority for each in lines],
        "run_ats": [each.run_at for each in lines],
        "ids": [each.id for each in lines],
        "turned": [turns.turned(each.queue) for each in lines],
    }
    return Query(SQL["follow"], Claim, params)


def suspects(queues: Sequence[str], pipelines: Sequence[str]) -> Query[str]:
    return Query(SQL["suspects"], str, {"queues": list(queues), "pipelines": list(pipelines)})


def adopt(worker_id: int, token: UUID) -> Query[Claim]:
    return Query(SQL["adopt"], Claim, {"worker_id": worker_id, "claim_token": token})


def end(worker_id: int, endings: Sequence[Ended]) -> Query[tuple[int, str]]:
    """*endings* must be sorted by job id: that is the lock order."""
    return Query(SQL["end"], _id_and_state, _said(worker_id, endings))


def end_alone(worker_id: int, endings: Sequence[Ended]) -> Query[tuple[int, str]]:
    """As *end*, for jobs without a batch and without a lane."""
    return Query(SQL["end_alone"], _id_and_state, _said(worker_id, endings))


def _said(worker_id: int, endings: Sequence[Ended]) -> dict[str, Any]:
    return {
        "worker_id": worker_id,
        "ids": array([each.claim.id for each in endings]),
        "fences": array([each.claim.fence for each in endings]),
        "endings": array([each.ending for each in endings]),
        "again": array([each.again for each in endings]),
        "delays": array([each.delay for each in endings]),
        "untils": array([each.until for each in endings]),
        "outputs": array([each.output for each in endings]),
        "reasons": array([each.reason for each in endings]),
        "errors": array([each.error for each in endings]),
        "steps": array([each.step for each in endings]),
        "signals": array([each.signals for each in endings]),
        "seconds": array([each.seconds for each in endings]),
        "reviews": array([each.review for each in endings]),
        "most_outages": MOST_OUTAGES,
    }


def ended(endings: Sequence[Ended]) -> Query[tuple[int, str]]:
    params = {
        "ids": [each.claim.id for each in endings],
        "fences": [each.claim.fence for each in endings],
        "endings": [str(each.ending) for each in endings],
    }
    return Query(SQL["ended"], _id_and_state, params)


@dataclass(frozen=True, slots=True)
class Blame:
    """A job that had begun when its executor ended: how that counts, and its last step."""

    id: int
    ending: AttemptEnding
    step: str | None = None
    delay: float = 0.0
    seconds: float | None = None
    again: bool = True
    alone: bool = False
    """Its code, and no other's, was on the processor: it runs alone from now on."""
    reason: str | None = None
    """Why the attempt ended, when it is not what the executor died of; BESIDE for a job that did not do it."""
    error: str | None = None
    """What is said of it, when it is not what is said of every job."""


def bury(
    worker_id: int,
    blamed: Sequence[Blame],
    *,
    reason: str,
    error: str,
    signal: int | None = None,
    peak_megabytes: float | None = None,
) -> Query[Recovered]:
    params = {
        "worker_id": worker_id,
        "ids": [each.id for each in blamed],
        "endings": [str(each.ending) for each in blamed],
        "delays": [each.delay for each in blamed],
        "steps": [each.step for each in blamed],
        "seconds": [each.seconds for each in blamed],
        "again": [each.again for each in blamed],
        "alone": [each.alone for each in blamed],
        "reasons": [each.reason for each in blamed],
        "errors": [each.error for each in blamed],
        "reason": reason,
        "error": error,
        "signal": signal,
        "peak_megabytes": peak_megabytes,
        "most_crashes": MOST_CRASHES,
        "most_beside": MOST_BESIDE,
    }
    return Query(SQL["bury"], Recovered, params)


def recover(*, limit: int = 20, taken_by: str | None = None) -> Query[Recovered]:
    params = {"limit": limit, "most_crashes": MOST_CRASHES, "every": 0.0, "taken_by": taken_by}
    return Query(SQL["recover"], _recovered, params)


def _recovered(*columns: Any) -> Recovered:
    return Recovered(*columns[:-1])  # the last column only shows that the queues were notified


def overdue(older_than: float, *, limit: int = 1000) -> Query[int]:
    return Query(SQL["overdue"], _id, {"older_than": older_than, "limit": limit})


def expire(*, limit: int = 1000) -> Query[int]:
    return Query(SQL["expire"], _id, {"limit": limit})


def cancel(ids: Sequence[int], *, reason: str = "person") -> Query[tuple[int, str]]:
    return Query(SQL["cancel"], _id_and_state, {"ids": sorted(ids), "reason": reason})


def hold(ids: Sequence[int]) -> Query[int]:
    return Query(SQL["hold"], _id, {"ids": sorted(ids)})


def retry(ids: Sequence[int], *, attempts: int | None = None) -> Query[tuple[int, str]]:
    return Query(SQL["retry"], _id_and_state, {"ids": sorted(ids), "attempts": attempts})


def restart(
    ids: int | Sequence[int], *, attempts: int | None = None, step: str | None = None
) -> Query[tuple[int, str]]:
    which = [ids] if isinstance(ids, int) else sorted(ids)
    return Query(SQL["restart"], _id_and_state, {"ids": which, "attempts": attempts, "step": step})


def discard(ids: Sequence[int], *, by: str, reason: str | None = None) -> Query[tuple[int, str]]:
    return Query(SQL["discard"], _id_and_state, {"ids": sorted(ids), "by": by, "reason": reason})


def reinstate(ids: Sequence[int]) -> Query[tuple[int, str]]:
    return Query(SQL["reinstate"], _id_and_state, {"ids": sorted(ids)})


def move(ids: Sequence[int], queue: str) -> Query[tuple[int, str]]:
    return Query(SQL["move"], _id_and_state, {"ids": sorted(ids), "queue": queue})


def prioritise(ids: Sequence[int], priority: int) -> Query[tuple[int, str]]:
    return Query(SQL["prioritise"], _id_and_state, {"ids": sorted(ids), "priority": priority})


def signal(id: int, name: str, value: str) -> Query[tuple[int, str]]:
    return Query(SQL["signal"], _id_and_state, {"id": id, "name": name, "value": value})


def heard(id: int, name: str) -> Query[str]:
    return Query(SQL["heard"], str, {"id": id, "name": name})


def one(id: int) -> Query[Job]:
    return Query(SQL["one"], Job, {"id": id})


def failed(*, pipeline: str | None, after: int, limit: int = 1000) -> Query[int]:
    return Query(SQL["failed"], _id, {"pipeline": pipeline, "after": after, "limit": limit})


def prune(older_than: float, *, limit: int = 1000) -> Query[int]:
    return Query(SQL["prune"], _id, {"older_than": older_than, "limit": limit})

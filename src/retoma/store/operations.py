"""Queries about operations: commands on many jobs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

import orjson

from retoma.model import validation
from retoma.model.batch import Operation
from retoma.model.operation import JobFilter
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "operations.sql")


class Taken(NamedTuple):
    """An operation whose next piece this transaction has acquired, and the state of its batch."""

    id: int
    batch_id: int | None
    kind: str
    asked: str
    after: int
    left_over: list[int]
    started_at: datetime
    state: str | None
    filter: str | None
    upto: int | None
    asked_by: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """A bounded part of what an operation by a filter concerns, and what it does there."""

    kind: str
    filter: JobFilter
    asked: Mapping[str, Any]
    after: int = 0
    upto: int = validation.LARGEST_ID
    until: datetime | None = None
    ids: Sequence[int] | None = None
    """Only these, in place of those that the filter names."""
    limit: int = 500
    look: int = 10_000

    @property
    def params(self) -> dict[str, Any]:
        named = list(self.filter.ids) if self.ids is None and self.filter.ids else self.ids
        return {
            "kind": self.kind,
            "states": list(self.filter.states),
            "pipeline": self.filter.pipeline,
            "queue": self.filter.queue,
            "batch_id": self.filter.batch_id,
            "fingerprint": self.filter.fingerprint,
            "key_prefix": self.filter.key_prefix,
            "created_after": self.filter.created_after,
            "created_before": self.filter.created_before,
            "ids": None if named is None else sorted(named),
            "after": self.after,
            "upto": self.upto,
            "until": self.until,
            "limit": self.limit,
            "look": self.look,
            "house": validation.HOUSE_QUEUE,
            "to_queue": self.asked.get("queue"),
            "priority": self.asked.get("priority"),
        }


class Counted(NamedTuple):
    """What a part would do, by verdict ("" for what would be done), some of its jobs, and where it stopped."""

    verdicts: str
    sample: str
    batches: list[int]
    stopped: int | None


class Picked(NamedTuple):
    """The jobs of a part: those that are locked now, those that others have locked, and those passed over."""

    ids: list[int]
    locked: list[int]
    skipped: str
    stopped: int | None


def begin(
    batch_id: int,
    kind: str,
    *,
    asked_by: str | None,
    asked: str,
    after: int,
    left_over: Sequence[int],
    wanted: int,
    done: int,
) -> Query[int]:
    params = {
        "batch_id": batch_id,
        "kind": kind,
        "asked_by": asked_by,
        "asked": asked,
        "after": after,
        "left_over": list(left_over),
        "wanted": wanted,
        "done": done,
    }
    return Query(SQL["begin"], int, params)


def come(id: int) -> Query[bool]:
    return Query(SQL["come"], bool, {"id": id})


def take(id: int) -> Query[Taken]:
    return Query(SQL["take"], Taken, {"id": id})


def advance(
    id: int, *, after: int, left_over: Sequence[int], moved: int, skipped: Mapping[str, int] | None = None
) -> Query[int]:
    passed = orjson.dumps(dict(skipped or {})).decode()
    return Query(
        SQL["advance"],
        int,
        {"id": id, "after": after, "left_over": list(left_over), "moved": moved, "skipped": passed},
    )


def finish(id: int, *, error: str | None = None) -> Query[int]:
    return Query(SQL["finish"], int, {"id": id, "error": error})


def open(*, limit: int = 100) -> Query[int]:
    return Query(SQL["open"], int, {"limit": limit})


def one(id: int) -> Query[Operation]:
    return Query(SQL["one"], Operation, {"id": id})


def of(batch_id: int, *, limit: int = 20) -> Query[Operation]:
    return Query(SQL["of"], Operation, {"batch_id": batch_id, "limit": limit})


def page(*, before: int | None = None, under_way: bool = False, limit: int = 50) -> Query[Operation]:
    latest = validation.LARGEST_ID if before is None else before
    return Query(SQL["page"], Operation, {"before": latest, "under_way": under_way, "limit": limit})


def begin_by_filter(
    kind: str, filter: JobFilter, asked: str, *, asked_by: str | None, wanted: int, exact: bool
) -> Query[int]:
    params = {"kind": kind, "filter": filter.text, "asked": asked, "asked_by": asked_by}
    return Query(SQL["begin_by_filter"], int, {**params, "wanted": wanted, "exact": exact})


def count(part: Part, *, sample: int) -> Query[Counted]:
    return Query(SQL["count"], Counted, {**part.params, "sample": sample})


def pick(part: Part) -> Query[Picked]:
    return Query(SQL["pick"], Picked, part.params)


def prune(older_than: float, *, limit: int = 1000) -> Query[int]:
    return Query(SQL["prune"], int, {"older_than": older_than, "limit": limit})

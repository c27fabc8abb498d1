"""Queries about operations: commands on large batches."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from typing import NamedTuple

from retoma.model.batch import Operation
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "operations.sql")


class Taken(NamedTuple):
    """An operation whose next piece this transaction has acquired, and the state of its batch."""

    id: int
    batch_id: int
    kind: str
    asked: str
    after: int
    left_over: list[int]
    started_at: datetime
    state: str


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


def advance(id: int, *, after: int, left_over: Sequence[int], moved: int) -> Query[int]:
    return Query(SQL["advance"], int, {"id": id, "after": after, "left_over": list(left_over), "moved": moved})


def finish(id: int, *, error: str | None = None) -> Query[int]:
    return Query(SQL["finish"], int, {"id": id, "error": error})


def open(*, limit: int = 100) -> Query[int]:
    return Query(SQL["open"], int, {"limit": limit})


def one(id: int) -> Query[Operation]:
    return Query(SQL["one"], Operation, {"id": id})


def of(batch_id: int, *, limit: int = 20) -> Query[Operation]:
    return Query(SQL["of"], Operation, {"batch_id": batch_id, "limit": limit})

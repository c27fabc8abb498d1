"""What the measurements of quotes ask of the tables, as queries."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple

from retoma.model.ids import BatchId
from retoma.store.query import Query, load

SQL = load("retoma.bench.queries", "quote_figures.sql")


class Told(NamedTuple):
    """The calls of an item, as the ledger has them."""

    item: str
    answered: int
    doubtful: int


class Crashed(NamedTuple):
    """Quotes whose process died under them."""

    crashes: int
    alone: int
    """Those that were there twice, and went on alone."""


def _row(*columns: object) -> tuple[object, ...]:
    return columns


def unended(batch_id: BatchId) -> Query[int]:
    return Query(SQL["unended"], int, {"batch_id": batch_id})


def holders(batch_id: BatchId) -> Query[int]:
    return Query(SQL["holders"], int, {"batch_id": batch_id})


def crashed(batch_id: BatchId) -> Query[Crashed]:
    return Query(SQL["crashed"], Crashed, {"batch_id": batch_id})


def seconds(batch_id: BatchId, since: datetime) -> Query[float]:
    return Query(SQL["seconds"], float, {"batch_id": batch_id, "since": since})


def failed(batch_id: BatchId) -> Query[str]:
    return Query(SQL["failed"], str, {"batch_id": batch_id})


def ledger(batch_id: BatchId) -> Query[Told]:
    return Query(SQL["ledger"], Told, {"batch_id": batch_id})


def project() -> Query[tuple[object, ...]]:
    return Query(SQL["project"], _row)


def silent() -> Query[tuple[object, ...]]:
    return Query(SQL["silent"], _row)


def many(first: int, last: int) -> Query[tuple[object, ...]]:
    return Query(SQL["many"], _row, {"first": first, "last": last})

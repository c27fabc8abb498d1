"""Stored files that no row owns, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from typing import NamedTuple

from retoma.store.query import Query, load

SQL = load("retoma.pipelines.files.queries", "unowned_blobs.sql")


def announce(blobs: Sequence[str]) -> Query[str]:
    return Query(SQL["announce"], str, {"blobs": list(blobs)})


def own(blob: str) -> Query[str]:
    return Query(SQL["own"], str, {"blob": blob})


def disown(blob: str) -> Query[str]:
    return Query(SQL["disown"], str, {"blob": blob})


class Loose(NamedTuple):
    """A blob without an owner, and since when."""

    since: datetime
    blob: str


OLDEST = Loose(datetime.min.replace(tzinfo=UTC), "")


def give_up(older_than: float, *, after: Loose = OLDEST, limit: int = 500) -> Query[Loose]:
    params = {"older_than": older_than, "since": after.since, "after": after.blob, "limit": limit}
    return Query(SQL["give_up"], Loose, params)


def forget(blobs: Sequence[str]) -> Query[str]:
    return Query(SQL["forget"], str, {"blobs": list(blobs)})

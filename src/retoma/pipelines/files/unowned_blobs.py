"""Stored files that no row owns, as queries."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.query import Query, load

SQL = load("retoma.pipelines.queries", "loose_blobs.sql")


def announce(blobs: Sequence[str]) -> Query[str]:
    return Query(SQL["announce"], str, {"blobs": list(blobs)})


def own(blob: str) -> Query[str]:
    return Query(SQL["own"], str, {"blob": blob})


def disown(blob: str) -> Query[str]:
    return Query(SQL["disown"], str, {"blob": blob})


def give_up(older_than: float, *, limit: int = 500) -> Query[str]:
    return Query(SQL["give_up"], str, {"older_than": older_than, "limit": limit})


def forget(blobs: Sequence[str]) -> Query[str]:
    return Query(SQL["forget"], str, {"blobs": list(blobs)})

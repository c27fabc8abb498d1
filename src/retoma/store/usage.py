"""Queries about the quotas of HTTP callers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "usage.sql")


@dataclass(frozen=True, slots=True)
class Spent:
    """What a caller has sent today; *seconds* until the next day."""

    bytes: int
    files: int
    seconds: int


def spend(caller: str, bytes: int, files: int, *, most_bytes: int | None, most_files: int | None) -> Query[str]:
    params = {"caller": caller, "bytes": bytes, "files": files, "most_bytes": most_bytes, "most_files": most_files}
    return Query(SQL["spend"], str, params)


def spent(caller: str) -> Query[Spent]:
    return Query(SQL["spent"], Spent, {"caller": caller})


def hold(caller: str) -> Query[bool]:
    return Query(SQL["hold"], bool, {"caller": caller})


def waiting(caller: str, *, most: int) -> Query[int]:
    return Query(SQL["waiting"], int, {"caller": caller, "most": most})


def submitted(caller: str, kind: Literal["job", "batch"], ids: Sequence[int]) -> Query[int]:
    return Query(SQL["submitted"], int, {"caller": caller, "kind": kind, "ids": list(ids)})

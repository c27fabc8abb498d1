"""Queries that check every invariant."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from retoma.model.batch import Breach
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "verify.sql")


class Kept(NamedTuple):
    """A checkpoint, and the checksum it was saved with."""

    job_id: int
    step: str
    generation: int
    value: str
    checksum: str


def held(*, sweep: float) -> Query[Breach]:
    return Query(SQL["held"], Breach, {"sweep": sweep})


def span(after: int, *, limit: int) -> Query[int]:
    return Query(SQL["span"], int, {"after": after, "limit": limit})


def jobs(after: int, upto: int) -> Query[Breach]:
    return Query(SQL["jobs"], Breach, {"after": after, "upto": upto})


def steps(after: int, upto: int) -> Query[Breach]:
    return Query(SQL["steps"], Breach, {"after": after, "upto": upto})


def batches(after: int, *, quick: bool, limit: int) -> Query[int]:
    return Query(SQL["batches"], int, {"after": after, "quick": quick, "limit": limit})


def of_batches(ids: Sequence[int]) -> Query[Breach]:
    return Query(SQL["of_batches"], Breach, {"ids": list(ids)})


def commanded(ids: Sequence[int]) -> Query[Breach]:
    return Query(SQL["commanded"], Breach, {"ids": list(ids)})


def saved(after: tuple[int, str, int] = (0, "", 0), *, limit: int = 1000) -> Query[Kept]:
    job_id, step, generation = after
    params = {"job_id": job_id, "step": step, "generation": generation, "limit": limit}
    return Query(SQL["saved"], Kept, params)

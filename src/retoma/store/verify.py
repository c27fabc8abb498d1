"""Every invariant, as queries."""

from __future__ import annotations

from typing import NamedTuple

from retoma.batch import Breach
from retoma.query import Query, load

SQL = load("retoma.store.queries", "verify.sql")


class Kept(NamedTuple):
    """A checkpoint and the checksum it was saved with."""

    job_id: int
    step: str
    generation: int
    value: str
    checksum: str


def breaches(*, sweep: float, limit: int = 1000) -> Query[Breach]:
    return Query(SQL["breaches"], Breach, {"sweep": sweep, "limit": limit})


def saved(after: tuple[int, str, int] = (0, "", 0), *, limit: int = 1000) -> Query[Kept]:
    job_id, step, generation = after
    params = {"job_id": job_id, "step": step, "generation": generation, "limit": limit}
    return Query(SQL["saved"], Kept, params)

"""Queries about what pages show of batches."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import asdict, dataclass

from retoma.model.batch import Progress
from retoma.model.batch_figures import Bucket, Member
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "batch_figures.sql")

MOST_LETTERS = 100_000
"""Jobs that a mosaic shows."""

_LOOK = 100_000  # jobs whose attempts a series reads
_WIDTHS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14_400, 21_600, 43_200, 86_400)


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberFilter:
    """Which jobs of a batch; a filter that is None does not apply."""

    states: Sequence[str]
    fingerprint: str | None = None
    text: str | None = None
    saved: bool | None = None
    after: int = 0
    limit: int = 50


def standings(ids: Collection[int]) -> Query[Progress]:
    return Query(SQL["standings"], Progress, {"ids": list(ids)})


def mosaic(id: int, *, limit: int = MOST_LETTERS) -> Query[str]:
    return Query(SQL["mosaic"], str, {"id": id, "limit": limit})


def placed(id: int, place: int) -> Query[int]:
    return Query(SQL["placed"], int, {"id": id, "place": place})


def series(id: int, *, buckets: int) -> Query[Bucket]:
    params = {"id": id, "buckets": buckets, "widths": list(map(float, _WIDTHS)), "look": _LOOK}
    return Query(SQL["series"], Bucket, params)


def members(id: int, wanted: MemberFilter) -> Query[Member]:
    return Query(SQL["members"], Member, {"id": id, **asdict(wanted), "states": list(wanted.states)})

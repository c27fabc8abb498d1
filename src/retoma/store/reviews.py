"""Queries about what waits for a person, and what was decided."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from retoma.model.review import Agreed, Decision, DecisionKind, Doubt, Held, Review, Waiting
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "reviews.sql")

MOST_COUNTED = 100_000
"""How many waiting reviews are counted at most."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewFilter:
    """Which reviews; a filter that is None does not apply. *pipelines* are those that the caller may see."""

    pipeline: str | None = None
    pipelines: Sequence[str] | None = None
    batch_id: int | None = None
    label: str | None = None
    sources: Sequence[str] | None = None
    """Where they come from: jobs, and extensions by name."""


def _parameters(wanted: ReviewFilter) -> dict[str, Any]:
    lists = {"pipelines": wanted.pipelines, "sources": wanted.sources}
    return {**asdict(wanted), **{name: None if some is None else list(some) for name, some in lists.items()}}


def file(source: str, doubts: Sequence[Doubt]) -> Query[int]:
    names = {
        "items": "item",
        "job_ids": "job_id",
        "pipelines": "pipeline",
        "batch_ids": "batch_id",
        "titles": "title",
        "reasons": "reason",
        "proposals": "proposal",
        "labels": "label",
        "versions": "version",
        "confidences": "confidence",
        "margins": "margin",
        "sinces": "since",
    }
    columns = {many: [getattr(each, one) for each in doubts] for many, one in names.items()}
    return Query(SQL["file"], int, {"source": source, **columns})


def mine(holder: str, wanted: ReviewFilter, *, seconds: float, ids: Sequence[int] | None = None) -> Query[Review]:
    params = {"holder": holder, "seconds": seconds, "ids": None if ids is None else list(ids), **_parameters(wanted)}
    return Query(SQL["mine"], Review, params)


def lease(holder: str, wanted: ReviewFilter, *, seconds: float, limit: int, skipped: bool) -> Query[Review]:
    """With *skipped*, also those that the holder has skipped before."""
    params = {"holder": holder, "seconds": seconds, "limit": limit, "skipped": skipped, **_parameters(wanted)}
    return Query(SQL["lease"], Review, params)


def release(holder: str, ids: Sequence[int] | None, *, skip: bool) -> Query[int]:
    params = {"holder": holder, "ids": None if ids is None else list(ids), "skip": skip}
    return Query(SQL["release"], int, params)


def hold(id: int, holder: str) -> Query[Held]:
    return Query(SQL["hold"], Held, {"id": id, "holder": holder})


def settle(
    job_id: int, fence: int, *, was: str, state: str, output: str | None, reason: str | None, error: str | None
) -> Query[tuple[int, str]]:
    params = {
        "job_id": job_id,
        "fence": fence,
        "was": was,
        "state": state,
        "output": output,
        "reason": reason,
        "error": error,
    }
    return Query(SQL["settle"], _id_and_state, params)


def _id_and_state(id: int, state: str) -> tuple[int, str]:
    return id, state


def close(id: int, *, gone: bool = False) -> Query[int]:
    return Query(SQL["close"], int, {"id": id, "state": "gone" if gone else "settled"})


def reopen(id: int, holder: str, *, seconds: float) -> Query[int]:
    return Query(SQL["reopen"], int, {"id": id, "holder": holder, "seconds": seconds})


def one(id: int) -> Query[Review]:
    return Query(SQL["one"], Review, {"id": id})


def page(
    wanted: ReviewFilter, *, job_id: int | None = None, after: tuple[float | None, int] | None = None, limit: int
) -> Query[Review]:
    margin, id = after or (None, None)
    params = {"job_id": job_id, "after_margin": margin, "after_id": id, "limit": limit, **_parameters(wanted)}
    return Query(SQL["page"], Review, params)


def counts(wanted: ReviewFilter, *, limit: int = MOST_COUNTED) -> Query[Waiting]:
    return Query(SQL["counts"], Waiting, {"limit": limit, **_parameters(wanted)})


@dataclass(frozen=True, slots=True, kw_only=True)
class NewDecision:
    """A decision, ready to be written."""

    key: str
    who: str
    name: str | None
    kind: DecisionKind
    decided: str | None = None
    decided_label: str | None = None
    note: str | None = None
    seconds: float | None = None
    undoes: int | None = None


def decide(id: int, decision: NewDecision) -> Query[int]:
    return Query(SQL["decide"], int, {"id": id, **asdict(decision), "kind": str(decision.kind)})


def by_key(key: str) -> Query[Decision]:
    return Query(SQL["by_key"], Decision, {"key": key})


def decisions(
    wanted: ReviewFilter,
    *,
    review_id: int | None = None,
    who: str | None = None,
    standing: bool = False,
    before: int | None = None,
    limit: int,
) -> Query[Decision]:
    """With *standing*, those that nobody has undone."""
    params = {"review_id": review_id, "who": who, "standing": standing, "before": before, "limit": limit}
    return Query(SQL["decisions"], Decision, {**params, **_parameters(wanted)})


def export(wanted: ReviewFilter, *, after: int, limit: int) -> Query[Decision]:
    return Query(SQL["export"], Decision, {"after": after, "limit": limit, **_parameters(wanted)})


def agreement(wanted: ReviewFilter) -> Query[Agreed]:
    return Query(SQL["agreement"], Agreed, _parameters(wanted))

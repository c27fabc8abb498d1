"""Refinements of executions, as queries."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import orjson

from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.classification.queries", "refinements.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class LabelGain:
    """What a refinement did to one label. *agreed_before* and *agreed_after* are of its *decided* documents; a document
    never judges itself, so what is agreed after is found without its own example.
    """

    label: str
    decided: int = 0
    agreed_before: int = 0
    agreed_after: int = 0
    results_before: int = 0
    results_after: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class Gain:
    """What a refinement was worth."""

    decided: int = 0
    agreed_before: int = 0
    agreed_after: int = 0
    labels: tuple[LabelGain, ...] = ()
    moves: tuple[tuple[str, str, int], ...] = ()
    """From which label to which, and how many results, the most first."""

    @classmethod
    def read(cls, kept: Mapping[str, Any]) -> Gain:
        """Back from the table."""
        labels = tuple(LabelGain(**each) for each in kept["labels"])
        moves = tuple((before, after, count) for before, after, count in kept["moves"])
        return cls(**{**kept, "labels": labels, "moves": moves})


@dataclass(frozen=True, slots=True)
class Refinement:
    """An execution that was gone through again, or is being. *state* is that of its job; None when that was pruned."""

    id: int
    batch_id: int
    project_id: int
    job_id: int
    asked_by: str
    asked_at: datetime
    state: str | None
    examples: int | None
    total: int | None
    changed: int | None
    gain: Gain | None
    finished_at: datetime | None

    def __post_init__(self) -> None:
        kept: Any = self.gain
        if kept is not None and not isinstance(kept, Gain):
            object.__setattr__(self, "gain", Gain.read(orjson.loads(kept) if isinstance(kept, str) else kept))

    @property
    def at_work(self) -> bool:
        """Whether it has still to end."""
        return self.finished_at is None and self.state in ("queued", "running")


def _first(value: Any, *_: object) -> Any:
    return value


def begin(batch_id: int, project_id: int, job_id: int, *, by: str) -> Query[int]:
    params = {"batch_id": batch_id, "project_id": project_id, "job_id": job_id, "by": by}
    return Query(SQL["begin"], _first, params)


def page(
    *, batch_id: int | None = None, id: int | None = None, open: bool = False, limit: int = 20
) -> Query[Refinement]:
    return Query(SQL["page"], Refinement, {"batch_id": batch_id, "id": id, "open": open, "limit": limit})


def keep_vectors(model: str, made: Mapping[str, bytes]) -> Query[str]:
    params = {"model": model, "hashes": array(list(made)), "vectors": array([each.hex() for each in made.values()])}
    return Query(SQL["keep_vectors"], _first, params)


def tell_desk(batch_id: int) -> Query[int]:
    return Query(SQL["tell_desk"], _first, {"batch_id": batch_id})


def finish(
    batch_id: int, project_id: int, job_id: int, finding_id: int, *, examples: int, total: int, gain: str | None
) -> Query[int]:
    """*gain* is JSON."""
    params = {
        "batch_id": batch_id,
        "project_id": project_id,
        "job_id": job_id,
        "finding_id": finding_id,
        "examples": examples,
        "total": total,
        "gain": gain,
    }
    return Query(SQL["finish"], _first, params)

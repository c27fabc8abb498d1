"""Refinements of executions, as queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
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

    def as_json(self) -> str:
        """As the table keeps it."""
        return orjson.dumps(self).decode()

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


@dataclass(frozen=True, slots=True)
class Material:
    """A result as it is refined."""

    id: int
    document_id: int
    label: str
    confidence: str
    shares: dict[str, float] | None
    text: str
    decided: bool
    example_id: int | None
    said: str | None
    proposed: str
    """What had been found before a person decided; empty when nobody has."""

    def __post_init__(self) -> None:
        if isinstance(self.shares, str):
            object.__setattr__(self, "shares", orjson.loads(self.shares))


@dataclass(frozen=True, slots=True, kw_only=True)
class Change:
    """A result that is another now."""

    id: int
    was: str
    label: str
    confidence: str
    score: float
    margin: float
    justification: str


@dataclass(frozen=True, slots=True)
class Kept:
    """A vector as it is kept."""

    text_sha256: str
    vector: bytes = field(repr=False)


def _first(value: Any, *_: object) -> Any:
    return value


def begin(batch_id: int, project_id: int, job_id: int, *, by: str) -> Query[int]:
    params = {"batch_id": batch_id, "project_id": project_id, "job_id": job_id, "by": by}
    return Query(SQL["begin"], _first, params)


def page(
    *, batch_id: int | None = None, id: int | None = None, open: bool = False, limit: int = 20
) -> Query[Refinement]:
    return Query(SQL["page"], Refinement, {"batch_id": batch_id, "id": id, "open": open, "limit": limit})


def material(batch_id: int, *, after: int = 0, limit: int = 500) -> Query[Material]:
    return Query(SQL["material"], Material, {"batch_id": batch_id, "after": after, "limit": limit})


def vectors(model: str, hashes: Sequence[str]) -> Query[Kept]:
    return Query(SQL["vectors"], Kept, {"model": model, "hashes": array(hashes)})


def keep_vectors(model: str, made: Mapping[str, bytes]) -> Query[str]:
    params = {"model": model, "hashes": array(list(made)), "vectors": array([each.hex() for each in made.values()])}
    return Query(SQL["keep_vectors"], _first, params)


def change(batch_id: int, changes: Sequence[Change]) -> Query[int]:
    params = {
        "batch_id": batch_id,
        "ids": array([each.id for each in changes]),
        "were": array([each.was for each in changes]),
        "labels": array([each.label for each in changes]),
        "confidences": array([each.confidence for each in changes]),
        "scores": array([each.score for each in changes]),
        "margins": array([each.margin for each in changes]),
        "justifications": array([each.justification for each in changes]),
    }
    return Query(SQL["change"], _first, params)


def tell_desk(batch_id: int) -> Query[int]:
    return Query(SQL["tell_desk"], _first, {"batch_id": batch_id})


def finish(batch_id: int, project_id: int, job_id: int, **figures: Any) -> Query[int]:
    """*figures* are examples, total, changed and gain, which is JSON."""
    params = {"batch_id": batch_id, "project_id": project_id, "job_id": job_id, **figures}
    return Query(SQL["finish"], _first, params)

"""What the documents of a batch say of each other, as queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

import orjson

from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.classification.queries", "findings.sql")


@dataclass(frozen=True, slots=True)
class Material:
    """A document of a batch: where it lies, what was found in it alone, and what its result is now."""

    id: int
    sha256: str
    model: str | None
    vector: bytes | None = field(repr=False)
    category: str | None
    subcategory: str | None
    confidence: str | None
    shares: str | None
    decided: bool
    label: str
    band: str
    score: float | None
    margin: float | None
    justification: str
    title: str
    example_id: int | None
    said: str | None
    """What a person said of the document, here or elsewhere in the project."""
    proposed: str
    """What had been found before a person decided; empty when nobody has."""


@dataclass(frozen=True, slots=True)
class Change:
    """A result that becomes another one."""

    result_id: int
    before: dict[str, Any]
    after: dict[str, Any]
    why: dict[str, Any]

    @property
    def moved(self) -> bool:
        """Whether it has another label, and not only another confidence."""
        return any(self.before[name] != self.after[name] for name in ("category", "subcategory"))


@dataclass(frozen=True, slots=True)
class Finding:
    """What a batch said of its documents when it was judged as a whole."""

    id: int
    batch_id: int
    outcome: str
    documents: int
    changed: int
    others: int
    rounds: int
    groups: list[dict[str, Any]]
    """Documents that fit no label: how many, the words that tell them from the others, and the most typical ones."""
    unused: list[str]
    """Labels that no document fits."""
    found_at: datetime
    applied: int
    """How many of the changes are made."""

    def __post_init__(self) -> None:
        for name in ("groups", "unused"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, orjson.loads(value))


def _first(value: Any, *_: object) -> Any:
    return value


def _pair(*row: Any) -> tuple[Any, ...]:
    return row


def place(job_id: int, model: str, vector: bytes) -> Query[int]:
    return Query(SQL["place"], _first, {"job_id": job_id, "model": model, "vector": vector})


def copy_place(job_id: int) -> Query[int]:
    return Query(SQL["copy_place"], _first, {"job_id": job_id})


def unplaced(batch_id: int, model: str, *, after: int, limit: int) -> Query[tuple[int, str]]:
    return Query(SQL["unplaced"], _pair, {"batch_id": batch_id, "model": model, "after": after, "limit": limit})


def put(model: str, places: Sequence[tuple[int, bytes]]) -> Query[int]:
    params = {
        "model": model,
        "results": array([id for id, _ in places]),
        "vectors": array([f"\\x{vector.hex()}" for _, vector in places]),
    }
    return Query(SQL["put"], _first, params)


def material(batch_id: int, *, after: tuple[str, int] = ("", 0), limit: int = 1000) -> Query[Material]:
    params = {"batch_id": batch_id, "sha": after[0], "after": after[1], "limit": limit}
    return Query(SQL["material"], Material, params)


def texts(ids: Sequence[int], *, length: int) -> Query[tuple[int, str]]:
    return Query(SQL["texts"], _pair, {"ids": array(ids), "length": length})


def find(
    batch_id: int,
    job_id: int,
    *,
    outcome: str,
    documents: int,
    changed: int = 0,
    others: int = 0,
    rounds: int = 0,
    groups: Sequence[dict[str, Any]] = (),
    unused: Sequence[str] = (),
) -> Query[int]:
    params = {
        "batch_id": batch_id,
        "job_id": job_id,
        "outcome": outcome,
        "documents": documents,
        "changed": changed,
        "others": others,
        "rounds": rounds,
        "groups": orjson.dumps(list(groups)).decode(),
        "unused": orjson.dumps(list(unused)).decode(),
    }
    return Query(SQL["find"], _first, params)


def plan(finding_id: int, changes: Sequence[Change]) -> Query[int]:
    params = {
        "finding_id": finding_id,
        "results": array([each.result_id for each in changes]),
        "befores": array([orjson.dumps(each.before).decode() for each in changes]),
        "afters": array([orjson.dumps(each.after).decode() for each in changes]),
        "whys": array([orjson.dumps(each.why).decode() for each in changes]),
    }
    return Query(SQL["plan"], _first, params)


def apply(finding_id: int, *, after: int, limit: int) -> Query[tuple[int, bool]]:
    return Query(SQL["apply"], _pair, {"finding_id": finding_id, "after": after, "limit": limit})


def line_up(batch_id: int, turns: Mapping[int, float]) -> Query[int]:
    params = {"batch_id": batch_id, "results": array(list(turns)), "turns": array(list(turns.values()))}
    return Query(SQL["line_up"], _first, params)


def latest(batch_id: int) -> Query[Finding]:
    return Query(SQL["latest"], Finding, {"batch_id": batch_id})

"""What people taught, as queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.classification.queries", "examples.sql")


@dataclass(frozen=True, slots=True)
class Example:
    """A document of which a person said the kind. *proposed* is what had been found."""

    id: int
    project_id: int
    document_id: int
    code: str
    filename: str | None
    batch_id: int | None
    result_id: int | None
    text_sha256: str | None
    label: str
    proposed: str | None
    source: str
    decided_by: str
    decided_at: datetime
    withdrawn_by: str | None
    withdrawn_at: datetime | None


@dataclass(frozen=True, slots=True)
class Taught:
    """An example that was made."""

    id: int
    document_id: int
    result_id: int | None
    label: str


@dataclass(frozen=True, slots=True)
class Known:
    """What somebody said of a document before."""

    document_id: int
    label: str
    decided_by: str
    decided_at: datetime


@dataclass(frozen=True, slots=True)
class TaughtPlace:
    """An example as a batch learns from it: *inside* when its document is in the batch; else with where it lies."""

    id: int
    label: str
    title: str
    inside: bool
    place: bytes | None = field(repr=False)
    kept: bytes | None = field(repr=False)


@dataclass(frozen=True, slots=True)
class LabelCount:
    """How many examples a label has, and of how many of them it had been found before."""

    label: str
    examples: int
    agreed: int


@dataclass(frozen=True, slots=True)
class Withdrawn:
    """An example that counts no more; *back* when the one before it does again."""

    id: int
    result_id: int | None
    back: int


def _pair(*row: Any) -> tuple[Any, ...]:
    return row


def _id(id: int, *_: object) -> int:
    return id


def learn(result_id: int, label: str, *, by: str, source: str) -> Query[int]:
    return Query(SQL["learn"], _id, {"result_id": result_id, "label": label, "by": by, "source": source})


def teach(project_id: int, given: Mapping[int, str], *, by: str, source: str) -> Query[Taught]:
    """*given* has a label for each document."""
    params = {
        "project_id": project_id,
        "documents": array(list(given)),
        "labels": array(list(given.values())),
        "by": by,
        "source": source,
    }
    return Query(SQL["teach"], Taught, params)


def apply(ids: Sequence[int], *, batch_id: int | None = None) -> Query[int]:
    """To the results that the examples were made of, or to those of their documents in a batch."""
    return Query(SQL["apply"], _id, {"ids": array(ids), "batch_id": batch_id})


def known(documents: Sequence[int]) -> Query[Known]:
    return Query(SQL["known"], Known, {"documents": array(documents)})


def page(
    *,
    project_id: int | None = None,
    id: int | None = None,
    document_id: int | None = None,
    all: bool = False,
    after: int = 0,
    limit: int = 1000,
) -> Query[Example]:
    params = {
        "project_id": project_id,
        "id": id,
        "document_id": document_id,
        "all": all,
        "after": after,
        "limit": limit,
    }
    return Query(SQL["page"], Example, params)


def unplaced(project_id: int, batch_id: int, model: str, *, limit: int) -> Query[tuple[str, str]]:
    params = {"project_id": project_id, "batch_id": batch_id, "model": model, "limit": limit}
    return Query(SQL["unplaced"], _pair, params)


def lessons(project_id: int, batch_id: int, model: str) -> Query[TaughtPlace]:
    params = {"project_id": project_id, "batch_id": batch_id, "model": model}
    return Query(SQL["lessons"], TaughtPlace, params)


def counts(project_id: int) -> Query[LabelCount]:
    return Query(SQL["counts"], LabelCount, {"project_id": project_id})


def withdraw(*, id: int | None = None, result_id: int | None = None, by: str) -> Query[Withdrawn]:
    """An example, or the one that was made of a result."""
    return Query(SQL["withdraw"], Withdrawn, {"id": id, "result_id": result_id, "by": by})

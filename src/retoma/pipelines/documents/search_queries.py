"""Chunks by what they mean and by their words, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple
from uuid import UUID

from retoma.pipelines.questions import Weighed, columns
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.documents.queries", "search_queries.sql")


class Place(NamedTuple):
    """Where a chunk is."""

    document_id: UUID
    place: int


class Scored(NamedTuple):
    """Where a chunk is, and how well it fits."""

    document_id: UUID
    place: int
    score: float


class Worded(NamedTuple):
    """Where a chunk is, and how well its words fit."""

    document_id: UUID
    place: int
    share: float
    rank: float


class Packed(NamedTuple):
    """Where a chunk is, and its vector as the database sends arrays."""

    document_id: UUID
    place: int
    vector: bytes


class Shown(NamedTuple):
    """What people see of a chunk."""

    document_id: UUID
    place: int
    filename: str
    page_start: int
    page_end: int
    section_type: str
    title: str | None
    snippet: str


NOWHERE = Place(UUID(int=0), -1)
"""Before every chunk."""


def near(vector: Sequence[float], *, provider: str, model: str, limit: int) -> Query[Scored]:
    params = {"vector": list(vector), "provider": provider, "model": model, "limit": limit}
    return Query(SQL["near"], Scored, params)


def near_wide(vector: Sequence[float], *, provider: str, model: str, limit: int) -> Query[Scored]:
    params = {"vector": list(vector), "provider": provider, "model": model, "limit": limit}
    return Query(SQL["near_wide"], Scored, params)


def vectors(*, provider: str, model: str, dimensions: int, after: Place, limit: int) -> Query[Packed]:
    params = {
        "provider": provider,
        "model": model,
        "dimensions": dimensions,
        "after_document": after.document_id,
        "after_place": after.place,
        "limit": limit,
    }
    return Query(SQL["vectors"], Packed, params)


def weighed(sought: Sequence[str]) -> Query[Weighed]:
    return Query(SQL["weighed"], Weighed, {"sought": list(sought)})


def by_words(words: Sequence[Weighed], *, limit: int) -> Query[Worded]:
    return Query(SQL["by_words"], Worded, {**columns(words), "limit": limit})


def shown(words: Sequence[Weighed], places: Sequence[Place]) -> Query[Shown]:
    params = {
        **columns(words),
        "documents": [each.document_id for each in places],
        "places": [each.place for each in places],
    }
    return Query(SQL["shown"], Shown, params)

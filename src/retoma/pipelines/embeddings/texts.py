"""Texts and their vectors, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from retoma.pipelines.questions import Weighed, columns
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.embeddings.queries", "texts.sql")


class Space(NamedTuple):
    """Where vectors may be compared: in one site, and with those of the same model."""

    organisation: str
    site: str
    provider: str
    model: str


class Known(NamedTuple):
    """A content that has its vector; *place* counts from 1."""

    place: int
    id: int
    job_id: int


class Near(NamedTuple):
    """A text, and the cosine between it and what was asked."""

    id: int
    similarity: float


class Worded(NamedTuple):
    """A text, and how well its words fit."""

    id: int
    share: float
    rank: float


class Placed(NamedTuple):
    """A text and its vector."""

    id: int
    vector: list[float]


class Told(NamedTuple):
    """What a text says where it fits, and who says it."""

    id: int
    content_hash: str
    language: str | None
    excerpt: str
    source_types: list[str]
    source_ids: list[str]


def hold(sites: Sequence[tuple[str, str]]) -> Query[bool]:
    params = {"organisations": [each[0] for each in sites], "sites": [each[1] for each in sites]}
    return Query(SQL["hold"], bool, params)


def share(organisation: str, site: str) -> Query[bool]:
    return Query(SQL["share"], bool, {"organisation": organisation, "site": site})


def known(contents: Sequence[tuple[str, str, str]], *, provider: str, model: str) -> Query[Known]:
    """*contents* are rows of (organisation, site, hash)."""
    params = {
        "organisations": [each[0] for each in contents],
        "sites": [each[1] for each in contents],
        "hashes": [each[2] for each in contents],
        "provider": provider,
        "model": model,
    }
    return Query(SQL["known"], Known, params)


def store(
    space: Space,
    *,
    content_hash: str,
    content: str,
    language: str | None,
    vector: Sequence[float],
    job_id: int,
    correlation_id: str | None,
) -> Query[int]:
    params = {
        **space._asdict(),
        "content_hash": content_hash,
        "content": content,
        "language": language,
        "vector": list(vector),
        "job_id": job_id,
        "correlation_id": correlation_id,
    }
    return Query(SQL["store"], int, params)


def near_small(space: Space, query: Sequence[float], *, limit: int) -> Query[Near]:
    return Query(SQL["near_small"], Near, _around(space, query, limit))


def near_large(space: Space, query: Sequence[float], *, limit: int) -> Query[Near]:
    return Query(SQL["near_large"], Near, _around(space, query, limit))


def _around(space: Space, query: Sequence[float], limit: int) -> dict[str, Any]:
    return {**space._asdict(), "query": list(query), "limit": limit}


def page(space: Space, *, dimensions: int, after: int, limit: int) -> Query[Placed]:
    params = {**space._asdict(), "dimensions": dimensions, "after": after, "limit": limit}
    return Query(SQL["page"], Placed, params)


def weighed(sought: Sequence[str]) -> Query[Weighed]:
    return Query(SQL["weighed"], Weighed, {"sought": list(sought)})


def worded(space: Space, words: Sequence[Weighed], *, limit: int) -> Query[Worded]:
    return Query(SQL["worded"], Worded, {**space._asdict(), **columns(words), "limit": limit})


def told(ids: Sequence[int], *, words: Sequence[Weighed]) -> Query[Told]:
    return Query(SQL["told"], Told, {**columns(words), "ids": list(ids)})


def stored(organisation: str | None = None, site: str | None = None) -> Query[int]:
    return Query(SQL["stored"], int, {"organisation": organisation, "site": site})

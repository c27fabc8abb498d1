"""Sources and their versions, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from retoma.pipelines.embeddings.texts import Space
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.embeddings.queries", "sources.sql")

Source = tuple[str, str, str, str]
"""Organisation, site, type and id."""


class Latest(NamedTuple):
    """The newest version of a source; *place* counts from 1."""

    place: int
    id: int
    version: int
    content_hash: str
    job_id: int
    active: bool


class Beginning(NamedTuple):
    """A version to be written; *stored* when its vector is there."""

    source: Source
    version: int
    content_hash: str
    language: str | None
    job_id: int
    stored: bool


@dataclass(frozen=True, slots=True)
class Version:
    """What a source said once: *state* is ``active``, ``off``, or how the job stands that it waits for."""

    provider: str
    model: str
    version: int
    state: str
    content_hash: str
    text: str | None
    """What was said, once it is embedded."""
    language: str | None
    job_id: int
    correlation_id: str | None
    created_at: datetime
    switched_on_at: datetime | None
    switched_off_at: datetime | None


class Counted(NamedTuple):
    """How many versions are in a state."""

    state: str
    versions: int


def latest(sources: Sequence[Source], *, provider: str, model: str) -> Query[Latest]:
    return Query(SQL["latest"], Latest, {**_columns(sources), "provider": provider, "model": model})


def supersede(beginnings: Sequence[Beginning], *, provider: str, model: str) -> Query[int]:
    params = {
        **_columns([each.source for each in beginnings]),
        "stored": [each.stored for each in beginnings],
        "provider": provider,
        "model": model,
    }
    return Query(SQL["supersede"], int, params)


def begin(beginnings: Sequence[Beginning], *, provider: str, model: str, correlation_id: str | None) -> Query[int]:
    params = {
        **_columns([each.source for each in beginnings]),
        "versions": [each.version for each in beginnings],
        "hashes": [each.content_hash for each in beginnings],
        "languages": [each.language for each in beginnings],
        "jobs": [each.job_id for each in beginnings],
        "stored": [each.stored for each in beginnings],
        "provider": provider,
        "model": model,
        "correlation_id": correlation_id,
    }
    return Query(SQL["begin"], int, params)


def assign(waiting: Sequence[tuple[int, int]]) -> Query[int]:
    """*waiting* are rows of (version, job)."""
    params = {"ids": [each[0] for each in waiting], "jobs": [each[1] for each in waiting]}
    return Query(SQL["assign"], int, params)


def switch_off(space: Space, content_hash: str) -> Query[int]:
    return Query(SQL["switch_off"], int, {**space._asdict(), "content_hash": content_hash})


def switch_on(space: Space, content_hash: str) -> Query[int]:
    return Query(SQL["switch_on"], int, {**space._asdict(), "content_hash": content_hash})


def versions(source: Source) -> Query[Version]:
    names = ("organisation", "site", "source_type", "source_id")
    return Query(SQL["versions"], Version, dict(zip(names, source, strict=True)))


def states(organisation: str | None = None, site: str | None = None) -> Query[Counted]:
    return Query(SQL["states"], Counted, {"organisation": organisation, "site": site})


def _columns(sources: Sequence[Source]) -> dict[str, Any]:
    names = ("organisations", "sites", "source_types", "source_ids")
    return {name: [each[place] for each in sources] for place, name in enumerate(names)}

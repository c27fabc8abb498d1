"""Queries that search jobs by their properties."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any, NamedTuple

from retoma.model.job import Job, JobState
from retoma.model.operation import JobFilter
from retoma.model.view import Hit
from retoma.store.query import Query, load

SQL = load("retoma.store.queries", "looking.sql")

AT_MOST = 20_000
"""How many rows one scan visits."""

_MOST_KINDS = 1_000  # lanes and pipelines with waiting jobs; one index step each

_OUTCOMES = {"failed", "review", "cancelled", "skipped"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """Which jobs; a filter that is None does not apply."""

    state: str | None = None
    pipeline: str | None = None
    queue: str | None = None
    key: str | None = None
    batch_id: int | None = None


class Walked(NamedTuple):
    """What a scan found, newest first, and where it stopped when there may be more."""

    ids: list[int]
    stopped: int | None


class WalkedKind(NamedTuple):
    """What was found to the end of the table, newest first; not *whole* when too many jobs wait to be read."""

    ids: list[int]
    whole: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Which part of a list: before an id, how many, and how many rows may be visited for them."""

    before: int
    limit: int
    look: int = AT_MOST


def walk_for(wanted: Filter, span: Span) -> Query[Walked]:
    """Scans the most selective index for what is *wanted*."""
    if wanted.key is not None:
        return walk_key(wanted, span)
    if wanted.batch_id is not None:
        return walk_batch(wanted, span)
    if wanted.state == "running":
        return walk_running(wanted, span)
    return walk_outcome(wanted, span) if wanted.state in _OUTCOMES else walk(wanted, span)


def _params(wanted: Filter, span: Span) -> dict[str, Any]:
    return {**asdict(wanted), **asdict(span)}


def walk(wanted: Filter, span: Span) -> Query[Walked]:
    return Query(SQL["walk"], Walked, _params(wanted, span))


def walk_kind(wanted: Filter, span: Span) -> Query[WalkedKind]:
    """Searches to the end of the table, for jobs that a bounded scan did not reach."""
    return Query(SQL["walk_kind"], WalkedKind, _params(wanted, span) | {"kinds": _MOST_KINDS})


def knows_kind(wanted: Filter) -> bool:
    """Whether *walk_kind* supports this filter."""
    return wanted.key is None and wanted.batch_id is None and wanted.state in (None, "queued", "completed")


def walk_outcome(wanted: Filter, span: Span) -> Query[Walked]:
    return Query(SQL["walk_outcome"], Walked, _params(wanted, span))


def walk_running(wanted: Filter, span: Span) -> Query[Walked]:
    return Query(SQL["walk_running"], Walked, _params(wanted, span))


def walk_batch(wanted: Filter, span: Span) -> Query[Walked]:
    states = [wanted.state] if wanted.state else [str(each) for each in JobState]
    return Query(SQL["walk_batch"], Walked, _params(wanted, span) | {"states": states})


def walk_key(wanted: Filter, span: Span) -> Query[Walked]:
    return Query(SQL["walk_key"], Walked, _params(wanted, span))


def some(ids: Sequence[int], *, content: bool) -> Query[Job]:
    return Query(SQL["some"], Job, {"ids": list(ids), "content": content})


def walk_failed(wanted: JobFilter, span: Span, *, discarded: bool) -> Query[Walked]:
    """Failures that nobody has settled; with *discarded*, those that somebody has."""
    fields = ("pipeline", "queue", "batch_id", "fingerprint", "key_prefix", "created_after", "created_before")
    said = {name: getattr(wanted, name) for name in fields}
    return Query(SQL["walk_failed"], Walked, {**said, **asdict(span), "discarded": discarded})


def hits(text: str, id: int | None, *, pipeline: str | None, limit: int) -> Query[Hit]:
    return Query(SQL["hits"], Hit, {"text": text, "id": id, "pipeline": pipeline, "limit": limit})


def keyed(text: str, *, pipeline: str | None, limit: int, before: int, look: int = AT_MOST) -> Query[Hit]:
    params = {"text": text, "pipeline": pipeline, "limit": limit, "before": before, "look": look}
    return Query(SQL["keyed"], Hit, params)

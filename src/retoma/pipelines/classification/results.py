"""Results, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from retoma.pipelines.classification.model import Result
from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.classification.queries", "results.sql")


def _first(value: Any, *_: object) -> Any:
    return value


def begin(batch_id: int, pairs: Sequence[tuple[int, int]]) -> Query[int]:
    """A row for each pair of document and job."""
    params = {
        "batch_id": batch_id,
        "documents": array([document for document, _ in pairs]),
        "jobs": array([job for _, job in pairs]),
    }
    return Query(SQL["begin"], _first, params)


def given(job_id: int, document_id: int, *, sha: str | None, blob: str | None) -> Query[int]:
    return Query(SQL["given"], _first, {"job_id": job_id, "document_id": document_id, "sha": sha, "blob": blob})


def copy_known(job_id: int, settings_hash: str) -> Query[int]:
    """The batch that found it before with these settings, when one did."""
    return Query(SQL["copy_known"], _first, {"job_id": job_id, "settings_hash": settings_hash})


def save(job_id: int, found: dict[str, Any]) -> Query[int]:
    return Query(SQL["save"], _first, {"job_id": job_id, **found})


def page(
    batch_id: int,
    *,
    category: str | None = None,
    confidence: str | None = None,
    states: Sequence[str] | None = None,
    jobs: Sequence[int] | None = None,
    after: int = 0,
    limit: int = 1000,
) -> Query[Result]:
    params = {
        "batch_id": batch_id,
        "category": category,
        "confidence": confidence,
        "states": None if states is None else array(states),
        "jobs": None if jobs is None else array(jobs),
        "after": after,
        "limit": limit,
    }
    return Query(SQL["page"], Result, params)


def mosaic(batch_id: int) -> Query[str]:
    return Query(SQL["mosaic"], _first, {"batch_id": batch_id})


def categories(batch_id: int) -> Query[tuple[str, str, int]]:
    return Query(SQL["categories"], lambda *row: row, {"batch_id": batch_id})

"""Lists that became batches, as queries."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.pipelines.quotes.model import BatchItem, QuoteBatch
from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.quotes.queries", "batches.sql")


def create(
    id: int,
    *,
    project_id: int,
    config_version_id: int,
    input_type: str,
    by: str,
    filename: str | None = None,
    sha256: str | None = None,
    columns: str | None = None,
) -> Query[int]:
    params = {
        "id": id,
        "project_id": project_id,
        "config_version_id": config_version_id,
        "input_type": input_type,
        "filename": filename,
        "sha256": sha256,
        "columns": columns,
        "by": by,
    }
    return Query(SQL["create"], int, params)


def put_items(batch_id: int, items: Sequence[BatchItem]) -> Query[int]:
    params = {
        "batch_id": batch_id,
        "lines": array([each.line for each in items]),
        "quotes": array([each.quote_id for each in items]),
        "problems": array([each.problem for each in items]),
        "messages": array([each.message for each in items]),
        "said": array([each.said for each in items]),
    }
    return Query(SQL["put_items"], int, params)


def page(
    *, id: int | None = None, project_id: int | None = None, before: int | None = None, limit: int = 50
) -> Query[QuoteBatch]:
    return Query(SQL["page"], QuoteBatch, {"id": id, "project_id": project_id, "before": before, "limit": limit})


def same(sha256: str, config_version_id: int) -> Query[int]:
    return Query(SQL["same"], int, {"sha256": sha256, "config_version_id": config_version_id})


def items(batch_id: int, *, after: int = 0, only_problems: bool = False, limit: int = 1000) -> Query[BatchItem]:
    params = {"batch_id": batch_id, "after": after, "only_problems": only_problems, "limit": limit}
    return Query(SQL["items"], BatchItem, params)

"""Decisions of people, and closed reports, as queries."""

from __future__ import annotations

from collections.abc import Sequence

from retoma.pipelines.quotes.model import ClosedReport, Review
from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.quotes.queries", "reviews.sql")


def put(
    quote_id: int, action: str, *, reason: str, by: str, was: str, after: str, source_id: int | None = None
) -> Query[int]:
    params = {
        "quote_id": quote_id,
        "source_id": source_id,
        "action": action,
        "reason": reason,
        "by": by,
        "was": was,
        "after": after,
    }
    return Query(SQL["put"], int, params)


def page(quote_id: int) -> Query[Review]:
    return Query(SQL["page"], Review, {"quote_id": quote_id})


def of_many(quotes: Sequence[int]) -> Query[Review]:
    return Query(SQL["of_many"], Review, {"quotes": array(list(quotes))})


def close(
    *,
    content: str,
    sha256: str,
    by: str,
    quote_id: int | None = None,
    batch_id: int | None = None,
    pdf_blob: str | None = None,
    xlsx_blob: str | None = None,
) -> Query[int]:
    params = {
        "quote_id": quote_id,
        "batch_id": batch_id,
        "content": content,
        "sha256": sha256,
        "pdf_blob": pdf_blob,
        "xlsx_blob": xlsx_blob,
        "by": by,
    }
    return Query(SQL["close"], int, params)


def closed(
    *,
    id: int | None = None,
    quote_id: int | None = None,
    batch_id: int | None = None,
    sha256: str | None = None,
    whole: bool = False,
) -> Query[ClosedReport]:
    params = {"id": id, "quote_id": quote_id, "batch_id": batch_id, "sha256": sha256, "whole": whole}
    return Query(SQL["closed"], ClosedReport, params)


def closed_items(id: int, *, after: int, limit: int) -> Query[str]:
    return Query(SQL["closed_items"], str, {"id": id, "after": after, "limit": limit})

"""Products that were tested, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson

from retoma.pipelines.quotes.model import Source
from retoma.pipelines.quotes.ports import Evidence, Picture
from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.quotes.queries", "sources.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Tested:
    """What came of testing a product; with a *reason* it does not count."""

    key: str
    kind: str
    provider: str
    title: str
    seller: str | None = None
    url: str | None = None
    domain: str | None = None
    page_title: str | None = None
    listed_price: Decimal | None = None
    price: Decimal | None = None
    currency: str = "BRL"
    dated: datetime | None = None
    method: str | None = None
    evidence: Evidence | None = None
    reason: str | None = None
    message: str | None = None
    detail: dict[str, str] = field(default_factory=dict)

    @property
    def is_valid(self) -> bool:
        return self.reason is None


def save(quote_id: int, tested: Tested, *, by: str | None = None) -> Query[int]:
    told = row(tested, by=by)
    params = {**told, "quote_id": quote_id, "detail": orjson.dumps(told["detail"]).decode()}
    return Query(SQL["save"], int, params)


def row(tested: Tested, *, by: str | None = None) -> dict[str, Any]:
    """What is written of a product."""
    seen = tested.evidence
    return {
        "key": tested.key,
        "kind": tested.kind,
        "provider": tested.provider,
        "title": tested.title,
        "seller": tested.seller,
        "url": tested.url,
        "domain": tested.domain,
        "page_title": tested.page_title,
        "listed_price": tested.listed_price,
        "price": tested.price,
        "currency": tested.currency,
        "dated": tested.dated,
        "method": tested.method,
        "evidence_blob": seen.blob if seen else None,
        "evidence_sha256": seen.sha256 if seen else None,
        "evidence_kind": seen.kind if seen else None,
        "screenshot": seen.screenshot if seen else None,
        "screenshot_sha256": seen.screenshot_sha256 if seen else None,
        "without_screenshot": seen.without_screenshot if seen else None,
        "captured_at": seen.captured_at if seen else None,
        "is_valid": tested.is_valid,
        "reason": tested.reason,
        "message": tested.message,
        "detail": tested.detail,
        "by": by,
    }


def page(quotes: Sequence[int]) -> Query[Source]:
    return Query(SQL["page"], Source, {"quotes": array(list(quotes))})


def drop(quote_id: int, id: int, *, why: str) -> Query[int]:
    return Query(SQL["drop"], int, {"quote_id": quote_id, "id": id, "why": why})


def take(quote_id: int, id: int, *, why: str) -> Query[int]:
    return Query(SQL["take"], int, {"quote_id": quote_id, "id": id, "why": why})


def picture(quote_id: int, id: int, taken: Picture) -> Query[int]:
    params = {"quote_id": quote_id, "id": id, "blob": taken.blob, "sha256": taken.sha256, "missing": taken.missing}
    return Query(SQL["picture"], int, params)

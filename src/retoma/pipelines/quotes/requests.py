"""Quotes, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any

import orjson

from retoma.pipelines.quotes.conditions import Condition
from retoma.pipelines.quotes.images import KeptImage
from retoma.pipelines.quotes.model import (
    Figures,
    Quote,
    RecoveredQuote,
    Share,
    Stats,
    StuckQuote,
    Wanted,
)
from retoma.pipelines.quotes.stages import OLD_HOURS, STUCK_MINUTES
from retoma.store.query import Query, array, load

SQL = load("retoma.pipelines.quotes.queries", "requests.sql")

_WRITTEN = {
    "PENDING": ("PENDING",),
    "PROCESSING": ("PENDING", "PROCESSING"),
    "ERROR": ("PENDING", "PROCESSING", "ERROR"),
    "CANCELLED": ("PENDING", "PROCESSING", "CANCELLED"),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NewQuote:
    """A row that is to come: its job, and the item."""

    job_id: int
    text: str
    code: str | None = None
    place: str | None = None
    unit: str | None = None
    quantity: Decimal | None = None
    images: Sequence[KeptImage] = ()
    condition: Condition | None = None
    index: int | None = None


def create(
    given: Sequence[NewQuote],
    *,
    project_id: int,
    config_version_id: int,
    input_type: str,
    researcher: str | None,
    by: str,
    batch_id: int | None = None,
    original_quote_id: int | None = None,
    requote_number: int = 0,
) -> Query[tuple[int, int | None]]:
    def row(id: int, batch_index: int | None) -> tuple[int, int | None]:
        return id, batch_index

    params = {
        "project_id": project_id,
        "config_version_id": config_version_id,
        "input_type": input_type,
        "pesquisador": researcher,
        "original_quote_id": original_quote_id,
        "requote_number": requote_number,
        "batch_job_id": batch_id,
        "by": by,
        "jobs": array([each.job_id for each in given]),
        "texts": array([each.text for each in given]),
        "blobs": array([each.images[0].blob if each.images else None for each in given]),
        "shas": array([each.images[0].sha256 if each.images else None for each in given]),
        "kinds": array([each.images[0].kind if each.images else None for each in given]),
        "more": array([_more(each.images) for each in given]),
        "codes": array([each.code for each in given]),
        "places": array([each.place for each in given]),
        "units": array([each.unit for each in given]),
        "quantities": array([each.quantity for each in given]),
        "conservations": array([each.condition and str(each.condition.conservation) for each in given]),
        "used": array([None if each.condition is None else each.condition.years_used for each in given]),
        "left": array([None if each.condition is None else each.condition.years_left for each in given]),
        "book_values": array([None if each.condition is None else each.condition.book_value for each in given]),
        "indexes": array([each.index for each in given]),
    }
    return Query(SQL["create"], row, params)


def _more(images: Sequence[KeptImage]) -> str | None:
    """The photographs after the first, as the row has them."""
    told = [{"blob": each.blob, "sha256": each.sha256, "kind": each.kind} for each in images[1:]]
    return orjson.dumps(told).decode() if told else None


def wanted(job_id: int) -> Query[Wanted]:
    return Query(SQL["wanted"], Wanted, {"job_id": job_id})


def init(job_id: int, *, step: str, percentage: int) -> Query[Wanted]:
    return Query(SQL["init"], Wanted, {"job_id": job_id, "step": step, "percentage": percentage})


def begin(job_id: int) -> Query[int]:
    return Query(SQL["begin"], int, {"job_id": job_id})


def advance(
    id: int,
    *,
    step: str,
    percentage: int,
    checkpoint: str | None = None,
    details: str | None = None,
    resume_data: str | None = None,
    analysis: str | None = None,
    query: str | None = None,
    shopping: str | None = None,
) -> Query[int]:
    params = {
        "id": id,
        "step": step,
        "percentage": percentage,
        "checkpoint": checkpoint,
        "details": details,
        "resume_data": resume_data,
        "analysis": analysis,
        "query": query,
        "shopping": shopping,
    }
    return Query(SQL["advance"], int, params)


def advance_tested(id: int, given: str, **told: Any) -> Query[int]:
    return Query(SQL["advance_tested"], int, {**advance(id, **told).params, "given": given})


def finish(
    id: int,
    status: str,
    *,
    step: str,
    figures: Figures = Figures(),
    checkpoint: str | None = None,
    percentage: int | None = None,
    error: str | None = None,
    accepted: Sequence[str] = (),
) -> Query[int]:
    params = {
        **_figures(figures),
        "id": id,
        "keys": array(list(accepted)),
        "status": status,
        "step": step,
        "checkpoint": checkpoint,
        "percentage": percentage,
        "error": error,
    }
    return Query(SQL["finish"], int, params)


def page(
    *,
    id: int | None = None,
    job_id: int | None = None,
    batch_id: int | None = None,
    project_id: int | None = None,
    statuses: Sequence[str] | None = None,
    search: str | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    before: int | None = None,
    offset: int = 0,
    limit: int = 50,
    whole: bool = False,
) -> Query[Quote]:
    written = None if statuses is None else sorted({one for each in statuses for one in _WRITTEN.get(each, (each,))})
    params = {
        "id": id,
        "job_id": job_id,
        "batch_id": batch_id,
        "project_id": project_id,
        "statuses": None if statuses is None else array(list(statuses)),
        "written": None if written is None else array(written),
        "search": search,
        "since": since,
        "until": until,
        "before": before,
        "offset": offset,
        "limit": limit,
        "whole": whole,
    }
    return Query(SQL["page"], Quote, params)


def stuck(*, batch_id: int | None = None, minutes: int = STUCK_MINUTES, limit: int = 1000) -> Query[StuckQuote]:
    return Query(SQL["stuck"], StuckQuote, {"batch_id": batch_id, "minutes": minutes, "limit": limit})


def stats(*, minutes: int = STUCK_MINUTES) -> Query[Stats]:
    return Query(SQL["stats"], Stats, {"minutes": minutes})


def distribution(batch_id: int, *, minutes: int = STUCK_MINUTES) -> Query[Share]:
    return Query(SQL["distribution"], Share, {"batch_id": batch_id, "minutes": minutes})


def recover(
    *, id: int | None = None, batch_id: int | None = None, minutes: int = STUCK_MINUTES
) -> Query[RecoveredQuote]:
    def row(id: int, attempt_number: int, processing_checkpoint: str | None) -> RecoveredQuote:
        return RecoveredQuote(id, attempt_number, processing_checkpoint)

    return Query(SQL["recover"], row, {"id": id, "batch_id": batch_id, "minutes": minutes})


def settle() -> Query[int]:
    return Query(SQL["settle"], int)


def give_up(*, hours: int = OLD_HOURS) -> Query[int]:
    return Query(SQL["give_up"], int, {"hours": hours})


def cancel(*, id: int | None = None, batch_id: int | None = None) -> Query[tuple[int, int]]:
    def row(id: int, job_id: int) -> tuple[int, int]:
        return id, job_id

    return Query(SQL["cancel"], row, {"id": id, "batch_id": batch_id})


def reset(batch_id: int) -> Query[int]:
    return Query(SQL["reset"], int, {"batch_id": batch_id})


def decide(id: int, status: str, *, step: str, figures: Figures, error: str | None = None) -> Query[int]:
    params = {**_figures(figures), "id": id, "status": status, "step": step, "error": error}
    return Query(SQL["decide"], int, params)


def hold_many(ids: Sequence[int]) -> Query[int]:
    return Query(SQL["hold_many"], int, {"ids": array(list(ids))})


def hold(id: int) -> Query[str]:
    return Query(SQL["hold"], str, {"id": id})


def _figures(figures: Figures) -> dict[str, Any]:
    return {
        "mean": figures.mean,
        "lowest": figures.lowest,
        "highest": figures.highest,
        "spread": figures.spread,
    }

"""Calls and prices, as queries."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal

from retoma.call import Call, Opened, Price, Spend
from retoma.query import Query, load

SQL = load("retoma.store.queries", "calls.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A request that is about to be made."""

    tenant: str
    key: str
    provider: str
    model: str
    job_id: int | None
    """None when no job asks."""
    fence: int | None
    worker_id: int | None
    step: str
    kind: str
    request: str
    reserved: Decimal
    reuse: bool
    patience: float
    """Seconds for which those who ask the same wait for its answer."""
    kept: float = 0.0
    """Seconds for which the result of what was handed in can be looked for."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """An answer, as it is written down."""

    answer: str
    text: str
    finish: str | None
    request_id: str | None
    cost: Decimal
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    units: int


def _id(id: int, *_: object) -> int:
    return id


def open(intent: Intent) -> Query[Opened]:
    params = {
        "tenant": intent.tenant,
        "key": intent.key,
        "provider": intent.provider,
        "model": intent.model,
        "job_id": intent.job_id,
        "fence": intent.fence,
        "worker_id": intent.worker_id,
        "step": intent.step,
        "kind": intent.kind,
        "request": intent.request,
        "reserved": intent.reserved,
        "reuse": intent.reuse,
        "patience": intent.patience,
        "kept": intent.kept,
    }
    return Query(SQL["open"], Opened, params)


def withdraw(id: int) -> Query[int]:
    return Query(SQL["withdraw"], _id, {"id": id})


def accept(id: int, operation: str) -> Query[int]:
    return Query(SQL["accept"], _id, {"id": id, "request_id": operation})


def rest(
    id: int, *, worker_id: int, status: int | None = None, error: str | None = None, text: str | None = None
) -> Query[int]:
    """*error* is why its result was not found, *text* what came in its place."""
    return Query(SQL["rest"], _id, {"id": id, "worker_id": worker_id, "status": status, "error": error, "text": text})


def answer(id: int, settled: Settled) -> Query[int]:
    params = {
        "id": id,
        "answer": settled.answer,
        "text": settled.text,
        "finish": settled.finish,
        "request_id": settled.request_id,
        "cost": settled.cost,
        "input_tokens": settled.input_tokens,
        "output_tokens": settled.output_tokens,
        "cached_tokens": settled.cached_tokens,
        "units": settled.units,
    }
    return Query(SQL["answer"], _id, params)


def fail(id: int, *, paid: bool | None, status: int | None, error: str, text: str | None = None) -> Query[int]:
    """*text* is what came in place of an answer, for people."""
    return Query(SQL["fail"], _id, {"id": id, "paid": paid, "status": status, "error": error, "text": text})


def one(id: int) -> Query[Call]:
    return Query(SQL["one"], Call, {"id": id})


def page(
    *,
    job_id: int | None = None,
    batch_id: int | None = None,
    state: str | None = None,
    provider: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> Query[Call]:
    params = {
        "job_id": job_id,
        "batch_id": batch_id,
        "state": state,
        "provider": provider,
        "before": before,
        "limit": limit,
    }
    return Query(SQL["page"], Call, params)


def abandon(*, limit: int = 500) -> Query[int]:
    return Query(SQL["abandon"], _id, {"limit": limit})


def spend(by: str, *, batch_id: int | None = None, since: datetime | None = None) -> Query[Spend]:
    return Query(SQL["spend"], Spend, {"by": by, "batch_id": batch_id, "since": since})


def price(provider: str, model: str) -> Query[Price]:
    return Query(SQL["price"], Price, {"provider": provider, "model": model})


def prices() -> Query[Price]:
    return Query(SQL["prices"], Price)


def set_price(
    provider: str,
    model: str,
    *,
    input: Decimal = Decimal(0),
    cached: Decimal = Decimal(0),
    output: Decimal = Decimal(0),
    unit: Decimal = Decimal(0),
    since: date | None = None,
    source: str = "person",
    replace: bool = True,
) -> Query[Price]:
    params = {
        "provider": provider,
        "model": model,
        "input": input,
        "cached": cached,
        "output": output,
        "unit": unit,
        "since": since,
        "source": source,
        "replace": replace,
    }
    return Query(SQL["set_price"], Price, params)


def prune(older_than: float, *, limit: int = 1000) -> Query[int]:
    return Query(SQL["prune"], _id, {"older_than": older_than, "limit": limit})

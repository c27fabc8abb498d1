"""Queries about calls and prices."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, NamedTuple

from retoma.model.call import Call, Opened, Price, Spend
from retoma.model.machine import Budget
from retoma.model.rates import Usage
from retoma.store.query import Query, array, load

SQL = load("retoma.store.queries", "calls.sql")


@dataclass(frozen=True, slots=True, kw_only=True)
class Intent:
    """A request that is about to be sent."""

    key: str
    provider: str
    model: str
    job_id: int | None
    """None for a call outside a job."""
    fence: int | None
    step: str
    kind: str
    request: str
    reserved: Decimal
    reuse: bool
    """Whether other jobs may reuse its answer, and it theirs."""
    patience: float
    """Seconds for which equal requests wait for its answer."""
    kept: float = 0.0
    """Seconds for which the provider keeps the result of a submitted operation."""
    before: bool = True
    """Whether this job may have sent the request before: in an earlier attempt, or in a
    statement with unknown outcome.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class Settled:
    """An answer as it is recorded; each field is a column of the statement."""

    id: int
    answer: str
    text: str
    finish: str | None
    request_id: str | None
    cost: Decimal | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    units: int
    tier: str = ""
    cost_basis: str | None = None
    cache_write_tokens: int = 0
    cache_write_1h_tokens: int = 0
    reasoning_tokens: int = 0
    audio_input_tokens: int = 0
    audio_output_tokens: int = 0


class Paid(NamedTuple):
    """A call that has a price now."""

    id: int
    cost: Decimal


class Unpriced(NamedTuple):
    """A call without a price, with its usage."""

    id: int
    provider: str
    model: str
    asked_at: datetime
    usage: Usage


KINDS = (
    "input",
    "cached",
    "cache_write",
    "cache_write_1h",
    "output",
    "reasoning",
    "audio_input",
    "audio_output",
    "unit",
)
"""The kinds that can have a price; a kind without one costs as much as the kind that it is part of."""
_ZERO = {"input": Decimal(0), "cached": Decimal(0), "output": Decimal(0), "unit": Decimal(0)}


def _unpriced(id: int, provider: str, model: str, asked_at: datetime, *counts: Any) -> Unpriced:
    return Unpriced(id, provider, model, asked_at, Usage(**dict(zip(_COUNTS, counts, strict=True))))


_COUNTS = (
    "input_tokens",
    "output_tokens",
    "cached_tokens",
    "cache_write_tokens",
    "cache_write_1h_tokens",
    "reasoning_tokens",
    "audio_input_tokens",
    "audio_output_tokens",
    "units",
    "tier",
)


def _id(id: int, *_: object) -> int:
    return id


def _answered(id: int | None, closed: str | None) -> tuple[int | None, str | None]:
    return id, closed


def open(intents: Sequence[Intent], *, tenant: str, worker_id: int | None) -> Query[tuple[int, Opened]]:
    """The outcome for each of *intents*, by its position (from 1). An intent has no row when another worker holds its
    job. *intents* must not contain two with the same key that may share an answer, nor two of one step.
    """
    params = {
        "tenant": tenant,
        "worker_id": worker_id,
        "keys": array([each.key for each in intents]),
        "providers": array([each.provider for each in intents]),
        "models": array([each.model for each in intents]),
        "jobs": array([each.job_id for each in intents]),
        "fences": array([each.fence for each in intents]),
        "steps": array([each.step for each in intents]),
        "kinds": array([each.kind for each in intents]),
        "requests": array([each.request for each in intents]),
        "reserved": array([each.reserved for each in intents]),
        "reuse": array([each.reuse for each in intents]),
        "before": array([each.before for each in intents]),
        "patience": array([each.patience for each in intents]),
        "kept": array([each.kept for each in intents]),
    }
    return Query(SQL["open"], _opened, params)


def _opened(place: int, *found: Any) -> tuple[int, Opened]:
    return place, Opened(True, *found)


def withdraw(id: int) -> Query[int]:
    return Query(SQL["withdraw"], _id, {"id": id})


def accept(id: int, operation: str) -> Query[int]:
    return Query(SQL["accept"], _id, {"id": id, "request_id": operation})


def rest(
    id: int, *, worker_id: int, status: int | None = None, error: str | None = None, text: str | None = None
) -> Query[int]:
    """*error* is why the poll failed, *text* the response body."""
    return Query(SQL["rest"], _id, {"id": id, "worker_id": worker_id, "status": status, "error": error, "text": text})


def answer(settled: Sequence[Settled], *, limits: Sequence[str] = ()) -> Query[tuple[int | None, str | None]]:
    """The ids of the recorded answers, and the names of the *limits* whose breaker they closed. *settled* must be
    sorted by id: that is the lock order.
    """
    params: dict[str, object] = {
        each.name: array([getattr(one, each.name) for one in settled]) for each in fields(Settled)
    }
    return Query(SQL["answer"], _answered, {**params, "limits": list(limits)})


def unfit(ids: Sequence[int]) -> Query[int]:
    return Query(SQL["unfit"], _id, {"ids": list(ids)})


def fail(id: int, *, paid: bool | None, status: int | None, error: str, text: str | None = None) -> Query[int]:
    """*text* is the response body, for people."""
    return Query(SQL["fail"], _id, {"id": id, "paid": paid, "status": status, "error": error, "text": text})


def one(id: int) -> Query[Call]:
    return Query(SQL["one"], Call, {"id": id})


def page(
    *,
    job_id: int | None = None,
    batch_id: int | None = None,
    state: str | None = None,
    provider: str | None = None,
    model: str | None = None,
    before: int | None = None,
    limit: int = 50,
) -> Query[Call]:
    params = {
        "job_id": job_id,
        "batch_id": batch_id,
        "state": state,
        "provider": provider,
        "model": model,
        "before": before,
        "limit": limit,
    }
    return Query(SQL["page"], Call, params)


def abandon(*, limit: int = 500) -> Query[int]:
    return Query(SQL["abandon"], _id, {"limit": limit})


def spend(
    by: str,
    *,
    batch_id: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: tuple[Decimal, str] | None = None,
    limit: int | None = None,
) -> Query[Spend]:
    return Query(SQL["spend"], Spend, {"by": by, **_spent(batch_id, since, until, after, limit)})


def spend_by_label(
    *,
    batch_id: int | None = None,
    since: datetime | None = None,
    until: datetime | None = None,
    after: tuple[Decimal, str] | None = None,
    limit: int | None = None,
) -> Query[Spend]:
    return Query(SQL["spend_by_label"], Spend, _spent(batch_id, since, until, after, limit))


def _spent(
    batch_id: int | None,
    since: datetime | None,
    until: datetime | None,
    after: tuple[Decimal, str] | None,
    limit: int | None,
) -> dict[str, Any]:
    paid, name = after or (None, None)
    return {"batch_id": batch_id, "since": since, "until": until, "paid": paid, "after": name, "limit": limit}


def budgets(*, limit: int = 20) -> Query[Budget]:
    return Query(SQL["budgets"], Budget, {"limit": limit})


def price(provider: str, model: str) -> Query[Price]:
    return Query(SQL["price"], Price, {"provider": provider, "model": model})


def prices() -> Query[Price]:
    return Query(SQL["prices"], Price)


def price_story(provider: str, model: str) -> Query[Price]:
    return Query(SQL["price_story"], Price, {"provider": provider, "model": model})


def set_price(
    provider: str,
    model: str,
    kinds: Mapping[str, Decimal | None],
    *,
    since: date | None = None,
    source: str = "person",
    replace: bool = True,
) -> Query[Price]:
    """*kinds* are those of KINDS."""
    return Query(SQL["set_price"], Price, {**_priced(provider, model, since, source, kinds), "replace": replace})


def set_tier_price(
    provider: str,
    model: str,
    tier: str,
    kinds: Mapping[str, Decimal | None],
    *,
    since: date | None = None,
    source: str = "person",
) -> Query[Price]:
    return Query(SQL["set_tier_price"], Price, {**_priced(provider, model, since, source, kinds), "tier": tier})


def _priced(
    provider: str, model: str, since: date | None, source: str, kinds: Mapping[str, Decimal | None]
) -> dict[str, Any]:
    said = {"provider": provider, "model": model, "since": since, "source": source}
    return said | {kind: kinds.get(kind, _ZERO.get(kind)) for kind in KINDS}


def unpriced(*, after: int = 0, limit: int = 500) -> Query[Unpriced]:
    return Query(SQL["unpriced"], _unpriced, {"after": after, "limit": limit})


def reprice(costs: Sequence[tuple[int, Decimal, str]]) -> Query[Paid]:
    """*costs* are rows of call, cost and cost basis."""
    ids, amounts, bases = zip(*costs, strict=True)
    return Query(SQL["reprice"], Paid, {"ids": list(ids), "costs": list(amounts), "bases": list(bases)})


class Looked(NamedTuple):
    """How far a scan of old calls came, and how many of them were deleted."""

    asked_at: datetime
    id: int
    gone: int


_OLDEST = Looked(datetime.min.replace(tzinfo=UTC), 0, 0)


def prune(older_than: float, *, after: Looked = _OLDEST, limit: int = 1000) -> Query[Looked]:
    params = {"older_than": older_than, "asked_at": after.asked_at, "id": after.id, "limit": limit}
    return Query(SQL["prune"], Looked, params)

"""What models cost: from the table of prices when people have set one, otherwise from published prices."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Any, NamedTuple

from retoma.model.call import Price
from retoma.model.rates import Rate, Rates, TieredRate, Usage
from retoma.postgres.database import Database
from retoma.providers.request import LOCAL, Request
from retoma.store import calls

PUBLIC = "genai-prices"
"""The source named for prices that no person set."""
_FRESH = 60.0  # seconds for which a price that was read counts as current
_BATCH = "batch"
_FREE_MODEL = ":free"
_FREE = Rates(input=Decimal(0), output=Decimal(0), unit=Decimal(0))


class Cost(NamedTuple):
    """A cost, or None, and how it is known or why it is not (Call.cost_basis)."""

    amount: Decimal | None
    basis: str


@dataclass(frozen=True, slots=True)
class Tariff:
    """What a model costs at a moment, by service tier."""

    provider: str
    model: str
    own: Mapping[str, Rates] = field(default_factory=dict)
    """The prices that people set, by tier; the price of the standard tier applies to tiers without one."""
    at: datetime | None = None
    """The time of the request; None means now."""
    free: bool = False
    """Whether the model is known to cost nothing."""

    @property
    def known(self) -> bool:
        """Whether a request can be priced before it is sent."""
        return self.free or "" in self.own or self._public("", self.model) is not None

    def cost(self, usage: Usage, *, model: str = "") -> Cost:
        """The cost of *usage*: as the provider states it, else by the prices that people set, else by the published
        price of *model* (the name in the answer) or of the model that was asked for.
        """
        if usage.cost is not None:
            return Cost(usage.cost, "provider")
        if self.free:
            return Cost(Decimal(0), "free")
        if not usage.reported:
            return Cost(None, "unreported")
        own = self.own.get(usage.tier) or self.own.get("")
        rates = own or (self._public(usage.tier, model) if model else None) or self._public(usage.tier, self.model)
        amount = rates.cost(usage) if rates else None
        if amount is None:
            return Cost(None, "unpriced")
        return Cost(amount, "own" if own else "public")

    def _public(self, tier: str, model: str) -> Rates | None:
        return publicly_known(self.provider, model, tier=tier, at=self.at)


class Prices:
    """The table of prices as one executor reads it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: dict[tuple[str, str], tuple[float, Tariff]] = {}

    async def of(self, request: Request[Any]) -> Tariff:
        """The tariff for *request* now. A published price that is used is written to the table, so
        that people can see it.
        """
        provider, model = request.provider, request.model
        now = datetime.now(UTC)
        if provider == LOCAL or not _bills(request.estimate):
            return Tariff(provider, model, at=now, free=True)
        read_at, tariff = self._read.get((provider, model), (0.0, None))
        if tariff is None or time.monotonic() > read_at + _FRESH:
            rows = await self._database.persist(calls.price(provider, model))
            tariff = tariff_of(provider, model, rows)
            if not tariff.own and (known := publicly_known(provider, model)):
                await self._show(provider, model, known, rows)
            self._read[provider, model] = (time.monotonic(), tariff)
        return replace(tariff, at=now)

    async def _show(self, provider: str, model: str, known: Rates, rows: Iterable[Price]) -> None:
        plain = _base(known.input) or Decimal(0)
        kinds = {
            "input": plain,
            "cached": _base(known.cached, plain),
            "cache_write": _base(known.cache_write),
            "cache_write_1h": _base(known.cache_write_1h),
            "output": _base(known.output, Decimal(0)),
            "reasoning": _base(known.reasoning),
            "audio_input": _base(known.audio_input),
            "audio_output": _base(known.audio_output),
            "unit": known.unit or Decimal(0),
        }
        if not any(all(getattr(row, kind) == price for kind, price in kinds.items()) for row in rows):
            await self._database.persist(calls.set_price(provider, model, kinds, source=PUBLIC, replace=False))


def _bills(usage: Usage) -> bool:
    return bool(usage.input_tokens or usage.output_tokens or usage.units)


def tariff_of(provider: str, model: str, rows: Iterable[Price], *, at: datetime | None = None) -> Tariff:
    """The tariff by *rows* of the table. Rows copied from published prices do not count as set by people."""
    own = {row.tier: row.rates for row in rows if row.source != PUBLIC}
    return Tariff(provider, model, own, at, free=provider == LOCAL)


def publicly_known(provider: str, model: str, *, tier: str = "", at: datetime | None = None) -> Rates | None:
    """The published price of *model* in *tier*, or None when there is none."""
    found = _found(provider, model)
    if found is None:
        return None
    info, own = found
    if info.id.endswith(_FREE_MODEL):
        return _FREE
    context = {"processing": _BATCH} if tier == _BATCH else {"service_tier": tier}
    when = at or datetime.now(UTC)
    if tier and not (own and any(_holds(variant, context, when) for variant in info.price_variants or ())):
        return None
    rates = _rates(info.get_prices(when, context if tier else None))
    # A model that is listed without a price counts as unknown.
    return None if rates.input is None and rates.unit is None and not rates.request else rates


@lru_cache(maxsize=4096)
def _found(provider: str, model: str) -> tuple[Any, bool] | None:
    """The published entry of a model, and whether the provider itself lists it: an entry of another provider says
    nothing about the service tiers here.
    """
    try:
        from genai_prices import data_snapshot  # noqa: PLC0415 - an extra, and large
    except ImportError:
        return None
    try:
        seller, info = data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    return info, any(info is each for each in seller.models)


def _holds(variant: Any, context: Mapping[str, str], when: datetime) -> bool:
    begun = variant.constraint is None or variant.constraint.active(when)
    return begun and all(context.get(name) == value for name, value in variant.when.items())


def _rates(price: Any) -> Rates:
    per_thousand = {"unit": price.web_searches_kcount, "request": price.requests_kcount}
    return Rates(
        input=_rate(price.input_mtok),
        output=_rate(price.output_mtok),
        cached=_rate(price.cache_read_mtok),
        cache_write=_rate(price.cache_write_mtok),
        cache_write_1h=_rate(price.cache_write_1h_mtok),
        reasoning=_rate(price.output_reasoning_mtok),
        audio_input=_rate(price.input_audio_mtok),
        audio_output=_rate(price.output_audio_mtok),
        cached_audio=_rate(price.cache_audio_read_mtok),
        **{name: Decimal(each) / 1000 for name, each in per_thousand.items() if each is not None},
    )


def _rate(price: Any) -> Rate | None:
    if price is None or isinstance(price, Decimal):
        return price
    return TieredRate(price.base, tuple((tier.start, tier.price) for tier in price.tiers))


def _base(rate: Rate | None, otherwise: Decimal | None = None) -> Decimal | None:
    """The price of the first token, for display."""
    if rate is None:
        return otherwise
    return rate.base if isinstance(rate, TieredRate) else rate

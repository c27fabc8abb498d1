"""What models cost, as far as it is publicly known; the table of prices belongs to people, and wins."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

from retoma.call import Price
from retoma.database import Database
from retoma.providers import Usage
from retoma.store import calls

_FRESH = 60.0  # seconds for which a price that was read is taken for today's


class Prices:
    """The table of prices, as one executor reads it."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._read: dict[tuple[str, str], tuple[float, Price | None]] = {}

    async def of(self, provider: str, model: str) -> Price | None:
        """The price that holds; one that nobody set is taken from what is publicly known, and written down."""
        read_at, price = self._read.get((provider, model), (0.0, None))
        if time.monotonic() > read_at + _FRESH:
            rows = await self._database.all(calls.price(provider, model))
            if not rows and (known := publicly_known(provider, model)):
                fresh, cached, output = known
                new = calls.set_price(
                    provider, model, input=fresh, cached=cached, output=output, source="genai-prices", replace=False
                )
                await self._database.all(new)
                rows = await self._database.all(calls.price(provider, model))
            price = rows[0] if rows else None
            self._read[provider, model] = (time.monotonic(), price)
        return price


def cost(usage: Usage, price: Price | None) -> Decimal:
    """What the provider says it cost, else what the table of prices says, else nothing."""
    if usage.cost is not None:
        return usage.cost
    if price is None:
        return Decimal(0)
    return price.cost(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        units=usage.units,
    )


def publicly_known(provider: str, model: str) -> tuple[Decimal, Decimal, Decimal] | None:
    """Prices per million input, cached and output tokens, or None when nobody knows the model here."""
    try:
        from genai_prices import data_snapshot  # noqa: PLC0415 - an extra, and large
    except ImportError:
        return None
    try:
        _, found = data_snapshot.get_snapshot().find_provider_model(model, None, provider, None)
    except LookupError:
        return None
    price = found.get_prices(datetime.now(UTC))
    fresh = _base(price.input_mtok)
    return fresh, _base(price.cache_read_mtok, fresh), _base(price.output_mtok)


def _base(price: Any, otherwise: Decimal = Decimal(0)) -> Decimal:
    """The price of the first token: dearer tiers begin at contexts that documents do not reach."""
    return otherwise if price is None else Decimal(getattr(price, "base", price))

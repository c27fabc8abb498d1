"""What models cost, as far as it is publicly known; the table of prices belongs to people, and wins."""

from __future__ import annotations

from datetime import UTC, datetime
from decimal import Decimal
from typing import Any


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

"""What prices come to, to the cent."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

from retoma.pipelines.quotes.model import Figures
from retoma.pipelines.quotes.pricing.offers import cents

__all__ = ["cents", "figures_of"]


def figures_of(prices: Sequence[Decimal]) -> Figures:
    """Mean, lowest, highest, and how much the highest is above the lowest in percent."""
    if not prices:
        return Figures()
    lowest, highest = min(prices), max(prices)
    return Figures(
        mean=cents(sum(prices, Decimal(0)) / len(prices)),
        lowest=cents(lowest),
        highest=cents(highest),
        spread=cents((highest / lowest - 1) * 100) if lowest else None,
    )

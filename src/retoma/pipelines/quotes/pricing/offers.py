"""What was read on a page: a price, or the reason why none counts. Values without I/O."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Decimal

from retoma.pipelines.quotes.ports import Method, Refusal

CENT = Decimal("0.01")
MISMATCH_PERCENT = Decimal(5)


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """A price that was read on a page."""

    price: Decimal
    currency: str
    method: Method
    title: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Refused:
    """A page without a price that counts: why, in a word and in a sentence."""

    reason: Refusal
    detail: str = ""
    price: Decimal | None = None
    """What the page showed, where it showed something."""


def key_of(title: str, price: Decimal) -> str:
    """The key of an offer: title and price, short enough for an index."""
    told = f"{' '.join(title.split()).casefold()}|{cents(price)}"
    return hashlib.sha256(told.encode()).hexdigest()[:16]


def cents(amount: Decimal) -> Decimal:
    """*amount* with two places; a half goes to the even cent."""
    return amount.quantize(CENT, rounding=ROUND_HALF_EVEN)


def hold_against(
    reading: Found | Refused, *, listed: Decimal | None, percent: Decimal = MISMATCH_PERCENT
) -> Found | Refused:
    """*reading*, unless its price differs by more than *percent* from what the search *listed*."""
    if isinstance(reading, Refused) or not listed:
        return reading
    differs = abs(reading.price - listed) / listed * 100
    if differs <= percent:
        return reading
    return Refused(
        reason=Refusal.PRICE_MISMATCH,
        detail=f"The page asks {reading.price}, the search listed {cents(listed)}: {cents(differs)} % apart, "
        f"and {percent} % are allowed.",
        price=reading.price,
    )

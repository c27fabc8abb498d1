"""Commands on prices: what a model costs, and the cost of calls that had no price when they were made."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from typing import Any, TypedDict

from retoma.calls.prices import Tariff, tariff_of
from retoma.errors import ConfigurationError
from retoma.model import validation
from retoma.model.call import BY_UNIT, PRICE_UNKNOWN, Price
from retoma.store import batches, calls
from retoma.store.calls import Unpriced
from retoma.store.query import Command

PIECE = 500
"""How many calls one statement prices."""
_STANDARD = ("", "default", "standard")


class Kinds(TypedDict, total=False):
    """What a price can be set for: US dollars per million tokens of a kind, and per unit. A kind without a price of its
    own costs as much as the kind that it is part of.
    """

    input: Decimal
    cached: Decimal | None
    cache_write: Decimal | None
    cache_write_1h: Decimal | None
    output: Decimal
    reasoning: Decimal | None
    audio_input: Decimal | None
    audio_output: Decimal | None
    unit: Decimal


@dataclass(frozen=True, slots=True)
class Repriced:
    """The result of pricing calls that had no price."""

    calls: int = 0
    cost: Decimal = Decimal(0)
    left: int = 0
    """Calls that still have no price."""
    after: int | None = None
    """Where the next piece begins; None after the last."""


def set_price(provider: str, model: str, tier: str, since: date | None, kinds: Kinds) -> Command[Price]:
    """Set the price from now on. Batches that were paused because it was unknown continue."""
    for what, price in (("provider", provider), ("model", model)):
        validation.text(f"price's {what}", price)
    said: dict[str, Any] = {**kinds}
    for kind, amount in said.items():
        if kind not in calls.KINDS:
            raise ConfigurationError(f"There is no price of {kind!r}.", next=f"Prices are of {', '.join(calls.KINDS)}.")
        validation.money(f"The price of {kind}", amount)
    if said.get("cached") is None:
        said["cached"] = said.get("input", Decimal(0))
    tier = tier.strip().lower()
    if tier not in _STANDARD:
        validation.text("price's tier", tier)
        rows: list[Price] = yield calls.set_tier_price(provider, model, tier, said, since=since)
        return rows[0]
    rows = yield calls.set_price(provider, model, said, since=since)
    asked = f"{PRICE_UNKNOWN}: {provider}/{model}"
    for id in (yield batches.resting_for([asked, asked + BY_UNIT])):
        yield batches.resume(id, epoch=None, max_resumes=None, by="price")
    return rows[0]


def reprice(after: int) -> Command[Repriced]:
    """Price one piece of the calls without a price, where a price is known by now."""
    rows: Sequence[Unpriced] = yield calls.unpriced(after=after, limit=PIECE)
    stories: dict[tuple[str, str], list[Price]] = {}
    for provider, model in {(row.provider, row.model) for row in rows}:
        stories[provider, model] = yield calls.price_story(provider, model)
    found = [(row.id, *_then(row, stories).cost(row.usage)) for row in rows]
    known = [(id, amount, basis) for id, amount, basis in found if amount is not None]
    paid = (yield calls.reprice(known)) if known else []
    return Repriced(
        calls=len(paid),
        cost=sum((each.cost for each in paid), Decimal(0)),
        left=len(found) - len(known),
        after=rows[-1].id if len(rows) == PIECE else None,
    )


def _then(row: Unpriced, stories: Mapping[tuple[str, str], Sequence[Price]]) -> Tariff:
    """The price at the time of the call; for calls before the first price, the first price."""
    day = row.asked_at.date()
    held: dict[str, Price] = {}
    for price in stories[row.provider, row.model]:  # oldest first
        if price.since <= day or price.tier not in held:
            held[price.tier] = price
    return tariff_of(row.provider, row.model, held.values(), at=row.asked_at)

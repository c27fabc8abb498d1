"""What an asset is worth: its market price × a factor of conservation, years of use and remaining life."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import ROUND_HALF_EVEN, Decimal, localcontext
from enum import StrEnum
from typing import Literal

from retoma.errors import ConfigurationError
from retoma.pipelines.quotes.pricing.offers import cents
from retoma.pipelines.quotes.pricing.statistics import EXACT

FACTOR_PLACES = Decimal("0.0001")
MOST = 2
"""No state, age or remaining life makes an asset worth more than twice its market price."""


class Conservation(StrEnum):
    """In what state the asset is."""

    BOM = "BOM"
    REGULAR = "REGULAR"
    RUIM = "RUIM"


def _states() -> Mapping[Conservation, Decimal]:
    return {Conservation.BOM: Decimal(1), Conservation.REGULAR: Decimal("0.7"), Conservation.RUIM: Decimal("0.4")}


def _used() -> Mapping[int, Decimal]:
    return {0: Decimal(1), 2: Decimal("0.9"), 5: Decimal("0.7"), 10: Decimal("0.4")}


def _left() -> Mapping[int, Decimal]:
    return {0: Decimal("0.1"), 2: Decimal("0.4"), 5: Decimal("0.7"), 10: Decimal(1)}


@dataclass(frozen=True, slots=True, kw_only=True)
class Factors:
    """The maps and weights of one version of a project's configuration. The defaults are examples: a committee
    decides its own.
    """

    version: str
    conservation: Mapping[Conservation, Decimal] = field(default_factory=_states)
    """EC: what a state is worth."""
    used: Mapping[int, Decimal] = field(default_factory=_used)
    """PU: what is left after so many years of use; between two of them the lower one counts."""
    remaining: Mapping[int, Decimal] = field(default_factory=_left)
    """VUF: what so many more years of use are worth; in the same way."""
    weights: Mapping[Literal["ec", "pu", "vuf"], Decimal] = field(
        default_factory=lambda: {"ec": Decimal("0.4"), "pu": Decimal("0.3"), "vuf": Decimal("0.3")}
    )

    def __post_init__(self) -> None:
        if set(self.weights) != {"ec", "pu", "vuf"} or sum(self.weights.values()) != 1:
            raise ConfigurationError(
                "The weights of EC, PU and VUF do not make 1.", next="Correct the project's configuration."
            )
        figures = (*self.conservation.values(), *self.used.values(), *self.remaining.values())
        if min(self.weights.values()) < 0 or not all(0 <= each <= MOST for each in figures):
            raise ConfigurationError(
                f"A weight is not below 0, and a factor is from 0 to {MOST}.",
                next="Correct the project's configuration.",
            )
        if 0 not in self.used or 0 not in self.remaining or set(self.conservation) != set(Conservation):
            raise ConfigurationError(
                "The maps of conservation, use and remaining life leave something out.",
                next="Give a factor to every state, and to 0 years.",
            )


@dataclass(frozen=True, slots=True, kw_only=True)
class Valuation:
    """The value of an asset and how it came about."""

    market: Decimal
    value: Decimal
    factor: Decimal
    ec: Decimal
    pu: Decimal
    vuf: Decimal
    version: str
    movement: Literal["REVALUATION", "IMPAIRMENT", "NONE"] | None = None
    """What the books do: a market value above the net book value revalues the asset, one below impairs it."""
    difference: Decimal | None = None


def value(
    market: Decimal,
    factors: Factors,
    *,
    conservation: Conservation,
    years_used: int,
    years_left: int,
    book_value: Decimal | None = None,
) -> Valuation:
    """The value of an asset that would cost *market* today."""
    if years_used < 0 or years_left < 0:
        raise ConfigurationError("Years are counted from 0.", next="Correct the years of the asset.")
    ec = factors.conservation[conservation]
    pu, vuf = _step(factors.used, years_used), _step(factors.remaining, years_left)
    with localcontext(EXACT):
        weights = factors.weights
        exact = ec * weights["ec"] + pu * weights["pu"] + vuf * weights["vuf"]
        factor = exact.quantize(FACTOR_PLACES, rounding=ROUND_HALF_EVEN)
        worth = cents(market * factor)
        difference = None if book_value is None else cents(worth - book_value)
    return Valuation(
        market=cents(market),
        value=worth,
        factor=factor,
        ec=ec,
        pu=pu,
        vuf=vuf,
        version=factors.version,
        movement=None if difference is None else _movement(difference),
        difference=difference,
    )


def _movement(difference: Decimal) -> Literal["REVALUATION", "IMPAIRMENT", "NONE"]:
    if difference == 0:
        return "NONE"
    return "REVALUATION" if difference > 0 else "IMPAIRMENT"


def _step(map: Mapping[int, Decimal], years: int) -> Decimal:
    return map[max(each for each in map if each <= years)]

"""The figures of a price research, exact to the cent: every step in decimals, every rounding said.

Sums and products are exact. A mean and a median are rounded once, to the cent, a half to the even cent; percentages are
rounded to two places in the same way. A threshold is compared before anything is rounded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, Context, Decimal, localcontext
from enum import StrEnum
from typing import Literal

from retoma.pipelines.quotes.pricing.offers import cents

EXACT = Context(prec=50, rounding=ROUND_HALF_EVEN)
"""More places than a sum of ten thousand prices, squared, needs."""

QUARTERS = 4


class Central(StrEnum):
    """Which figure is the result; the rule knows no others."""

    MEAN = "MEAN"
    MEDIAN = "MEDIAN"
    LOWEST = "LOWEST"


class Discard(StrEnum):
    """Why the critical analysis leaves a price out."""

    OUTLIER = "OUTLIER"
    """The outlier rule calls it inconsistent."""
    UNFEASIBLE = "UNFEASIBLE"
    """It is too far below the others."""
    EXCESSIVE = "EXCESSIVE"
    """It is too far above the others."""


Outliers = Literal["none", "iqr", "median"]
Comparison = Literal["mean_of_others", "median"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Rules:
    """What a body has configured; every report prints all of it."""

    central: Central = Central.MEDIAN
    least: int = 3
    """So many prices a result needs; fewer only with a justification."""
    outliers: Outliers = "none"
    """"iqr" leaves out what is more than *iqr_factor* quartile distances outside, "median" what is more than
    *median_percent* away from the median."""
    iqr_factor: Decimal = Decimal("1.5")
    median_percent: Decimal = Decimal(25)
    compared_with: Comparison = "mean_of_others"
    """What the two thresholds below are percentages of."""
    unfeasible_percent: Decimal | None = Decimal(70)
    """A price below so much is unfeasible; None: none is."""
    excessive_percent: Decimal | None = Decimal(130)
    """A price above so much is excessive; None: none is."""
    high_cv_percent: Decimal = Decimal(25)
    """Above this coefficient of variation the report demands a critical analysis."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Judged:
    """A price after the critical analysis; *bound* is the limit that it crossed."""

    price: Decimal
    discarded: Discard | None = None
    compared: Decimal | None = None
    """What it was compared with, in full precision."""
    bound: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What a series of prices says."""

    count: int
    mean: Decimal
    median: Decimal
    lowest: Decimal
    highest: Decimal
    deviation: Decimal
    """The standard deviation of a sample, to the cent; 0 for one price."""
    cv_percent: Decimal
    """The deviation in per cent of the mean."""
    spread_percent: Decimal
    """(highest / lowest - 1) × 100."""

    def of(self, central: Central) -> Decimal:
        """The result by *central*."""
        return {Central.MEAN: self.mean, Central.MEDIAN: self.median, Central.LOWEST: self.lowest}[central]


def figures(prices: Sequence[Decimal]) -> Figures | None:
    """The figures of *prices*; None when there are none."""
    if not prices:
        return None
    with localcontext(EXACT):
        ordered = sorted(prices)
        mean = sum(ordered, Decimal()) / len(ordered)
        deviation = _deviation(ordered, mean)
        return Figures(
            count=len(ordered),
            mean=cents(mean),
            median=cents(middle(ordered)),
            lowest=cents(ordered[0]),
            highest=cents(ordered[-1]),
            deviation=cents(deviation),
            cv_percent=cents(deviation / mean * 100) if mean else Decimal("0.00"),
            spread_percent=cents((ordered[-1] / ordered[0] - 1) * 100) if ordered[0] else Decimal("0.00"),
        )


def judge(prices: Sequence[Decimal], rules: Rules) -> list[Judged]:
    """Each of *prices*, in their order, as the critical analysis sees it: outliers first, then the thresholds.

    Both look at what came in and not at what another price's removal leaves, so that the order does not matter.
    """
    with localcontext(EXACT):
        judged = [_outlier(price, prices, rules) for price in prices]
        kept = [each.price for each in judged if each.discarded is None]
        return [each if each.discarded else _threshold(each.price, kept, rules) for each in judged]


def middle(ordered: Sequence[Decimal]) -> Decimal:
    """The median of prices in order."""
    half, odd = divmod(len(ordered), 2)
    return ordered[half] if odd else (ordered[half - 1] + ordered[half]) / 2


def quartile(ordered: Sequence[Decimal], number: int) -> Decimal:
    """The first or the third quartile, between two prices in proportion, as spreadsheets do it (QUARTILE.INC)."""
    place = Decimal(number * (len(ordered) - 1)) / QUARTERS
    below = int(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def _deviation(ordered: Sequence[Decimal], mean: Decimal) -> Decimal:
    if len(ordered) == 1:
        return Decimal()
    return (sum(((each - mean) ** 2 for each in ordered), Decimal()) / (len(ordered) - 1)).sqrt()


def _outlier(price: Decimal, prices: Sequence[Decimal], rules: Rules) -> Judged:
    ordered = sorted(prices)
    if rules.outliers == "none" or len(ordered) < 3:  # noqa: PLR2004 - of two, neither is the odd one
        return Judged(price=price)
    centre = middle(ordered)
    if rules.outliers == "median":
        reach = centre * rules.median_percent / 100
        low, high = centre - reach, centre + reach
    else:
        first, third = quartile(ordered, 1), quartile(ordered, 3)
        reach = (third - first) * rules.iqr_factor
        low, high = first - reach, third + reach
    if low <= price <= high:
        return Judged(price=price, compared=centre)
    return Judged(price=price, discarded=Discard.OUTLIER, compared=centre, bound=low if price < low else high)


def _threshold(price: Decimal, kept: Sequence[Decimal], rules: Rules) -> Judged:
    others = list(kept)
    others.remove(price)
    if not others:
        return Judged(price=price)
    centre = middle(sorted(kept)) if rules.compared_with == "median" else sum(others, Decimal()) / len(others)
    if rules.unfeasible_percent is not None and price < (low := centre * rules.unfeasible_percent / 100):
        return Judged(price=price, discarded=Discard.UNFEASIBLE, compared=centre, bound=low)
    if rules.excessive_percent is not None and price > (high := centre * rules.excessive_percent / 100):
        return Judged(price=price, discarded=Discard.EXCESSIVE, compared=centre, bound=high)
    return Judged(price=price, compared=centre)

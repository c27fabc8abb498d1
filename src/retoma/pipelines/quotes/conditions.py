"""In what condition an asset is, as people write it in forms and lists."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal

from retoma.errors import ConfigurationError
from retoma.pipelines.quotes.pricing.money import number
from retoma.pipelines.quotes.pricing.offers import cents
from retoma.pipelines.quotes.pricing.valuation import Conservation

MOST_YEARS = 200
PARTS = ("conservation", "years_used", "years_left", "book_value")
_NEEDED = PARTS[:3]
_STATES = {
    "bom": Conservation.BOM, "boa": Conservation.BOM, "good": Conservation.BOM,
    "regular": Conservation.REGULAR, "fair": Conservation.REGULAR,
    "ruim": Conservation.RUIM, "mau": Conservation.RUIM, "poor": Conservation.RUIM,
}  # fmt: skip
_MOST_DIGITS = 3


@dataclass(frozen=True, slots=True, kw_only=True)
class Condition:
    """What the value of an asset follows from, beside its market price."""

    conservation: Conservation
    years_used: int
    years_left: int
    """How many more years it can be used."""
    book_value: Decimal | None = None
    """What it is worth in the books today, where the movement is asked for."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "conservation", Conservation(self.conservation))
        for name in ("years_used", "years_left"):
            if not 0 <= getattr(self, name) <= MOST_YEARS:
                raise ConditionRefused("years_unreadable", f"Years are from 0 to {MOST_YEARS}.")
        if self.book_value is not None and not 0 <= self.book_value < 10**12:
            raise ConditionRefused("book_value_unreadable", "A book value is an amount of money.")


class ConditionRefused(ConfigurationError):
    """A condition that cannot be; *code* never changes."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message, next="Say conservation (BOM, REGULAR or RUIM), years of use and remaining years.")
        self.code = code


def condition_of(given: Mapping[str, str]) -> Condition | None:
    """The condition that the texts of *given* say; None when they say nothing of it."""
    said = {part: given.get(part, "").strip() for part in PARTS}
    if not any(said.values()):
        return None
    if missing := [part for part in _NEEDED if not said[part]]:
        raise ConditionRefused(
            "condition_incomplete", f"The value of an asset needs {', '.join(_NEEDED)}; {missing[0]} is missing."
        )
    return Condition(
        conservation=_state(said["conservation"]),
        years_used=_years(said["years_used"]),
        years_left=_years(said["years_left"]),
        book_value=_money(said["book_value"]) if said["book_value"] else None,
    )


def _state(said: str) -> Conservation:
    plain = unicodedata.normalize("NFKD", said).encode("ascii", "ignore").decode().lower()
    if plain not in _STATES:
        raise ConditionRefused("conservation_unknown", f"{said[:40]!r} is neither BOM nor REGULAR nor RUIM.")
    return _STATES[plain]


def _years(said: str) -> int:
    if not (said.isascii() and said.isdecimal() and len(said) <= _MOST_DIGITS):
        raise ConditionRefused("years_unreadable", f"{said[:40]!r} is no number of whole years.")
    return int(said)


def _money(said: str) -> Decimal:
    found = number(said)
    if found is None:
        raise ConditionRefused("book_value_unreadable", f"{said[:40]!r} is no amount of money.")
    return cents(found)

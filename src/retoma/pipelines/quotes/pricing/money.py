"""Amounts of money in text, as Brazilians and as others write them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal

LEAST = Decimal(1)
MOST = Decimal(10_000_000)
"""A price outside of these is none."""

_SIGNS = {
    "R$": "BRL", "BRL": "BRL", "US$": "USD", "U$": "USD", "USD": "USD", "$": "USD", "€": "EUR", "EUR": "EUR",
    "£": "GBP", "GBP": "GBP", "AR$": "ARS", "¥": "JPY",
}  # fmt: skip
_NUMBER = r"\d{1,3}(?:[. \u00a0\u202f]\d{3}){1,3}(?:,\d{1,2})?(?!\d)|\d{1,3}(?:,\d{3}){1,3}(?:\.\d{1,2})?(?!\d)"
_NUMBER += r"|\d{1,9}(?:[.,]\d{1,2})?(?!\d)"
_BLANK = "[\\s\u00a0]{0,3}"
_AMOUNT = re.compile(
    rf"(?P<sign>(?:R|US|U|AR)?\$|€|£|¥|\b(?:BRL|USD|EUR|GBP)\b){_BLANK}(?P<number>{_NUMBER})"
    rf"|(?<![\d.,])(?P<plain>\d{{1,3}}(?:\.\d{{3}}){{0,3}},\d\d){_BLANK}(?P<after>€|reais\b|EUR\b|BRL\b|USD\b)",
)
# What makes an amount one of several: before it, and after it.
_TIMES = re.compile(
    r"(?<!\d)(\d{1,2})\s?(?:x|×|vezes|parcelas|prestações)\s?(?:iguais\s?)?(?:mensais\s?)?(?:de|por)?\s?$",
    re.IGNORECASE,
)
_MONTHLY = re.compile(r"\s{0,3}(?:/\s?m[êe]s|por m[êe]s|ao m[êe]s|mensais|\(?\d{1,2}\s?x\b)", re.IGNORECASE)
_WAS = re.compile(r"(?:^|[^\w])(?:de|era|antes|pre[çc]o (?:antigo|normal|de tabela|de lista))\s?:?\s?$", re.IGNORECASE)
_CASH = re.compile(r"\s{0,3}(?:à vista|a vista|no pix|no boleto|via pix)", re.IGNORECASE)
_BEFORE = 40
_AFTER = 24
_LONGEST = 40  # characters of a number
_BEYOND = 10**12  # larger than any price, and small enough for exact sums
_THOUSAND = 3  # digits
_SEPARATORS = re.compile(r"[.,]")


@dataclass(frozen=True, slots=True)
class Amount:
    """An amount in a text, and what the words around it say about it."""

    value: Decimal
    currency: str
    is_instalment: bool = False
    is_old: bool = False
    is_cash: bool = False


def amounts(text: str) -> Iterator[Amount]:
    """Every amount with a currency in *text*, in order."""
    for match in _AMOUNT.finditer(text):
        value = number(match["number"] or match["plain"])
        if value is None:
            continue
        before = text[max(0, match.start() - _BEFORE) : match.start()]
        after = text[match.end() : match.end() + _AFTER]
        times = _TIMES.search(before)
        yield Amount(
            value,
            _SIGNS.get((match["sign"] or match["after"]).upper(), "BRL"),
            # One times a price is the price.
            is_instalment=(times is not None and int(times[1]) > 1) or _MONTHLY.match(after) is not None,
            is_old=times is None and _WAS.search(before) is not None,
            is_cash=_CASH.match(after) is not None,
        )


def price(told: object) -> Decimal | None:
    """The price that a field of a machine means: a number, a text such as "1299.90", or one such as "R$ 1.299,90"."""
    match told:
        case bool() | None:
            return None
        case Decimal() | int():
            value = Decimal(told)
            return value if value.is_finite() and 0 <= value < _BEYOND else None
        case float():
            return price(str(told))
        case str():
            said = next(amounts(told[:80]), None)
            return price(said.value if said else number(told))
    return None


def number(text: str) -> Decimal | None:
    """The number in *text*: the last separator parts the cents, unless three digits follow it, as in "1.299"."""
    if len(text) > _LONGEST:
        return None
    digits = "".join(text.split()).strip("R$US€£¥'").replace("'", "")
    separators = _SEPARATORS.findall(digits)
    cents = ""
    if separators and _is_decimal(digits, separators):
        digits, _, cents = digits.rpartition(separators[-1])
    whole, *thousands = _SEPARATORS.split(digits)
    if any(len(each) != _THOUSAND for each in thousands) or (thousands and not 1 <= len(whole) <= _THOUSAND):
        return None
    told = "".join((whole, *thousands))
    if not (told + cents).isdecimal() or not (told + cents).isascii():
        return None
    return Decimal(f"{told or 0}.{cents or 0}") if cents else Decimal(told)


def _is_decimal(digits: str, separators: list[str]) -> bool:
    """Whether the last of *separators* parts the cents."""
    whole, _, rest = digits.rpartition(separators[-1])
    if len(set(separators)) > 1:
        return separators.count(separators[-1]) == 1
    if len(separators) > 1:
        return False
    return len(rest) != _THOUSAND or whole in {"", "0"}


def currency(told: object) -> str | None:
    """The code of a currency that *told* names by code or by sign."""
    if not isinstance(told, str) or not told.strip():
        return None
    word = told.strip().upper()
    if known := _SIGNS.get(word):
        return known
    said = next(amounts(told[:80]), None)
    return said.currency if said else word[:3] if len(word) == 3 and word.isalpha() else None  # noqa: PLR2004

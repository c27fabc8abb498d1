"""Old prices in money of today, by a table of monthly variations (IPCA, IGP-M) that says where and when it is from.

No table is bundled: a figure that nobody has looked up is no evidence. ``load`` reads the file that a body keeps:

    # index: IPCA
    # source: IBGE, SIDRA table 1737
    # dated: 2026-10-09
    month,percent
    2026-08,0.12
    2026-09,0.31
"""

from __future__ import annotations

import csv
import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal, InvalidOperation, localcontext

from retoma.errors import ConfigurationError
from retoma.pipelines.quotes.pricing.offers import cents
from retoma.pipelines.quotes.pricing.statistics import EXACT

INDICES = ("IPCA", "IGP-M")
FACTOR_PLACES = Decimal("0.00000001")
TABLE = "indice_sha256"
"""Where a calculation names the file of its table."""
_DECEMBER = 12
_MOST_ROWS = 2_000


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexTable:
    """Monthly variations of one index, in per cent."""

    index: str
    source: str
    dated: date
    percents: Mapping[str, Decimal]
    """By month, as in "2026-09"."""
    sha256: str
    """Of the file it was read from."""

    @property
    def last(self) -> str:
        """The last month it knows."""
        return max(self.percents)


@dataclass(frozen=True, slots=True, kw_only=True)
class Corrected:
    """A nominal price and the same in money of *until*; everything that a reader needs to do it again."""

    nominal: Decimal
    corrected: Decimal
    factor: Decimal
    index: str
    since: str
    until: str
    months: int
    source: str
    dated: date


def load(text: str) -> IndexTable:
    """The table in *text*; each thing that is wrong with it is told with its line."""
    about: dict[str, str] = {}
    rows: dict[str, Decimal] = {}
    header_seen = False
    for number, row in enumerate(csv.reader(text.removeprefix("\ufeff").splitlines()), start=1):
        if number > _MOST_ROWS:
            raise _wrong(number, f"the table has more than {_MOST_ROWS} lines")
        line = ",".join(row).strip()
        if line.startswith("#"):
            name, _, value = line.lstrip("# ").partition(":")
            about[name.strip().lower()] = value.strip()
        elif line and not header_seen:
            header_seen = True
            if [cell.strip().lower() for cell in row] != ["month", "percent"]:
                raise _wrong(number, "the columns are not month,percent")
        elif line:
            month, percent = _row(row, number)
            if month in rows:
                raise _wrong(number, f"{month} is there twice")
            rows[month] = percent
    return _table(about, rows, text)


def _table(about: Mapping[str, str], rows: dict[str, Decimal], text: str) -> IndexTable:
    if about.get("index") not in INDICES:
        raise _wrong(1, f"'# index:' is not one of {', '.join(INDICES)}")
    if not about.get("source"):
        raise _wrong(1, "'# source:' does not say where the figures are from")
    try:
        dated = date.fromisoformat(about.get("dated", ""))
    except ValueError:
        raise _wrong(1, "'# dated:' does not say on which day they were taken, as in 2026-10-09") from None
    if not rows:
        raise _wrong(1, "there is no month in it")
    for month in _months(min(rows), max(rows)):
        if month not in rows:
            raise _wrong(1, f"{month} is missing between {min(rows)} and {max(rows)}")
    sha256 = hashlib.sha256(text.encode()).hexdigest()
    return IndexTable(index=about["index"], source=about["source"], dated=dated, percents=rows, sha256=sha256)


def correct(price: Decimal, table: IndexTable, *, since: date, until: date) -> Corrected:
    """*price* of the day *since* in money of *until*: the variations of the months after *since* up to the month
    before *until*, one on the other, because the variation of a month is known when it is over.
    """
    months = _between(since, until)
    if (missing := missing_month(table, since=since, until=until)) is not None:
        raise ConfigurationError(
            f"The {table.index} table of {table.dated} does not know {missing}, and the price of {since} needs it.",
            next="Add the month to the table, or choose another.",
        )
    with localcontext(EXACT):
        factor = Decimal(1)
        for month in months:
            factor *= 1 + table.percents[month] / 100
        factor = factor.quantize(FACTOR_PLACES)
        return Corrected(
            nominal=cents(price),
            # By the factor as it is printed, so that a reader with a calculator finds the same cent.
            corrected=cents(price * factor),
            factor=factor,
            index=table.index,
            since=_month(since),
            until=_month(until),
            months=len(months),
            source=table.source,
            dated=table.dated,
        )


def calculation(told: Corrected, table: IndexTable) -> dict[str, str]:
    """How a corrected price came to be, so that a reader with a calculator finds the same cent."""
    return {
        "preco_nominal": f"{told.nominal:f}",
        "indice": told.index,
        "fator": f"{told.factor:f}",
        "desde": told.since,
        "ate": told.until,
        "fonte_do_indice": told.source,
        "indice_de": told.dated.isoformat(),
        TABLE: table.sha256,
    }


def wrong_calculation(price: Decimal | None, told: Mapping[str, str], table: IndexTable) -> list[str]:
    """What does not hold in a calculation: it is done again with *table*, and each figure is compared."""
    try:
        since, until = (date.fromisoformat(f"{told[month]}-01") for month in ("desde", "ate"))
        again = correct(Decimal(told["preco_nominal"]), table, since=since, until=until)
    except (KeyError, ValueError, InvalidOperation, ConfigurationError):
        return ["its correction by the index cannot be read, or its table lacks a month"]
    wrong = [
        f"its calculation says {name} {told.get(name)}, and {figure} follows from the table"
        for name, figure in calculation(again, table).items()
        if told.get(name) != figure
    ]
    if price is None or cents(price) != again.corrected:
        wrong.append(
            f"the report says {price}, and {again.corrected} follows from {again.nominal} by the {table.index} of "
            f"{table.dated}"
        )
    return wrong


def missing_month(table: IndexTable | None, *, since: date, until: date) -> str | None:
    """The first month that the correction of a price needs and *table* does not know; every one, where there is no
    table. None: nothing is missing.
    """
    known: Mapping[str, Decimal] = {} if table is None else table.percents
    return next((month for month in _between(since, until) if month not in known), None)


def _between(since: date, until: date) -> list[str]:
    first, last = _next(_month(since)), _before(_month(until))
    return _months(first, last) if first <= last else []


def _row(row: list[str], number: int) -> tuple[str, Decimal]:
    if len(row) != 2:  # noqa: PLR2004 - a month and its variation
        raise _wrong(number, "it has not two columns")
    month, percent = (cell.strip() for cell in row)
    try:
        date.fromisoformat(f"{month}-01")
        value = Decimal(percent)
    except (ValueError, InvalidOperation):
        raise _wrong(number, f"{month},{percent} is not a month and a number, as in 2026-09,0.31") from None
    if not value.is_finite() or not -100 < value < 1_000:  # noqa: PLR2004 - no month has seen more
        raise _wrong(number, f"{percent} % in a month cannot be")
    return month, value


def _month(day: date) -> str:
    return f"{day.year:04}-{day.month:02}"


def _next(month: str) -> str:
    year, number = map(int, month.split("-"))
    return f"{year + 1:04}-01" if number == _DECEMBER else f"{year:04}-{number + 1:02}"


def _before(month: str) -> str:
    year, number = map(int, month.split("-"))
    return f"{year - 1:04}-{_DECEMBER}" if number == 1 else f"{year:04}-{number - 1:02}"


def _months(first: str, last: str) -> list[str]:
    months = []
    while first <= last:
        months.append(first)
        first = _next(first)
    return months


def _wrong(line: int, what: str) -> ConfigurationError:
    return ConfigurationError(f"The index table cannot be used, line {line}: {what}.", next="Correct the file.")

"""What the reports of a project are made with, as its terms say it; checked when they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, Literal

from pydantic import ConfigDict, TypeAdapter, ValidationError

from retoma.errors import ConfigurationError
from retoma.pipelines.quotes.ports import SourceKind
from retoma.pipelines.quotes.pricing.correction import IndexTable, load
from retoma.pipelines.quotes.pricing.statistics import Rules
from retoma.pipelines.quotes.pricing.valuation import Conservation, Factors


@dataclass(frozen=True, slots=True, kw_only=True)
class FactorTerms:
    """The factors of a project; what is left out is as in the examples of ``Factors``."""

    __pydantic_config__ = ConfigDict(extra="forbid")

    conservation: Mapping[Conservation, Decimal] | None = None
    used: Mapping[int, Decimal] | None = None
    remaining: Mapping[int, Decimal] | None = None
    weights: Mapping[Literal["ec", "pu", "vuf"], Decimal] | None = None

    def of_version(self, version: str) -> Factors:
        """The factors, as the *version* of the configuration that says them."""
        given = {name: getattr(self, name) for name in self.__dataclass_fields__}
        return Factors(version=version, **{name: each for name, each in given.items() if each is not None})


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTerms:
    """Thresholds, index, and the texts that a body wants printed."""

    rules: Rules = field(default_factory=Rules)
    max_days: Mapping[SourceKind, int] = field(default_factory=dict)
    """How old a price of each kind may be, where it is not as usual."""
    index: Literal["IPCA", "IGP-M"] | None = None
    """The index by which old prices are corrected: by the newest table of it that was loaded."""
    index_table: str | None = None
    """The file of the index itself as text, where none is loaded."""
    factors: FactorTerms | None = None
    """Maps and weights of the value of an asset; {} takes the examples. None: no value is calculated."""
    legal_basis: str = ""
    justification: str | None = None
    approved_by: str | None = None
    suppliers_chosen_because: str | None = None

    @property
    def table(self) -> IndexTable | None:
        """The table that stands in the terms themselves."""
        return load(self.index_table) if self.index_table else None


_TERMS = TypeAdapter(ReportTerms)


def report_terms(given: Mapping[str, Any]) -> ReportTerms:
    """The terms that *given* says; what is wrong with them is told."""
    _refuse_unknown("The terms of a report have", given, ReportTerms)
    if isinstance(rules := given.get("rules"), Mapping):
        _refuse_unknown("The rules of a report have", rules, Rules)
    try:
        terms = _TERMS.validate_python(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigurationError(f"report/{'/'.join(map(str, first['loc']))}: {first['msg']}.") from None
    if terms.index_table:
        load(terms.index_table)
        if terms.index:
            raise ConfigurationError("report/index: there is an index_table, too.", next="Say one of the two.")
    if terms.factors:
        terms.factors.of_version("")
    return terms


def _refuse_unknown(what: str, given: Mapping[str, Any], known: type[ReportTerms | Rules]) -> None:
    """A name that is misspelt would leave the usual value in its place, and nobody would see it."""
    fields = sorted(known.__dataclass_fields__)
    if unknown := sorted(set(map(str, given)) - set(fields)):
        raise ConfigurationError(f"{what} no {', '.join(unknown)}.", next=f"There are {', '.join(fields)}.")

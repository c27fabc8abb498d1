"""What the reports of a project are made with, as its terms say it; checked when they are written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from pydantic import TypeAdapter, ValidationError

from retoma.errors import ConfigurationError
from retoma.pipelines.quotes.ports import SourceKind
from retoma.pipelines.quotes.pricing.correction import IndexTable, load
from retoma.pipelines.quotes.pricing.statistics import Rules


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportTerms:
    """Thresholds, index, and the texts that a body wants printed."""

    rules: Rules = field(default_factory=Rules)
    max_days: Mapping[SourceKind, int] = field(default_factory=dict)
    """How old a price of each kind may be, where it is not as usual."""
    index_table: str | None = None
    """The file of the index by which old prices are corrected, as text."""
    legal_basis: str = ""
    justification: str | None = None
    approved_by: str | None = None
    suppliers_chosen_because: str | None = None

    @property
    def index(self) -> IndexTable | None:
        return load(self.index_table) if self.index_table else None


def report_terms(given: Mapping[str, Any]) -> ReportTerms:
    """The terms that *given* says; what is wrong with them is told."""
    if unknown := set(given) - set(ReportTerms.__dataclass_fields__):
        raise ConfigurationError(f"The terms of a report have no {', '.join(sorted(unknown))}.")
    try:
        terms = TypeAdapter(ReportTerms).validate_python(dict(given))
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        raise ConfigurationError(f"report/{'/'.join(map(str, first['loc']))}: {first['msg']}.") from None
    if terms.index_table:
        load(terms.index_table)
    return terms

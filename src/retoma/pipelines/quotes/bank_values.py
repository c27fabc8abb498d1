"""The nouns of the price bank: vehicles whose price is known, and how a price is brought up to date."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

from retoma.pipelines.quotes.model import parse
from retoma.pipelines.quotes.ports import Evidence
from retoma.pipelines.quotes.pricing.offers import cents


class UpdateMode(StrEnum):
    """What becomes of a price that is too old to be used as it is."""

    MARKET = "MARKET"
    """It is looked up again; beyond the tolerance a person decides."""
    IPCA = "IPCA"
    """It is corrected by the newest loaded table of the index, and nobody is asked."""
    MANUAL = "MANUAL"
    """A person says what it is now."""
    SKIP = "SKIP"
    """It is used as it is, however old."""


class UpdateState(StrEnum):
    """How an update stands."""

    APPLIED = "APPLIED"
    WAITING = "WAITING"
    """For a person."""
    REFUSED = "REFUSED"
    """The price before it stays."""


@dataclass(frozen=True, slots=True)
class BankVehicle:
    """A vehicle whose price is known."""

    id: int
    codigo_fipe: str
    ano: int
    marca: str
    modelo: str
    combustivel: str | None
    vehicle_type: str
    price: Decimal
    reference_month: str | None
    evidence_blob: str | None
    evidence_sha256: str | None
    updated_at: datetime
    update_mode: str | None = None
    """How its price is brought up to date; None: as the project says."""
    fresh: bool = True
    """Whether the price is young enough to be used as it is."""
    calculation: dict[str, Any] | None = None
    """How the index made the price, where it did and somebody asked for it."""

    def __post_init__(self) -> None:
        parse(self, "calculation")


@dataclass(frozen=True, slots=True)
class BankUpdate:
    """How a price of the bank was brought up to date, or waits for a person who says that it is."""

    id: int
    vehicle_id: int
    mode: str
    state: str
    price_before: Decimal
    price_after: Decimal | None
    reference_month: str | None
    evidence_blob: str | None
    evidence_sha256: str | None
    detail: dict[str, Any]
    quote_id: int | None
    job_id: int | None
    by: str
    reason: str | None
    created_at: datetime
    decided_by: str | None
    decided_at: datetime | None

    def __post_init__(self) -> None:
        parse(self, "detail")


@dataclass(frozen=True, slots=True, kw_only=True)
class NewUpdate:
    """An update that is to be written down; without a price a person says it."""

    vehicle_id: int
    mode: UpdateMode
    before: Decimal
    after: Decimal | None = None
    reference_month: str | None = None
    evidence: Evidence | None = None
    detail: dict[str, str] = field(default_factory=dict)
    quote_id: int | None = None
    job_id: int | None = None
    by: str = "retoma"
    reason: str | None = None


def away(before: Decimal, after: Decimal) -> Decimal:
    """How far *after* is from *before*, in per cent with two decimals."""
    return cents(abs(after - before) / before * 100)

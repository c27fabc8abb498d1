"""The price bank on the wire."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field

from retoma.pipelines.quotes.bank_values import BankUpdate, BankVehicle, UpdateMode
from retoma.web.api.schemas import requests as asked
from retoma.web.api.schemas.responses import Schema, Time

Mode = Literal["MARKET", "IPCA", "MANUAL", "SKIP"]
ByMachine = Literal["MARKET", "IPCA"]
Price = Annotated[str, Field(pattern=r"^[1-9]\d{0,6}(\.\d{1,2})?$")]
Reason = Annotated[str, Field(min_length=3, max_length=2000)]

# — questions —


class BankFilter(asked.Wanted):
    """How many vehicles at a time."""

    cursor: asked.Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), asked.WHOLE] = 50


class ModeChosen(asked.Asked):
    """How the price of a vehicle is brought up to date; null: as its project says."""

    mode: Mode | None

    def chosen(self) -> UpdateMode | None:
        """The mode."""
        return None if self.mode is None else UpdateMode(self.mode)


class UpdateAsked(asked.Asked):
    """How prices are brought up to date."""

    mode: ByMachine = "MARKET"


class PriceSaid(asked.Asked):
    """What a vehicle is worth, as a person says it."""

    price: Price
    reason: Reason


class UpdateDecided(asked.Asked):
    """Whether an update holds that waits for a person."""

    accept: bool
    reason: Reason
    price: Price | None = None


# — answers —


class BankVehicleShown(Schema):
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
    evidence_sha256: str | None
    updated_at: Time
    update_mode: Mode | None
    fresh: bool

    @classmethod
    def seen(cls, each: BankVehicle) -> BankVehicleShown:
        return cls.model_validate({name: getattr(each, name) for name in cls.model_fields})


class BankUpdateShown(Schema):
    """How a price was brought up to date, or waits for a person."""

    id: int
    mode: Literal["MARKET", "IPCA", "MANUAL"]
    state: Literal["APPLIED", "WAITING", "REFUSED"]
    price_before: Decimal
    price_after: Decimal | None
    reference_month: str | None
    evidence_sha256: str | None
    detail: dict[str, Any]
    quote_id: int | None
    job_id: int | None
    by: str
    reason: str | None
    created_at: Time
    decided_by: str | None
    decided_at: Time | None

    @classmethod
    def seen(cls, each: BankUpdate) -> BankUpdateShown:
        return cls.model_validate({name: getattr(each, name) for name in cls.model_fields})


class BankVehicleWhole(BankVehicleShown):
    """A vehicle with all that was done to its price, the newest first."""

    updates: list[BankUpdateShown]


class BankVehicles(Schema):
    """A page of the price bank, the newest first; *next* is the cursor of the page that follows."""

    vehicles: list[BankVehicleShown]
    next: str | None


class BankUpdateBegun(Schema):
    """Prices that workers bring up to date, as a batch."""

    batch_id: int
    vehicles: int
    status_url: str

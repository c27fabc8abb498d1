"""Calls, prices and limits on the wire: what is asked, and what is answered."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from retoma.web.api.schemas import requests as asked
from retoma.web.api.schemas.responses import Opened, Schema, Time

AtLeastOne = Annotated[int, Field(ge=1, le=10**9), asked.WHOLE]


class CallFilter(asked.Wanted):
    """Which calls, and how many of them at a time."""

    job: asked.Id | None = None
    batch: asked.Id | None = None
    state: Literal["open", "answered", "failed", "doubtful"] | None = None
    provider: asked.Text | None = None
    model: asked.Text | None = None
    cursor: asked.Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), asked.WHOLE] = 50


class SpendFilter(asked.Wanted):
    """What was paid by what, of which batch, since when."""

    by: Literal["provider", "model", "day", "pipeline", "step", "batch", "job", "label"] = "model"
    batch: asked.Id | None = None
    since: asked.Moment | None = None
    until: asked.Moment | None = None
    cursor: asked.Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=1000), asked.WHOLE] = 200


class NewPrice(asked.Asked):
    """What a model costs from a day on (today), in US dollars per million tokens and per unit. A kind that is null
    costs what the kind costs that it is part of; *tier* is a service tier with a price of its own.
    """

    provider: asked.Text
    model: asked.Text
    tier: Annotated[str, Field(max_length=40)] = ""
    input: asked.Money = Decimal(0)
    cached: asked.Money | None = None
    cache_write: asked.Money | None = None
    cache_write_1h: asked.Money | None = None
    output: asked.Money = Decimal(0)
    reasoning: asked.Money | None = None
    audio_input: asked.Money | None = None
    audio_output: asked.Money | None = None
    unit: asked.Money = Decimal(0)
    since: asked.Day | None = None


class CallPiece(asked.Asked):
    """Which calls of unknown cost are looked at: those *after* this one."""

    after: Annotated[int, Field(ge=0, le=asked.HIGHEST), asked.WHOLE] = 0


class NewLimit(asked.Asked):
    """What a provider allows in a minute, and at once; null is no limit."""

    requests: AtLeastOne | None = None
    tokens: AtLeastOne | None = None
    at_once: AtLeastOne | None = None


class Call(Schema):
    """One request to a provider."""

    content = ("request", "answer", "text", "error")

    id: int
    provider: str
    model: str
    job_id: int | None
    batch_id: int | None
    step: str | None
    kind: Literal["first", "again", "repair"]
    state: Literal["open", "answered", "failed", "doubtful"]
    finish: str | None
    request_id: str | None
    status: int | None
    reserved: Decimal
    cost: Decimal | None
    cost_basis: str | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    cache_write_1h_tokens: int
    reasoning_tokens: int
    audio_input_tokens: int
    audio_output_tokens: int
    units: int
    tier: str
    pipeline: str | None
    reused: int
    asked_at: Time
    answered_at: Time | None
    request: Opened = None
    answer: str | None = None
    text: str | None = None
    error: str | None = None


class Calls(Schema):
    """A page of calls, the newest first; *next* is the cursor of the page that follows."""

    calls: list[Call]
    next: str | None


class Spend(Schema):
    """What was paid under a name, as far as it is known; *unpriced* calls cost what nobody knows."""

    name: str
    calls: int
    answered: int
    reused: int
    useful: Decimal
    lost: Decimal
    again: Decimal
    doubtful: Decimal
    unpriced: int
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    cache_write_tokens: int
    reasoning_tokens: int
    units: int


class Spends(Schema):
    """A page of what was paid, the dearest first; days, the newest first."""

    spend: list[Spend]
    next: str | None


class Price(Schema):
    """What a model costs."""

    provider: str
    model: str
    tier: str
    since: date
    input: Decimal
    cached: Decimal
    cache_write: Decimal | None
    cache_write_1h: Decimal | None
    output: Decimal
    reasoning: Decimal | None
    audio_input: Decimal | None
    audio_output: Decimal | None
    unit: Decimal
    source: str


class Prices(Schema):
    """What models cost today."""

    prices: list[Price]


class Repriced(Schema):
    """Calls that had no price and have a cost now, and where the next piece begins; null when this was the last."""

    calls: int
    cost: Decimal
    left: int
    after: int | None


class Limit(Schema):
    """What a provider allows, and how that stands."""

    name: str
    requests: int | None
    tokens: int | None
    at_once: int | None
    cooled_until: Time | None
    reason: str | None
    failures: int
    opened_until: Time | None
    under_way: int

"""Calls to providers: what was asked and answered, what it cost, what is allowed."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Annotated, Literal

from fastapi import APIRouter, Path, Query, Request, Response
from pydantic import AwareDatetime, Field

from retoma.web import asked
from retoma.web.cursors import cursor_of, opened, point_to_next
from retoma.web.door import Door
from retoma.web.shapes import Opened, Shape, Time
from retoma.web.visits import Here, needs

router = APIRouter(tags=["calls"], route_class=Door)

CONTENT = "content:read"
Dollars = Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=9)]
AtLeastOne = Annotated[int, Field(ge=1, le=10**9)]


class CallFilter(Shape):
    """Which calls, and how many of them at a time."""

    job: asked.Id | None = None
    batch: asked.Id | None = None
    state: Literal["open", "answered", "failed", "doubtful"] | None = None
    provider: asked.Text | None = None
    cursor: asked.Text | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class SpendFilter(Shape):
    """What was paid by what, of which batch, since when."""

    by: Literal["provider", "model", "day", "step", "batch", "job"] = "model"
    batch: asked.Id | None = None
    since: AwareDatetime | None = None


class NewPrice(Shape):
    """What a model costs from a day on (today), in US dollars per million tokens and per unit."""

    provider: asked.Text
    model: asked.Text
    input: Dollars = Decimal(0)
    cached: Dollars | None = None
    output: Dollars = Decimal(0)
    unit: Dollars = Decimal(0)
    since: date | None = None


class NewLimit(Shape):
    """What a provider allows in a minute, and at once; null is no limit."""

    requests: AtLeastOne | None = None
    tokens: AtLeastOne | None = None
    at_once: AtLeastOne | None = None


class Call(Shape):
    """One request to a provider."""

    content = ("request", "answer", "text", "error")

    id: int
    provider: str
    model: str
    job_id: int | None
    batch_id: int | None
    step: str | None
    kind: str
    state: str
    finish: str | None
    request_id: str | None
    status: int | None
    reserved: Decimal
    cost: Decimal | None
    input_tokens: int
    output_tokens: int
    cached_tokens: int
    units: int
    reused: int
    asked_at: Time
    answered_at: Time | None
    request: Opened = None
    answer: str | None = None
    text: str | None = None
    error: str | None = None


class Calls(Shape):
    """A page of calls, the newest first; *next* is the cursor of the page that follows."""

    calls: list[Call]
    next: str | None


class Spend(Shape):
    """What was paid under a name."""

    name: str
    calls: int
    answered: int
    reused: int
    useful: Decimal
    lost: Decimal
    again: Decimal
    doubtful: Decimal
    input_tokens: int
    output_tokens: int


class Spends(Shape):
    """What was paid, in US dollars."""

    spend: list[Spend]


class Price(Shape):
    """What a model costs."""

    provider: str
    model: str
    since: date
    input: Decimal
    cached: Decimal
    output: Decimal
    unit: Decimal
    source: str


class Prices(Shape):
    """What models cost today."""

    prices: list[Price]


class Limit(Shape):
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


class Limits(Shape):
    """What providers allow."""

    limits: list[Limit]


@router.get("/calls")
@needs("read")
async def list_calls(
    wanted: Annotated[CallFilter, Query()], visit: Here, request: Request, response: Response
) -> Calls:
    """Calls to providers, the newest first, without their content."""
    found = await visit.app.calls(
        job=wanted.job,
        batch=wanted.batch,
        state=wanted.state,
        provider=wanted.provider,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    return Calls(calls=[Call.of(each) for each in page], next=following)


@router.get("/calls/{id}")
@needs("read")
async def get_call(id: Annotated[asked.Id, Path()], visit: Here) -> Call:
    """A call. Its request and its answer as it came are there with the scope ``content:read``."""
    return Call.of(await visit.app.call(id), content=visit.may(CONTENT))


@router.get("/spend")
@needs("read")
async def get_spend(wanted: Annotated[SpendFilter, Query()], visit: Here) -> Spends:
    """What was paid. Useful, paid again, and in doubt are told apart."""
    found = await visit.app.spend(wanted.by, batch=wanted.batch, since=wanted.since)
    return Spends(spend=[Spend.of(each) for each in found])


@router.get("/prices")
@needs("read")
async def list_prices(visit: Here) -> Prices:
    """What models cost today."""
    return Prices(prices=[Price.of(each) for each in await visit.app.prices()])


@router.post("/prices")
@needs("operate")
async def set_price(price: NewPrice, visit: Here) -> Price:
    """Say what a model costs from a day on. Calls that were made keep what they cost."""
    return Price.of(await visit.app.set_price(**price.model_dump(), conn=visit.conn))


@router.get("/limits")
@needs("read")
async def list_limits(visit: Here) -> Limits:
    """What providers allow, and who cools."""
    return Limits(limits=[Limit.of(each) for each in await visit.app.limits()])


@router.put("/limits/{name:path}")
@needs("operate")
async def set_limit(name: Annotated[asked.Text, Path()], limit: NewLimit, visit: Here) -> Limit:
    """Say what a provider allows. It holds from the next call on, for every worker."""
    return Limit.of(await visit.app.set_limit(name, **limit.model_dump(), conn=visit.conn))

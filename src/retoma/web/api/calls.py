"""Calls to providers: what was asked and answered, what it cost, what is allowed."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation
from typing import Annotated

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.model.ids import CallId
from retoma.web.api.schemas import calls as shapes
from retoma.web.api.schemas import machine, requests
from retoma.web.http.auth import Here, needs
from retoma.web.http.cursors import cursor_of, opened, place_of, placed, point_to_next
from retoma.web.http.errors import Refusal
from retoma.web.http.route import ApiRoute

router = APIRouter(tags=["calls"], route_class=ApiRoute)

CONTENT = "content:read"
_MOST_PAID = Decimal(10**15)


@router.get("/calls")
@needs("read")
async def list_calls(
    wanted: Annotated[shapes.CallFilter, Query()], visit: Here, request: Request, response: Response
) -> shapes.Calls:
    """Calls to providers, the newest first, without their content."""
    found = await visit.app.calls.find(
        job=wanted.job,
        batch=wanted.batch,
        state=wanted.state,
        provider=wanted.provider,
        model=wanted.model,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    following = cursor_of(page[-1].id) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    return shapes.Calls(calls=[shapes.Call.of(each) for each in page], next=following)


@router.get("/calls/{id:int}")
@needs("read")
async def get_call(id: Annotated[requests.Id, Path()], visit: Here) -> shapes.Call:
    """A call. Its request and its answer as it came are there with the scope ``content:read``."""
    return shapes.Call.of(await visit.app.calls.get(CallId(id)), content=visit.may(CONTENT))


@router.get("/spend")
@needs("read")
async def get_spend(
    wanted: Annotated[shapes.SpendFilter, Query()], visit: Here, request: Request, response: Response
) -> shapes.Spends:
    """What was paid. Useful, paid again, in doubt and unknown are told apart. The dearest first; days, the newest."""
    after = None if wanted.cursor is None else _paid(wanted.cursor)
    found = await visit.app.calls.spend(
        wanted.by,
        batch=wanted.batch,
        since=wanted.since,
        until=wanted.until,
        after=after,
        limit=wanted.limit + 1,
    )
    page = found[: wanted.limit]
    last = page[-1] if len(found) > wanted.limit else None
    following = None if last is None else place_of("0" if wanted.by == "day" else str(last.paid), last.name)
    point_to_next(request, response, following)
    return shapes.Spends(spend=[shapes.Spend.of(each) for each in page], next=following)


def _paid(cursor: str) -> tuple[Decimal, str]:
    paid, name = placed(cursor, str, str)
    try:
        amount = Decimal(paid)
    except InvalidOperation:
        raise Refusal("invalid_cursor") from None
    if not amount.is_finite() or abs(amount) > _MOST_PAID:
        raise Refusal("invalid_cursor")
    return amount, name


@router.get("/prices")
@needs("read")
async def list_prices(visit: Here) -> shapes.Prices:
    """What models cost today."""
    return shapes.Prices(prices=[shapes.Price.of(each) for each in await visit.app.calls.prices()])


@router.get("/prices/history")
@needs("read")
async def list_price_history(wanted: Annotated[machine.PriceFilter, Query()], visit: Here) -> shapes.Prices:
    """Every price that a model had, has and will have, by service tier and day."""
    found = await visit.app.calls.price_story(wanted.provider, wanted.model)
    return shapes.Prices(prices=[shapes.Price.of(each) for each in found])


@router.get("/budgets")
@needs("read")
async def list_budgets(visit: Here) -> machine.Budgets:
    """The newest batches that have a budget, those under way first."""
    return machine.Budgets(budgets=[machine.Budget.of(each) for each in await visit.app.calls.budgets()])


@router.post("/prices")
@needs("operate")
async def set_price(price: shapes.NewPrice, visit: Here) -> shapes.Price:
    """Say what a model costs from a day on. Calls that were made keep what they cost."""
    visit.noted.update(price.model_dump(mode="json", exclude_none=True))
    return shapes.Price.of(await visit.app.calls.set_price(**price.model_dump(), conn=visit.conn))


@router.post("/calls/reprice")
@needs("operate")
async def reprice_calls(visit: Here, piece: shapes.CallPiece | None = None) -> shapes.Repriced:
    """Give calls whose cost is unknown the cost that is known by now, 500 at a time."""
    return shapes.Repriced.of(await visit.app.calls.reprice(after=piece.after if piece else 0, pieces=1))


@router.get("/limits")
@needs("read")
async def list_limits(visit: Here) -> machine.LimitStates:
    """What providers allow, what was used of it in the last minute, who cools and who waits."""
    return machine.LimitStates(limits=[machine.LimitState.of(each) for each in await visit.app.calls.limits_now()])


@router.post("/breakers/{name:path}/close")
@needs("operate", refuses=("not_found",))
async def close_breaker(
    name: Annotated[requests.Text, Path()], visit: Here, _body: requests.Nothing | None = None
) -> machine.Woken:
    """Let a provider be tried again now. Its breaker closes, its cool-down ends, and the jobs that wait for it wake."""
    return machine.Woken(woken=await visit.app.calls.close_breaker(name, conn=visit.conn))


@router.put("/limits/{name:path}")
@needs("operate")
async def set_limit(name: Annotated[requests.Text, Path()], limit: shapes.NewLimit, visit: Here) -> shapes.Limit:
    """Say what a provider allows. It holds from the next call on, for every worker."""
    return shapes.Limit.of(await visit.app.calls.set_limit(name, **limit.model_dump(), conn=visit.conn))


@router.delete("/limits/{name:path}", status_code=204)
@needs("operate", refuses=("not_found",))
async def remove_limit(
    name: Annotated[requests.Text, Path()], visit: Here, _body: requests.Nothing | None = None
) -> None:
    """Forget a limit, its pause and its breaker. The jobs that wait for it wake."""
    await visit.app.calls.remove_limit(name, conn=visit.conn)

"""Costs: what was paid per day, pipeline, model and label, what of it was wasted, what is dear; prices and budgets."""

from __future__ import annotations

import csv
import io
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from functools import partial
from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from retoma.commands.prices import Kinds
from retoma.errors import ConfigurationError
from retoma.model.call import Spend
from retoma.web.console.change import Fields, changed
from retoma.web.console.figures import bars, machine_page
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.money import Money
from retoma.web.pages.languages import language_for
from retoma.web.pages.render import money_of
from retoma.web.pages.route import PageRoute
from retoma.web.words import phrase

router = APIRouter(prefix="/costs", route_class=PageRoute)

By = Annotated[Literal["model", "pipeline", "label", "provider", "step", "day"], Query()]
GROUPS = ("model", "pipeline", "label", "provider", "step")
DAYS = (7, 30, 90)
_ROWS, _DEAR, _MOST_ROWS = 30, 10, 10_000
Days = Annotated[int, Query(ge=1, le=366)]
Told = Annotated[str, Query(max_length=40)]
Text = Annotated[str, Query(max_length=200)]


@router.get("")
@needs("read")
async def show_costs(
    visit: Here,
    request: Request,
    by: By = "model",
    days: Days = 30,
    told: Told = "",
    provider: Text = "",
    model: Text = "",
) -> Response:
    """What was paid in the last days."""
    return await _page(visit, request, by, days, told=told, priced=(provider, model))


async def _page(
    visit: Visit,
    request: Request,
    by: str,
    days: int,
    *,
    told: str = "",
    wrong: str = "",
    given: Fields | None = None,
    priced: tuple[str, str] = ("", ""),
) -> Response:
    calls = visit.app.calls
    since = first_day(days)
    money: Money = request.state.retoma.room(Money)
    daily = await money.spend("day", since=since)
    grouped = await money.spend(by, since=since, limit=_ROWS)
    dear = await money.spend("job", since=since, limit=_DEAR)
    ages = (money.age("day", since=since), money.age(by, since=since, limit=_ROWS))
    language = language_for(request)
    return machine_page(
        request,
        "costs.html",
        current="costs",
        by=by,
        days=days,
        age=max(ages),
        spans=DAYS,
        groups=GROUPS,
        total=total_of(daily),
        chart=bars(chart_of(daily, since.date(), language)),
        grouped=[each for each in grouped if each.name or by != "label"],
        highest=max((each.paid for each in grouped), default=Decimal(0)) or Decimal(1),
        dear=[each for each in dear if each.name and each.paid],
        prices=await calls.prices(),
        story=await calls.price_story(*priced) if all(priced) else [],
        priced=priced,
        budgets=await calls.budgets(),
        told=told,
        wrong=wrong,
        given=given or {},
    )


def first_day(days: int) -> datetime:
    """The midnight with which the last *days* begin, in UTC."""
    today = datetime.now(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return today - timedelta(days=days - 1)


def total_of(daily: Sequence[Spend]) -> dict[str, Any]:
    """The sums over all days."""
    zero = Decimal(0)
    return {
        "paid": sum((each.paid for each in daily), zero),
        "useful": sum((each.useful for each in daily), zero),
        "wasted": sum((each.again + each.lost for each in daily), zero),
        "doubtful": sum((each.doubtful for each in daily), zero),
        "unpriced": sum(each.unpriced for each in daily),
        "calls": sum(each.calls for each in daily),
        "reused": sum(each.reused for each in daily),
        "tokens": sum(each.input_tokens + each.output_tokens for each in daily),
    }


def chart_of(daily: Sequence[Spend], first: date, language: str) -> list[tuple[str, str, Sequence[tuple[str, float]]]]:
    """Each day with what was useful, what was paid again or lost, and what is in doubt."""
    say = partial(phrase, language)
    found = {each.name: each for each in daily}
    rows: list[tuple[str, str, Sequence[tuple[str, float]]]] = []
    for place in range((datetime.now(UTC).date() - first).days + 1):
        day = (first + timedelta(days=place)).isoformat()
        each = found.get(day)
        parts = (
            [("good", float(each.useful)), ("warn", float(each.again + each.lost)), ("quiet", float(each.doubtful))]
            if each
            else []
        )
        paid = money_of(each.paid if each else Decimal(0), language)
        rows.append((day, say("console.costs.bar", day=day, paid=paid), parts))
    return rows


@router.get("/csv")
@needs("read")
async def export_costs(visit: Here, by: By = "model", days: Days = 30) -> Response:
    """The same as a table for a spreadsheet."""
    found = await visit.app.calls.spend(by, since=first_day(days), limit=_MOST_ROWS)
    rows = ([getattr(each, name) for name in COLUMNS] for each in found)
    return as_csv(f"costs-{by}.csv", (by, *COLUMNS[1:]), rows)


COLUMNS = (
    "name", "calls", "answered", "reused", "useful", "again", "lost", "doubtful", "unpriced", "input_tokens",
    "output_tokens", "cached_tokens", "units",
)  # fmt: skip


def as_csv(name: str, columns: Sequence[str], rows: Any) -> Response:
    """A file of rows. A cell that a spreadsheet would take for a formula begins with an apostrophe."""
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(columns)
    for row in rows:
        writer.writerow([_cell(value) for value in row])
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return Response(text.getvalue().encode("utf-8-sig"), media_type="text/csv; charset=utf-8", headers=headers)


def _cell(value: object) -> object:
    if value is None:
        return ""
    if isinstance(value, datetime):
        return value.isoformat()
    return f"'{value}" if isinstance(value, str) and value[:1] in ("=", "+", "-", "@", "\t", "\r") else value


@router.post("/prices")
@needs("operate", streamed=True)
async def set_price(visit: Here, request: Request) -> Response:
    """Say what a model costs from a day on."""

    async def do(conn: object, said: Fields) -> None:
        provider, model = said.get("provider", "").strip(), said.get("model", "").strip()
        kinds: Kinds = {
            "input": _amount(said.get("input", "")),
            "output": _amount(said.get("output", "")),
            "unit": _amount(said.get("unit", "")),
        }
        if said.get("cached", "").strip():
            kinds["cached"] = _amount(said["cached"])
        since = _day(said.get("since", ""))
        visit.noted.update(provider=provider, model=model, since=since, **kinds)
        await visit.app.calls.set_price(provider, model, since=since, conn=conn, **kinds)

    async def again(wrong: str, said: Fields) -> Response:
        return await _page(visit, request, "model", 30, wrong=wrong, given=said)

    return await changed(visit, request, do, back="/console/costs", told="priced", again=again)


def _amount(text: str) -> Decimal:
    """An amount of dollars as somebody writes it; a comma before the last digits is a point."""
    bare = text.strip().replace(" ", "")
    if not bare:
        return Decimal(0)
    bare = bare.replace(".", "").replace(",", ".") if "," in bare else bare
    try:
        amount = Decimal(bare)
    except InvalidOperation:
        amount = Decimal("NaN")
    if not amount.is_finite() or amount < 0:
        raise ConfigurationError(f"A price is a number of dollars, such as 2.50, and not {text[:40]!r}.")
    return amount


def _day(text: str) -> date | None:
    if not text.strip():
        return None
    try:
        return date.fromisoformat(text.strip())
    except ValueError:
        raise ConfigurationError(f"A day is written as 2026-01-31, and not {text[:40]!r}.") from None

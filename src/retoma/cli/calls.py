"""retoma calls, spend, prices and limits: what providers were asked, what it cost, what they allow."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import door, show, values

if TYPE_CHECKING:
    from datetime import timedelta

    from retoma.call import Call, Limit, Price, Spend


def _money(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:.6f}".rstrip("0").rstrip(".")


_CALL: show.Columns[Call] = {
    "id": lambda call: call.id,
    "provider": lambda call: call.provider,
    "model": lambda call: call.model,
    "job": lambda call: call.job_id,
    "batch": lambda call: call.batch_id,
    "step": lambda call: call.step,
    "kind": lambda call: call.kind,
    "state": lambda call: call.state,
    "tokens": lambda call: f"{call.input_tokens}+{call.output_tokens}",
    "US$": lambda call: _money(call.cost),
    "reused": lambda call: call.reused or None,
    "asked": lambda call: call.asked_at,
}

_SPEND: show.Columns[Spend] = {
    "": lambda spend: spend.name or "–",
    "calls": lambda spend: spend.calls,
    "answered": lambda spend: spend.answered,
    "reused": lambda spend: spend.reused,
    "useful US$": lambda spend: _money(spend.useful),
    "again US$": lambda spend: _money(spend.again),
    "lost US$": lambda spend: _money(spend.lost),
    "in doubt US$": lambda spend: _money(spend.doubtful),
    "tokens in": lambda spend: spend.input_tokens,
    "tokens out": lambda spend: spend.output_tokens,
}

_PRICE: show.Columns[Price] = {
    "provider": lambda price: price.provider,
    "model": lambda price: price.model,
    "since": lambda price: str(price.since),
    "input": lambda price: _money(price.input),
    "cached": lambda price: _money(price.cached),
    "output": lambda price: _money(price.output),
    "unit": lambda price: _money(price.unit),
    "source": lambda price: price.source,
}

_LIMIT: show.Columns[Limit] = {
    "name": lambda limit: limit.name,
    "requests/min": lambda limit: limit.requests,
    "tokens/min": lambda limit: limit.tokens,
    "at once": lambda limit: limit.at_once,
    "under way": lambda limit: limit.under_way,
    "cools until": lambda limit: limit.cooled_until or limit.opened_until,
    "failures": lambda limit: limit.failures or None,
    "why": lambda limit: limit.reason,
}


@click.group()
def calls() -> None:
    """Calls: what providers were asked, and what they answered."""


@calls.command("list")
@click.option("--job", type=int, metavar="ID")
@click.option("--batch", type=int, metavar="ID")
@click.option("--state", type=click.Choice(["open", "answered", "failed", "doubtful"]))
@click.option("--provider")
@click.option("--before", type=click.IntRange(1), metavar="ID", help="Only calls older than this one: the next page.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@show.as_json
def list_calls(*, as_json: bool, **wanted: Any) -> None:
    """List calls, the newest first."""
    found = door.ask(lambda app: app.calls(**wanted))
    if as_json:
        show.print_json(found)
        return
    show.table(found, _CALL, nothing="No provider was asked for anything.")
    if show.in_terminal() and len(found) == wanted["limit"]:
        show.talk(f"There may be more: --before {found[-1].id}")


@calls.command("show")
@click.argument("id", type=int)
def show_call(id: int) -> None:
    """Show a call with its request, and its answer as it came."""
    show.print_json(door.ask(lambda app: app.call(id)))


@calls.command()
@click.option("--by", type=click.Choice(["provider", "model", "day", "step", "batch", "job"]), default="model")
@click.option("--batch", type=int, metavar="ID")
@click.option("--since", type=values.duration, metavar="TIME", help="Only the last so long, such as 7d.")
@show.as_json
def spend(*, by: str, batch: int | None, since: timedelta | None, as_json: bool) -> None:
    """Show what was paid. Useful, paid again, and in doubt are told apart."""
    from datetime import UTC, datetime

    start = None if since is None else datetime.now(UTC) - since
    found = door.ask(lambda app: app.spend(by, batch=batch, since=start))
    if as_json:
        show.print_json(found)
    else:
        show.table(found, _SPEND, nothing="Nothing was paid.")


@click.group()
def prices() -> None:
    """Prices: what a million tokens, or one unit, costs."""


@prices.command("list")
@show.as_json
def list_prices(*, as_json: bool) -> None:
    """List the prices of today, in US dollars."""
    found = door.ask(lambda app: app.prices())
    if as_json:
        show.print_json(found)
    else:
        show.table(found, _PRICE, nothing="No price was needed or set so far.")


@prices.command("set")
@click.argument("provider")
@click.argument("model")
@click.option("--input", "given", type=values.money, default="0", help="US dollars per million tokens in.")
@click.option("--cached", type=values.money, help="The same for cached tokens; as the others unless said.")
@click.option("--output", type=values.money, default="0", help="US dollars per million tokens out.")
@click.option("--unit", type=values.money, default="0", help="US dollars per page, search or image.")
@click.option(
    "--since", type=values.day, metavar="DAY", help="From that day on, such as 2026-01-31; today unless said."
)
def set_price(provider: str, model: str, given: Decimal, **more: Any) -> None:
    """Say what a model costs from today on. Calls that were made keep what they cost."""
    price = door.ask(lambda app: app.set_price(provider, model, input=given, **more))
    show.talk(
        f"{price.provider}/{price.model} costs {price.input} in and {price.output} out per million tokens, "
        f"since {price.since}."
    )


@click.group()
def limits() -> None:
    """Limits: what providers allow, over all workers."""


@limits.command("list")
@show.as_json
def list_limits(*, as_json: bool) -> None:
    """List the limits, and who cools."""
    found = door.ask(lambda app: app.limits())
    if as_json:
        show.print_json(found)
    else:
        show.table(found, _LIMIT, nothing="No provider was limited or asked so far.")


@limits.command("set")
@click.argument("name", metavar="PROVIDER/MODEL")
@click.option("--requests", type=click.IntRange(min=1), metavar="N", help="Requests per minute; none is no limit.")
@click.option("--tokens", type=click.IntRange(min=1), metavar="N", help="Tokens per minute.")
@click.option("--at-once", type=click.IntRange(min=1), metavar="N", help="Requests at the same time.")
def set_limit(name: str, requests: int | None, tokens: int | None, at_once: int | None) -> None:
    """Say what a provider allows. It holds from the next call on, for every worker."""
    found = door.ask(lambda app: app.set_limit(name, requests=requests, tokens=tokens, at_once=at_once))
    allowed = {"requests/min": found.requests, "tokens/min": found.tokens, "at once": found.at_once}
    said = ", ".join(f"{number} {what}" for what, number in allowed.items() if number)
    show.talk(f"{name}: {said or 'no limit'}.")

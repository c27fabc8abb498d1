"""retoma calls, spend, prices and limits: what providers were asked, what it cost, what they allow."""

from __future__ import annotations

from decimal import Decimal
from typing import TYPE_CHECKING, Any

import click

from retoma.cli import acting, context, output, params
from retoma.cli.language import Phrase, joined
from retoma.model.ids import CallId

if TYPE_CHECKING:
    from datetime import timedelta

    from retoma.model.call import Call, Price, Spend
    from retoma.model.machine import LimitState


_UNKNOWN = Phrase("unknown")


def _money(amount: Decimal | None) -> str | None:
    return None if amount is None else f"{amount:.9f}".rstrip("0").rstrip(".")


def _cost(call: Call) -> str | None:
    return _UNKNOWN if call.cost is None and call.cost_basis is not None else _money(call.cost)


def _useful(spend: Spend) -> str | None:
    return _UNKNOWN if spend.unpriced and not spend.useful else _money(spend.useful)


_CALL: output.Columns[Call] = {
    "id": lambda call: call.id,
    "provider": lambda call: call.provider,
    "model": lambda call: call.model,
    "job": lambda call: call.job_id,
    "batch": lambda call: call.batch_id,
    "step": lambda call: call.step,
    "kind": lambda call: call.kind,
    "state": lambda call: call.state,
    "tokens": lambda call: f"{call.input_tokens}+{call.output_tokens}",
    "tier": lambda call: call.tier or None,
    "US$": _cost,
    "reused": lambda call: call.reused or None,
    "asked": lambda call: call.asked_at,
}

_SPEND: output.Columns[Spend] = {
    "": lambda spend: spend.name or "–",
    "calls": lambda spend: spend.calls,
    "answered": lambda spend: spend.answered,
    "reused": lambda spend: spend.reused,
    "useful US$": _useful,
    "again US$": lambda spend: _money(spend.again),
    "lost US$": lambda spend: _money(spend.lost),
    "in doubt US$": lambda spend: _money(spend.doubtful),
    "of unknown cost": lambda spend: spend.unpriced or None,
    "tokens in": lambda spend: spend.input_tokens,
    "cached": lambda spend: spend.cached_tokens or None,
    "tokens out": lambda spend: spend.output_tokens,
}

_PRICE: output.Columns[Price] = {
    "provider": lambda price: price.provider,
    "model": lambda price: price.model,
    "tier": lambda price: price.tier or None,
    "since": lambda price: str(price.since),
    "input": lambda price: _money(price.input),
    "cached": lambda price: _money(price.cached),
    "cache write": lambda price: _money(price.cache_write),
    "1 h": lambda price: _money(price.cache_write_1h),
    "output": lambda price: _money(price.output),
    "reasoning": lambda price: _money(price.reasoning),
    "audio in": lambda price: _money(price.audio_input),
    "audio out": lambda price: _money(price.audio_output),
    "unit": lambda price: _money(price.unit),
    "source": lambda price: price.source,
}

_LIMIT: output.Columns[LimitState] = {
    "name": lambda limit: limit.name,
    "requests/min": lambda limit: limit.requests,
    "tokens/min": lambda limit: limit.tokens,
    "at once": lambda limit: limit.at_once,
    "used": lambda limit: limit.requests_used,
    "under way": lambda limit: limit.under_way,
    "waiting": lambda limit: limit.waiting or None,
    "breaker": lambda limit: limit.breaker,
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
@click.option("--model")
@click.option("--before", type=click.IntRange(1), metavar="ID", help="Only calls older than this one: the next page.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@output.as_json
def list_calls(*, as_json: bool, **wanted: Any) -> None:
    """List calls, the newest first."""
    # The table says nothing that a provider said.
    found = context.ask(
        lambda app: acting.shown(app, "call", None, app.calls.find(**wanted)) if as_json else app.calls.find(**wanted)
    )
    if as_json:
        output.print_json(found)
        return
    output.table(found, _CALL, nothing="No provider was asked for anything.")
    if output.in_terminal() and len(found) == wanted["limit"]:
        output.talk("There may be more: --before {id}", id=found[-1].id)


@calls.command("show")
@click.argument("id", type=int)
def show_call(id: CallId) -> None:
    """Show a call with its request, and its answer as it came."""
    output.print_json(context.ask(lambda app: acting.shown(app, "call", id, app.calls.get(id))))


@calls.command()
@click.option(
    "--by",
    type=click.Choice(["provider", "model", "day", "pipeline", "step", "batch", "job", "label"]),
    default="model",
)
@click.option("--batch", type=int, metavar="ID")
@click.option("--since", type=params.duration, metavar="TIME", help="Only the last so long, such as 7d.")
@output.as_json
def spend(*, by: str, batch: int | None, since: timedelta | None, as_json: bool) -> None:
    """Show what was paid. Useful, paid again, in doubt and unknown are told apart."""
    from datetime import UTC, datetime

    start = None if since is None else datetime.now(UTC) - since
    found = context.ask(lambda app: app.calls.spend(by, batch=batch, since=start))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _SPEND, nothing="Nothing was paid.")
    if unknown := sum(each.unpriced for each in found):
        output.talk(
            "{unknown} calls of unknown cost are in no sum. Try: retoma prices list, then retoma calls reprice",
            unknown=unknown,
        )


@calls.command()
def reprice() -> None:
    """Give calls whose cost is unknown the cost that is known by now."""
    done = context.ask(lambda app: acting.beside(app, "call", None, app.calls.reprice()))
    output.talk("{calls} calls have a cost now: US$ {cost} in all.", calls=done.calls, cost=_money(done.cost))
    if done.left:
        output.talk("{left} still have no price.", left=done.left)


@click.group()
def prices() -> None:
    """Prices: what a million tokens, or one unit, costs."""


@prices.command("list")
@output.as_json
def list_prices(*, as_json: bool) -> None:
    """List the prices of today, in US dollars."""
    found = context.ask(lambda app: app.calls.prices())
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _PRICE, nothing="No price was needed or set so far.")


@prices.command("show")
@click.argument("provider")
@click.argument("model")
@output.as_json
def show_price(provider: str, model: str, *, as_json: bool) -> None:
    """Show every price that a model had, has and will have, in US dollars."""
    found = context.ask(lambda app: app.calls.price_story(provider, model))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _PRICE, nothing="No price of this model was needed or set so far.")


@prices.command("set")
@click.argument("provider")
@click.argument("model")
@click.option("--input", "given", type=params.money, default="0", help="US dollars per million tokens in.")
@click.option("--cached", type=params.money, help="The same for tokens read from a cache; as the others unless said.")
@click.option("--cache-write", type=params.money, help="The same for tokens written to a cache.")
@click.option("--cache-write-1h", type=params.money, help="The same for those that are kept for an hour.")
@click.option("--output", type=params.money, default="0", help="US dollars per million tokens out.")
@click.option("--reasoning", type=params.money, help="The same for tokens that the model reasoned with.")
@click.option("--audio-input", type=params.money, help="US dollars per million tokens of sound in.")
@click.option("--audio-output", type=params.money, help="US dollars per million tokens of sound out.")
@click.option("--unit", type=params.money, default="0", help="US dollars per page, search or image.")
@click.option("--tier", default="", help="A service tier with a price of its own, such as batch or flex.")
@click.option(
    "--since", type=params.day, metavar="DAY", help="From that day on, such as 2026-01-31; today unless said."
)
def set_price(provider: str, model: str, given: Decimal, **more: Any) -> None:
    """Say what a model costs from today on. Calls that were made keep what they cost; those of unknown cost get one
    with 'retoma calls reprice'.
    """
    said = {kind: amount for kind, amount in more.items() if amount is not None}
    price = context.ask(
        lambda app: acting.change(
            app,
            "price",
            f"{provider}/{model}",
            lambda conn: app.calls.set_price(provider, model, input=given, conn=conn, **said),
            noted={"input": given, **said},
        )
    )
    tier = Phrase(" in tier {tier}", tier=price.tier) if price.tier else ""
    unit = Phrase(", and {unit} a unit", unit=price.unit) if price.unit else ""
    output.talk(
        "{provider}/{model} costs {input} in and {output} out per million tokens{unit}{tier}, since {since}.",
        provider=price.provider,
        model=price.model,
        input=price.input,
        output=price.output,
        unit=unit,
        tier=tier,
        since=price.since,
    )


@click.group()
def limits() -> None:
    """Limits: what providers allow, over all workers."""


@limits.command("list")
@output.as_json
def list_limits(*, as_json: bool) -> None:
    """List the limits, what was used of them in the last minute, who waits, and who cools."""
    found = context.ask(lambda app: app.calls.limits_now())
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _LIMIT, nothing="No provider was limited or asked so far.")


@limits.command("set")
@click.argument("name", metavar="PROVIDER/MODEL")
@click.option("--requests", type=click.IntRange(min=1), metavar="N", help="Requests per minute; none is no limit.")
@click.option("--tokens", type=click.IntRange(min=1), metavar="N", help="Tokens per minute.")
@click.option("--at-once", type=click.IntRange(min=1), metavar="N", help="Requests at the same time.")
def set_limit(name: str, requests: int | None, tokens: int | None, at_once: int | None) -> None:
    """Say what a provider allows. It holds from the next call on, for every worker."""
    found = context.ask(
        lambda app: acting.change(
            app,
            "limit",
            name,
            lambda conn: app.calls.set_limit(name, requests=requests, tokens=tokens, at_once=at_once, conn=conn),
        )
    )
    allowed = {"requests/min": found.requests, "tokens/min": found.tokens, "at once": found.at_once}
    said = joined(
        Phrase("{number} {what}", number=number, what=Phrase(what)) for what, number in allowed.items() if number
    )
    output.talk("{name}: {said}.", name=name, said=said or Phrase("no limit"))


@limits.command("remove")
@click.argument("name", metavar="PROVIDER/MODEL")
def remove_limit(name: str) -> None:
    """Forget a limit, its pause and its breaker. The jobs that wait for it wake.

    A limit that the program declares is there again when a worker starts.
    """
    context.ask(lambda app: acting.change(app, "limit", name, lambda conn: app.calls.remove_limit(name, conn=conn)))
    output.talk("Nothing limits {name} any more.", name=name)


@limits.command("close")
@click.argument("name", metavar="PROVIDER/MODEL")
def close_breaker(name: str) -> None:
    """Let a provider be tried again now. Its breaker closes, its cool-down ends, and the jobs that wait for it wake."""
    woken = context.ask(
        lambda app: acting.change(app, "limit", name, lambda conn: app.calls.close_breaker(name, conn=conn))
    )
    output.talk("{name} is tried again now; jobs that waited for it and were woken: {woken}.", name=name, woken=woken)

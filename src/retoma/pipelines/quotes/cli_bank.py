"""retoma quotes bank: vehicles whose price is known, and how their prices are brought up to date."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output

if TYPE_CHECKING:
    from retoma import Retoma

_MODES = ("MARKET", "IPCA", "MANUAL", "SKIP")


@click.group()
def bank() -> None:
    """The price bank: vehicles whose price is known, and how their prices are brought up to date."""


@bank.command("list")
@click.option("--limit", type=click.IntRange(1, 10_000), default=50, show_default=True, metavar="N", help="At most.")
@click.option(
    "--to", type=click.Path(dir_okay=False, path_type=Path), metavar="FILE", help="Write all of it as CSV instead."
)
@context.app_option
def list_vehicles(limit: int, to: Path | None, reference: str | None) -> None:
    """List the vehicles whose price is known, the newest first."""

    async def listed(app: Retoma) -> None:
        from retoma.pipelines.quotes.banking import PriceBank  # noqa: PLC0415 - a command loads what it runs

        await acting.look(app, "vehicle", None)
        library = PriceBank(app)
        if to is not None:
            content = b"".join([each async for each in library.as_csv()])
            await asyncio.to_thread(to.write_bytes, content)
            output.say(str(to))
            return
        output.table(
            await library.bank(limit=limit),
            {
                "vehicle": lambda each: each.id,
                "code": lambda each: each.codigo_fipe,
                "year": lambda each: each.ano,
                "title": lambda each: f"{each.marca} {each.modelo}"[:60],
                "price": lambda each: f"{each.price:.2f}",
                "dated": lambda each: str(each.updated_at.date()),
                "fresh": lambda each: each.fresh,
                "mode": lambda each: each.update_mode or "",
            },
            nothing="The price bank is empty.",
        )

    context.ask_program(reference, listed)


@bank.command("history")
@click.argument("id", type=click.IntRange(1), metavar="[ID]", required=False)
@click.option("--waiting", is_flag=True, help="Only those that a person decides.")
@context.app_option
def history(id: int | None, reference: str | None, *, waiting: bool) -> None:
    """Show how prices came to be: those of vehicle ID, or of all."""

    async def told(app: Retoma) -> None:
        from retoma.pipelines.quotes.banking import PriceBank  # noqa: PLC0415 - a command loads what it runs

        await acting.look(app, "vehicle", id)
        output.table(
            await PriceBank(app).updates(id, waiting=waiting),
            {
                "update": lambda each: each.id,
                "vehicle": lambda each: each.vehicle_id,
                "mode": lambda each: each.mode,
                "state": lambda each: each.state,
                "before": lambda each: f"{each.price_before:.2f}",
                "after": lambda each: "" if each.price_after is None else f"{each.price_after:.2f}",
                "by": lambda each: each.decided_by or each.by,
                "reason": lambda each: each.reason or "",
            },
            nothing="No price was brought up to date.",
        )

    context.ask_program(reference, told)


@bank.command("update")
@click.argument("ids", type=click.IntRange(1), metavar="[ID]...", nargs=-1)
@click.option(
    "--mode", type=click.Choice(["MARKET", "IPCA"], case_sensitive=False), default="MARKET", show_default=True,
    help="Look prices up again, or correct them by the index.",
)  # fmt: skip
@context.app_option
def update(ids: tuple[int, ...], mode: str, reference: str | None) -> None:
    """Bring prices up to date: those of the vehicles ID, or all. Workers do it, as a batch.

    A vehicle with a mode of its own keeps it; those that are left to a person (MANUAL) or left alone (SKIP) are left
    out. A price that is further away than the tolerance waits for a person.
    """

    async def begun(app: Retoma) -> None:
        from retoma.pipelines.quotes.bank_values import UpdateMode  # noqa: PLC0415 - a command loads what it runs
        from retoma.pipelines.quotes.banking import PriceBank  # noqa: PLC0415

        library, chosen = PriceBank(app), UpdateMode(mode.upper())
        batch, count = await acting.change(
            app,
            "batch",
            None,
            lambda conn: library.update(list(ids) or None, mode=chosen, by=acting.person(), conn=conn),
            made=lambda result: result[0],
            noted={"mode": str(chosen)},
        )
        output.say(batch)
        output.talk("{number} vehicles. To watch it: retoma batch watch {id}", number=count, id=batch)

    context.ask_program(reference, begun)


@bank.command("mode")
@click.argument("id", type=click.IntRange(1), metavar="ID")
@click.argument("mode", type=click.Choice([*_MODES, "PROJECT"], case_sensitive=False), metavar="MODE")
@context.app_option
def set_mode(id: int, mode: str, reference: str | None) -> None:
    """Say how the price of vehicle ID is brought up to date: MARKET, IPCA, MANUAL, SKIP, or as its PROJECT says."""

    async def chosen(app: Retoma) -> None:
        from retoma.pipelines.quotes.bank_values import UpdateMode  # noqa: PLC0415 - a command loads what it runs
        from retoma.pipelines.quotes.banking import PriceBank  # noqa: PLC0415

        told = None if mode.upper() == "PROJECT" else UpdateMode(mode.upper())
        await acting.change(app, "vehicle", id, lambda conn: PriceBank(app).set_mode(id, told, conn=conn))
        output.say(f"{id} {mode.upper()}")

    context.ask_program(reference, chosen)


@bank.command("price")
@click.argument("id", type=click.IntRange(1), metavar="ID")
@click.argument("price", metavar="PRICE")
@click.option("--reason", metavar="WHY", required=True, help="Why; it is kept.")
@context.app_option
def set_price(id: int, price: str, reason: str, reference: str | None) -> None:
    """Say what vehicle ID is worth, in reais, as in 21345.00 or 21.345,00."""

    async def said(app: Retoma) -> None:
        from retoma.pipelines.quotes.banking import PriceBank, price_of  # noqa: PLC0415 - a command loads what it runs

        amount = price_of(price)
        now = await acting.change(
            app,
            "vehicle",
            id,
            lambda conn: PriceBank(app).set_price(id, amount, reason=reason, by=acting.person(), conn=conn),
        )
        output.say(f"{id} {now.price:.2f}")

    context.ask_program(reference, said)


@bank.command("decide")
@click.argument("update_id", type=click.IntRange(1), metavar="UPDATE")
@click.argument("word", type=click.Choice(["accept", "refuse"]), metavar="WORD")
@click.option("--reason", metavar="WHY", required=True, help="Why; it is kept.")
@context.app_option
def decide(update_id: int, word: str, reason: str, reference: str | None) -> None:
    """Say whether UPDATE holds, which waits for a person: WORD is accept or refuse."""

    async def decided(app: Retoma) -> None:
        from retoma.pipelines.quotes.banking import PriceBank  # noqa: PLC0415 - a command loads what it runs

        done = await acting.change(
            app,
            "vehicle",
            None,
            lambda conn: PriceBank(app).decide(
                update_id, accept=word == "accept", reason=reason, by=acting.person(), conn=conn
            ),
            made=lambda result: result.vehicle_id,
            noted={"update": update_id, "decision": word},
        )
        output.say(f"{update_id} {done.state}")

    context.ask_program(reference, decided)

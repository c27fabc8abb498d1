"""retoma stamps: letters that get a number."""

from __future__ import annotations

import click

from retoma.cli import context, output


@click.group()
def stamps() -> None:
    """Letters that get a number, once each."""


@stamps.command()
@click.argument("text")
@context.app_option
def put(text: str, reference: str | None) -> None:
    """Have a letter stamped; a worker does it."""
    from stamps.pipeline import stamp

    receipt = context.ask_program(reference, lambda app: app.enqueue(stamp, text, key=text))
    output.say(receipt.id)


@stamps.command(name="list")
@context.app_option
def list_letters(reference: str | None) -> None:
    """The letters that were stamped."""
    from stamps import letters

    for each in context.ask_program(reference, lambda app: app.fetch(letters.all_of_them())):
        output.say(f"{each.number}\t{each.text}")

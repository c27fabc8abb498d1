"""retoma verify: whether the tables are sound."""

from __future__ import annotations

import time
from collections.abc import MutableSequence
from typing import TYPE_CHECKING

import click

from retoma.cli import context, output
from retoma.cli.language import Phrase

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma
    from retoma.model.batch import Breach

_TELL_SECONDS = 2.0
_BREACH: output.Columns[Breach] = {
    "what": lambda breach: breach.what,
    "must hold": lambda breach: breach.invariant,
    "found": lambda breach: breach.found,
}


@click.command()
@click.option("--quick", is_flag=True, help="Only what lives: what runs, and batches that have not ended.")
@click.option(
    "--after", default="", metavar="PLACE", help="Go on from here; a verify that was ended says where it was."
)
@output.as_json
def verify(after: str, *, quick: bool, as_json: bool) -> None:
    """Recompute every invariant from the tables. The exit code is 1 when one does not hold; each breach is listed."""

    async def look(app: Retoma) -> MutableSequence[Breach]:
        found: MutableSequence[Breach] = []
        told = time.monotonic()
        sweep = app.settings.sweep_seconds
        async for piece in app.system.verify_pieces(after=after, sweep_seconds=sweep, quick=quick):
            found.extend(piece.found)
            if piece.next and time.monotonic() > told + _TELL_SECONDS:
                output.talk(
                    "{number} found so far; to go on from here: --after '{next}'", number=len(found), next=piece.next
                )
                told = time.monotonic()
        return found

    found = context.ask(look)
    if as_json:
        output.print_json(found)
    elif found:
        output.table(found, _BREACH, nothing="")
    else:
        output.say(Phrase("All is sound: every invariant holds."))
    if found:
        output.talk(
            "{number} invariant does not hold." if len(found) == 1 else "{number} invariants do not hold.",
            number=len(found),
        )
        click.get_current_context().exit(1)

"""retoma verify: whether the tables are sound."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import door, show

if TYPE_CHECKING:
    from retoma.batch import Breach

_BREACH: show.Columns[Breach] = {
    "what": lambda breach: breach.what,
    "must hold": lambda breach: breach.invariant,
    "found": lambda breach: breach.found,
}


@click.command()
@show.as_json
def verify(*, as_json: bool) -> None:
    """Recompute every invariant from the tables. The exit code is 1 when one does not hold; each breach is listed."""
    found = door.ask(lambda app: app.verify(sweep_seconds=app.settings.sweep_seconds))
    if as_json:
        show.print_json(found)
    elif found:
        show.table(found, _BREACH, nothing="")
    else:
        click.echo("All is sound: every invariant holds.")
    if found:
        show.talk(f"{len(found)} {'invariant does' if len(found) == 1 else 'invariants do'} not hold.")
        click.get_current_context().exit(1)

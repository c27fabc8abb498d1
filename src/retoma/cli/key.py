"""retoma key: who may come in over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import door, show, values

if TYPE_CHECKING:
    from datetime import timedelta

    from retoma.access import Key

_KEY: show.Columns[Key] = {
    "id": lambda key: key.id,
    "name": lambda key: key.name,
    "is": lambda key: "usable" if key.usable else "revoked" if key.revoked_at else "expired",
    "scopes": lambda key: key.scopes,
    "pipelines": lambda key: key.pipelines,
    "created": lambda key: key.created_at,
    "expires": lambda key: key.expires_at,
    "last used": lambda key: key.last_used_at,
    "revoked": lambda key: key.revoked_at,
}


@click.group()
def key() -> None:
    """API keys: make them, list them, take them back."""


@key.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, help="What it allows; may be given more than once.")
@click.option("--pipeline", "pipelines", multiple=True, metavar="NAME", help="Only the jobs of this pipeline.")
@click.option("--expires", type=values.duration, metavar="TIME", help="Opens nothing once this has passed: 90d.")
def create(name: str, scopes: tuple[str, ...], pipelines: tuple[str, ...], expires: timedelta | None) -> None:
    """Make a key and print it. It is shown this once and kept nowhere.

    Scopes: read (look), content:read (see inputs, outputs and errors), submit (queue jobs), operate (retry, cancel,
    pause, …), admin (everything).
    """
    text, made = door.ask(lambda app: app.access.create(name, scopes, pipelines=pipelines, expires=expires))
    show.talk(f"Key {made.id} for {name}: keep it now, it is not shown again. Callers send 'Authorization: Bearer …'.")
    click.echo(text)


@key.command()
@show.as_json
def list(*, as_json: bool) -> None:
    """List the keys. The oldest first, also those that open nothing any more; never their secrets."""
    found = door.ask(lambda app: app.access.keys())
    if as_json:
        show.print_json(found)
    else:
        show.table(found, _KEY, nothing="There is no key: whoever is on this machine may do everything.")


@key.command()
@click.argument("id")
def revoke(id: str) -> None:
    """Take a key back. It opens nothing from now on."""
    door.ask(lambda app: app.access.revoke(id))
    show.talk(f"Key {id} opens nothing any more.")

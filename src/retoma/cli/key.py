"""retoma key: who may come in over HTTP."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import click

from retoma.cli import acting, context, output, params
from retoma.cli.language import Phrase

if TYPE_CHECKING:
    from datetime import timedelta

    from retoma.app.access.keys import Key

_KEY: output.Columns[Key] = {
    "id": lambda key: key.id,
    "name": lambda key: key.name,
    "is": lambda key: Phrase("usable" if key.usable else "revoked" if key.revoked_at else "expired"),
    "scopes": lambda key: key.scopes,
    "pipelines": lambda key: key.pipelines,
    "created": lambda key: key.created_at,
    "expires": lambda key: key.expires_at,
    "last used": lambda key: key.last_used_at,
    "revoked": lambda key: key.revoked_at,
}


@click.group()
def key() -> None:
    """API keys: make them, list them, give them another secret, take them back."""


def _time(text: str) -> timedelta | Literal["never"]:
    return "never" if text == "never" else params.duration(text)


_expires = click.option(
    "--expires",
    type=_time,
    metavar="TIME",
    help="Opens nothing once this has passed: 90d; 'never' lets it open always.",
)


@key.command()
@click.argument("name")
@click.option("--scope", "scopes", multiple=True, required=True, help="What it allows; may be given more than once.")
@click.option("--pipeline", "pipelines", multiple=True, metavar="NAME", help="Only the jobs of this pipeline.")
@_expires
def create(
    name: str, scopes: tuple[str, ...], pipelines: tuple[str, ...], expires: timedelta | Literal["never"] | None
) -> None:
    """Make a key and print it. It is shown this once and kept nowhere; it expires after RETOMA_KEY_DAYS (365).

    Scopes: read (look), content:read (see inputs, outputs and errors), submit (queue jobs), review (decide what waits
    for a person), operate (retry, cancel, pause, …), admin (everything).
    """
    text, made = context.ask(
        lambda app: acting.change(
            app,
            "key",
            None,
            lambda conn: app.access.create(name, scopes, pipelines=pipelines, expires=expires, conn=conn),
            made=lambda both: both[1].id,
        )
    )
    output.talk(
        "Key {id} for {name}: keep it now, it is not shown again. Callers send 'Authorization: Bearer …'.",
        id=made.id,
        name=name,
    )
    output.talk(_ends(made))
    output.say(text)


def _ends(key: Key) -> Phrase:
    if key.expires_at is None:
        return Phrase("It never expires; 'retoma key rotate' gives it another secret.")
    return Phrase(
        "It expires on {day}; 'retoma key rotate {id}' gives it another secret before.",
        day=f"{key.expires_at:%Y-%m-%d}",
        id=key.id,
    )


@key.command()
@output.as_json
def list(*, as_json: bool) -> None:
    """List the keys. The oldest first, also those that open nothing any more; never their secrets."""
    found = context.ask(lambda app: app.access.keys())
    if as_json:
        output.print_json(found)
    else:
        output.table(
            found, _KEY, nothing="There is no key: callers need the token of this machine, which 'retoma token' prints."
        )


@key.command()
@click.argument("id")
@click.option(
    "--grace",
    type=params.duration,
    default="1d",
    show_default=True,
    metavar="TIME",
    help="How long the secret of before still opens; 0s ends it now.",
)
@_expires
def rotate(id: str, grace: timedelta, expires: timedelta | Literal["never"] | None) -> None:
    """Give a key another secret and print it. It is shown this once and kept nowhere.

    The key keeps its id, name and scopes. The secret of before opens until the grace is over, and so does whoever
    signed in with it.
    """
    text, made = context.ask(
        lambda app: acting.change(
            app, "key", id, lambda conn: app.access.rotate(id, grace=grace, expires=expires, conn=conn)
        )
    )
    output.talk(
        "Key {id} for {name} has another secret: keep it now, it is not shown again.", id=made.id, name=made.name
    )
    output.talk(_ends(made))
    output.say(text)


@key.command()
@click.argument("id")
def revoke(id: str) -> None:
    """Take a key back. It opens nothing from now on; whoever signed in with it is signed out, and its streams end."""
    context.ask(lambda app: acting.change(app, "key", id, lambda conn: app.access.revoke(id, conn=conn)))
    output.talk("Key {id} opens nothing any more.", id=id)

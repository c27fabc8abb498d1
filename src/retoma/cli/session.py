"""retoma session and token: who is signed in, and how one comes in where there are no keys."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output
from retoma.cli.language import Phrase

if TYPE_CHECKING:
    from retoma.app.access.sessions import Session

_SESSION: output.Columns[Session] = {
    "id": lambda session: session.id,
    "is": lambda session: Phrase("open" if session.usable else "ended" if session.ended_at else "over"),
    "opened with": lambda session: session.key_id or session.opened_by,
    "name": lambda session: session.name,
    "address": lambda session: session.address,
    "since": lambda session: session.created_at,
    "seen": lambda session: session.seen_at,
    "expires": lambda session: session.expires_at,
    "ended": lambda session: session.ended_at,
}


@click.group()
def session() -> None:
    """Sessions: who is signed in with a browser; end them."""


@session.command()
@click.option("--all", "over", is_flag=True, help="Also those that open nothing any more.")
@output.as_json
def list(*, over: bool, as_json: bool) -> None:
    """List who is signed in. The newest first; never what their browsers hold."""
    found = context.ask(lambda app: app.sessions.all(over=over))
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _SESSION, nothing="Nobody is signed in.")


@session.command()
@click.argument("id")
def end(id: str) -> None:
    """End a session. Its browser is signed out, and its streams end within seconds."""
    context.ask(lambda app: acting.change(app, "session", id, lambda conn: app.sessions.end(id, conn=conn)))
    output.talk("Session {id} opens nothing any more.", id=id)


@click.command()
def token() -> None:
    """Print the token of a server without keys. Callers on this machine send it as 'Authorization: Bearer …'.

    It is in the file 'token' of RETOMA_HOME, which only its owner can read; whoever removes it there changes it. Where
    there are keys it opens nothing.
    """
    from retoma.app.access import local_token

    output.say(local_token.token_of(context.settings().home))

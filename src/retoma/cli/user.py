"""retoma user: the accounts of people."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output
from retoma.cli.language import Phrase, words

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from retoma.app.access.people import People, User
    from retoma.app.retoma import Retoma

_USER: output.Columns[User] = {
    "id": lambda user: user.id,
    "name": lambda user: user.name,
    "is": lambda user: Phrase("locked" if user.locked_at else "open"),
    "role": lambda user: user.role,
    "created": lambda user: user.created_at,
    "password of": lambda user: user.password_at,
    "signed in": lambda user: user.signed_in_at,
    "vouched for by": lambda user: user.issuer,
}
_ROLES = click.Choice(["reader", "reviewer", "operator", "admin"])
_from_stdin = click.option(
    "--password-stdin", "from_stdin", is_flag=True, help="Read the password from standard input, and ask nobody."
)


@click.group()
def user() -> None:
    """People's accounts: add them, list them, change roles and passwords, lock and remove them."""


def _password(*, from_stdin: bool) -> str:
    """Asked for twice without showing it, or one line of standard input; never an argument, which others can see."""
    if from_stdin or not sys.stdin.isatty():
        return sys.stdin.readline().rstrip("\r\n")
    return str(click.prompt(words("Password"), hide_input=True, confirmation_prompt=words("Once more")))


def _change(who: str, act: Callable[[People, str, object], Awaitable[None]]) -> User:
    async def changed(app: Retoma) -> User:
        found = await app.access.people.get(who)
        await acting.change(app, "user", found.id, lambda conn: act(app.access.people, found.id, conn))
        return found

    return context.ask(changed)


@user.command()
@click.argument("name")
@click.option("--role", type=_ROLES, required=True, help="What the person may do.")
@_from_stdin
def add(name: str, role: str, *, from_stdin: bool) -> None:
    """Add an account. The password is asked for, or read from standard input.

    Roles: reader (look), reviewer (also see content and settle what waits for a person), operator (also queue jobs,
    retry, cancel, pause, …), admin (everything).
    """
    password = _password(from_stdin=from_stdin)
    made = context.ask(
        lambda app: acting.change(
            app,
            "user",
            None,
            lambda conn: app.access.people.add(name, role, password=password, conn=conn),
            made=lambda user: user.id,
        )
    )
    output.talk("Account {id} for {name}, {role}.", id=made.id, name=made.name, role=made.role)


@user.command()
@output.as_json
def list(*, as_json: bool) -> None:
    """List the accounts, by name; never their passwords."""
    found = context.ask(lambda app: app.access.people.all())
    if as_json:
        output.print_json(found)
    else:
        output.table(found, _USER, nothing="There is no account: 'retoma user add' makes one.")


@user.command()
@click.argument("who")
@click.argument("role", type=_ROLES)
def role(who: str, role: str) -> None:
    """Give an account, by its name or id, another role. Whoever is signed in with it is signed out."""
    found = _change(who, lambda people, known, conn: people.change_role(known, role, conn=conn))
    output.talk("{name} is {role} now.", name=found.name, role=role)


@user.command()
@click.argument("who")
@_from_stdin
def password(who: str, *, from_stdin: bool) -> None:
    """Give an account another password. Whoever is signed in with it is signed out."""
    given = _password(from_stdin=from_stdin)
    found = _change(who, lambda people, known, conn: people.change_password(known, given, conn=conn))
    output.talk("{name} has another password.", name=found.name)


@user.command()
@click.argument("who")
def lock(who: str) -> None:
    """Let nobody in with an account. Whoever is signed in with it is signed out."""
    found = _change(who, lambda people, known, conn: people.lock(known, conn=conn))
    output.talk("{name} is locked: 'retoma user unlock {name}' lets it in again.", name=found.name)


@user.command()
@click.argument("who")
def unlock(who: str) -> None:
    """Let an account in again, also one that failed to sign in too often."""
    found = _change(who, lambda people, known, conn: people.unlock(known, conn=conn))
    output.talk("{name} may sign in again.", name=found.name)


@user.command()
@click.argument("who")
def remove(who: str) -> None:
    """Remove an account. Whoever is signed in with it is signed out."""
    found = _change(who, lambda people, known, conn: people.remove(known, conn=conn))
    output.talk("{name} has no account any more.", name=found.name)

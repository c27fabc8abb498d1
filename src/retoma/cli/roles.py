"""retoma db roles: who may do what in the database."""

from __future__ import annotations

import secrets
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import parse_qsl, quote, urlencode, urlsplit

import click

from retoma.cli import acting, context, output

if TYPE_CHECKING:
    from retoma.postgres.roles import Roles
    from retoma.system.settings import Settings


@click.command()
@click.option("--owner", metavar="ROLE", help="Owns the tables and changes them (DATABASE_owner).")
@click.option("--worker", metavar="ROLE", help="Runs jobs (DATABASE_worker).")
@click.option("--web", metavar="ROLE", help="Serves the API and the pages, and enqueues (DATABASE_web).")
@click.option("--reader", metavar="ROLE", help="Looks, and changes nothing (DATABASE_reader).")
@click.option("--apply", "do", is_flag=True, help="Make the roles and give them their rights, in one transaction.")
@click.option(
    "--urls",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="FOLDER",
    help="With --apply: give each role a password, and write its address to FOLDER/owner.url and so on.",
)
def roles(
    owner: str | None, worker: str | None, web: str | None, reader: str | None, *, do: bool, urls: Path | None
) -> None:
    """Print the SQL that gives four roles the rights they need, or run it with --apply.

    Safe to repeat. DATABASE_URL names a superuser, or whoever may create roles and owns the tables. Each later 'retoma
    db upgrade' gives the same roles their rights on new tables. No password is ever printed.
    """
    from retoma.app.extension import branches_of, installed
    from retoma.errors import ConfigurationError
    from retoma.postgres import migrate
    from retoma.postgres.roles import Roles

    settings = context.settings()
    url = settings.database_url
    if url is None:
        raise ConfigurationError(
            "Roles are for a PostgreSQL of your own; the embedded one has a single account, which is no superuser.",
            next="Set DATABASE_URL to a server of your own.",
        )
    if urls is not None and not do:
        raise ConfigurationError("Passwords are not printed.", next="the same with --apply.")
    database = migrate.name(url, settings)
    branches = branches_of(installed())
    wanted = Roles.of(database, owner=owner, worker=worker, web=web, reader=reader)
    if not do:
        output.say("begin;")
        for statement in migrate.grants(url, settings, wanted, branches=branches):
            output.say(f"{statement};")
        output.say("commit;")
        return
    migrate.grant(url, settings, wanted, branches=branches, tell=output.relay)
    _note(settings, wanted)
    output.talk("The roles {names} have their rights.", names=", ".join(wanted.names))
    output.talk(
        "Other accounts may not enter this database before: grant connect on database {database} to ROLE",
        database=database,
    )
    if urls is None:
        output.talk("They cannot sign in before each has a password: \\password ROLE in psql, or --urls FOLDER.")
    else:
        _write(urls, url, settings, wanted)


def _note(settings: Settings, wanted: Roles) -> None:
    """Write down who gave the rights. Who may give them need not be let in to our tables, which may be older, too."""
    import psycopg

    from retoma.errors import RetomaError

    try:
        acting.note(settings, "schema", "roles", noted={"roles": list(wanted.names)})
    except (RetomaError, psycopg.Error) as error:
        output.talk("This is not in the audit: {error}", error=str(error).partition(chr(10))[0])


def _write(folder: Path, url: str, settings: Settings, wanted: Roles) -> None:
    """A file for each role with its address. A password that is there already is kept."""
    from dataclasses import asdict

    from retoma.postgres import migrate
    from retoma.system.private_files import make_private, write_private

    make_private(folder)
    passwords = {}
    for part, role in asdict(wanted).items():
        file = folder / f"{part}.url"
        before = urlsplit(file.read_text().strip()).password if file.exists() else None
        passwords[role] = before or secrets.token_urlsafe(32)
        write_private(file, _address(url, role, passwords[role]) + "\n")
    migrate.give_passwords(url, settings, passwords)
    output.talk(
        "Their addresses are in {folder}, for this account alone: DATABASE_URL=$(cat {folder}/worker.url)",
        folder=folder,
    )


def _address(url: str, role: str, password: str) -> str:
    """*url* for another account."""
    parts = urlsplit(url)
    hosts = parts.netloc.rpartition("@")[2]
    others = [(name, value) for name, value in parse_qsl(parts.query) if name not in {"user", "password"}]
    return parts._replace(
        netloc=f"{quote(role, safe='')}:{quote(password, safe='')}@{hosts}", query=urlencode(others)
    ).geturl()

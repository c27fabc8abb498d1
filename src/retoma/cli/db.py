"""retoma db: the tables, up and down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from retoma.cli import acting, context, output, roles
from retoma.cli.language import Phrase

if TYPE_CHECKING:
    from retoma.postgres.embedded.server import Embedded
    from retoma.postgres.migrate import Branch
    from retoma.system.settings import Settings


@click.group()
def db() -> None:
    """The tables: bring them up or down, or print the SQL that would; who may use them; and the way to them."""


db.add_command(roles.roles)


def _tries(command: Callable[..., None]) -> Callable[..., None]:
    return click.option(
        "--tries",
        type=click.IntRange(min=1),
        default=20,
        show_default=True,
        help="How often to try for a lock on a table that is in use; each waits 2 seconds at most.",
    )(command)


@db.command()
@click.option("--to", metavar="REVISION", default="head", help="Stop at this revision instead of the newest.")
@_tries
def upgrade(to: str, *, tries: int) -> None:
    """Bring the tables up to what this version of Retoma needs, while workers go on.

    Does nothing when they are there already. Several at the same time wait for each other.
    """
    from retoma.postgres import migrate

    with _database() as (url, settings):
        before = migrate.status(url, settings).current
        migrate.upgrade(url, settings, to=to, tries=tries, tell=output.relay)
        now = migrate.status(url, settings)
        if now.ready:
            _upgrade_extensions(url, settings, tries=tries)
        if before != now.current and now.ready:
            acting.note(settings, "schema", now.current, noted={"before": before})
    after = now.current
    if now.newer:
        output.talk("The tables are at revision {after}, newer than this version needs, and serve it too.", after=after)
    elif before == after:
        output.talk("The tables are at revision {after} already.", after=after or "base")
    else:
        output.talk(
            "The tables went from {before} to revision {after}.",
            before=before or Phrase("nothing"),
            after=after or "base",
        )


def _upgrade_extensions(url: str, settings: Settings, *, tries: int) -> None:
    """Their tables, after ours, on which they may stand."""
    from retoma.app.extension import branches_of, installed
    from retoma.postgres import migrate

    branches = branches_of(installed())
    before = migrate.statuses(url, settings, branches)
    migrate.upgrade(url, settings, branches=branches, tries=tries, tell=output.relay)
    for was, now in zip(before, migrate.statuses(url, settings, branches), strict=True):
        if now.current != was.current:
            output.talk(
                "The tables of {name} went from {before} to revision {after}.",
                name=now.branch.name,
                before=was.current or Phrase("nothing"),
                after=now.current,
            )


_extension = click.option(
    "--extension", metavar="NAME", help="The tables of this installed extension instead of the engine's."
)


def _branch(name: str | None) -> Branch:
    from retoma.app.extension import branches_of, installed
    from retoma.errors import ConfigurationError
    from retoma.postgres.migrate import ENGINE

    if name is None:
        return ENGINE
    known = {each.name: each for each in branches_of(installed())[1:]}
    if name not in known:
        there = ", ".join(known) or "none"
        raise ConfigurationError(f"No installed extension {name!r} has tables of its own; those that have: {there}.")
    return known[name]


@db.command()
@click.option("--to", metavar="REVISION", required=True, help="The revision to go back to; 'base' removes all.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_extension
@_tries
def downgrade(to: str, *, yes: bool, extension: str | None, tries: int) -> None:
    """Take the tables back to an earlier revision. What they hold may be lost."""
    import sys

    from retoma.errors import ConfigurationError
    from retoma.postgres import migrate

    branch = _branch(extension)
    with _database() as (url, settings):
        before = migrate.status(url, settings, branch).current
        if not yes and not sys.stdin.isatty():
            raise ConfigurationError(
                f"Going from revision {before or 'base'} back to {to} may delete jobs. "
                "Standard input is not a terminal, so nobody can confirm.",
                next="the same with --yes.",
            )
        if not yes and not output.agreed(
            "Go from revision {before} back to {to}, and delete what it added?", before=before or "base", to=to
        ):
            raise ConfigurationError("Nothing was changed.")
        if branch == migrate.ENGINE and before == migrate.HEAD:
            acting.note(settings, "schema", to, noted={"before": before}, outcome="begun")
        migrate.downgrade(url, settings, to=to, branch=branch, tries=tries, tell=output.relay)
        after = migrate.status(url, settings, branch).current
    output.talk(
        "The tables went from {before} to {after}.",
        before=before or Phrase("nothing"),
        after=after or Phrase("nothing"),
    )


@db.command()
@click.option("--down", is_flag=True, help="The way back, from the newest revision to nothing.")
@click.option(
    "--from", "start", metavar="REVISION", default="base", help="Where an upgrade begins; otherwise at nothing."
)
@_extension
def sql(start: str, *, down: bool, extension: str | None) -> None:
    """Print the SQL of an upgrade or a downgrade. For those who run it by other means; needs no database."""
    from retoma.postgres import migrate

    with _revisions():
        output.say(migrate.sql(start=start, down=down, branch=_branch(extension)), nl=False)


@db.command()
@output.as_json
def status(*, as_json: bool) -> None:
    """Show the revision of the tables, and the one that is needed.

    The exit code is 2 when this version cannot work with them: older ones, or newer ones that do not serve it.
    """
    from retoma.app.extension import branches_of, installed
    from retoma.postgres import migrate

    with _database() as (url, settings):
        found, *known = migrate.statuses(url, settings, branches_of(installed()))
    # A program need not list every extension that is installed; one that lists it says so when its tables are missing.
    others = [each for each in known if each.current is not None]
    said = {"current": found.current, "head": found.head, "serves": found.serves, "ready": found.ready}
    beside = {each.branch.name: {"current": each.current, "head": each.head, "ready": each.ready} for each in others}
    if as_json:
        output.print_json({**said, "extensions": beside})
    else:
        output.fields({**said, **{name: each["current"] for name, each in beside.items()}})
    for each in (found, *others):
        migrate.require(each)


@db.command()
def url() -> None:
    """Print the database's address, password included. Any program that speaks to PostgreSQL can use it."""
    settings = context.settings()
    with _reached(settings) as (address, server):
        output.say(address)
        if server is not None:
            output.talk("The embedded server stops soon after its last user has gone: 'retoma up' keeps it there.")


@db.command(context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False})
@click.argument("args", nargs=-1, metavar="[PSQL ARGUMENT]...", type=click.UNPROCESSED)
def psql(args: tuple[str, ...]) -> None:
    """Open psql in the database, with the arguments that it is given. The embedded server is kept up meanwhile.

    The exit code is psql's.
    """
    import os
    import signal
    import subprocess

    from psycopg.conninfo import conninfo_to_dict, make_conninfo

    from retoma.postgres.url import checked

    settings = context.settings()
    with _reached(settings) as (address, server):
        program = _psql(server)
        known = {name: str(value) for name, value in conninfo_to_dict(checked(address)).items() if value is not None}
        # Everybody on this machine can see the arguments of a process, and nobody else its environment.
        password = known.pop("password", None)
        environment = {**os.environ, **({"PGPASSWORD": password} if password else {})}
        before = signal.signal(signal.SIGINT, lambda *_: None)  # Ctrl-C is for psql, which ends a query with it
        try:
            code = subprocess.run([program, make_conninfo(**known), *args], env=environment, check=False).returncode
        finally:
            signal.signal(signal.SIGINT, before)
    click.get_current_context().exit(code)


def _psql(server: Embedded | None) -> str:
    """Where psql is: the one of this machine, else the one that came with the embedded server."""
    import shutil

    from retoma.errors import ConfigurationError

    found = shutil.which("psql") or (shutil.which("psql", path=str(server.bin)) if server is not None else None)
    if found is None:
        raise ConfigurationError(
            "psql is not installed here.",
            next="install PostgreSQL's client (postgresql-client on Debian and Ubuntu, libpq on macOS); "
            "'retoma db url' prints the address for other programs.",
        )
    return found


@contextmanager
def _reached(settings: Settings) -> Iterator[tuple[str, Embedded | None]]:
    """The database's address, and the server when it is the embedded one, kept up meanwhile."""
    from retoma.postgres.prepare import reach

    url, server = reach(settings)
    try:
        yield url, server
    finally:
        if server is not None:
            server.release()


@contextmanager
def _database() -> Iterator[tuple[str, Settings]]:
    """The database's address and the settings, for work on the tables."""
    settings = context.settings()
    with _reached(settings) as (url, _server), _revisions():
        yield url, settings


@contextmanager
def _revisions() -> Iterator[None]:
    """Say in our own words that there is no such revision."""
    from alembic.script.revision import RevisionError
    from alembic.util import CommandError

    from retoma.errors import ConfigurationError
    from retoma.postgres.migrate import HEAD

    try:
        yield
    except (CommandError, RevisionError) as error:
        raise ConfigurationError(f"{error}.", next=f"The newest revision is {HEAD}, the oldest is 'base'.") from None

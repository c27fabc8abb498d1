"""retoma db: the tables, up and down."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from retoma.cli import door, show

if TYPE_CHECKING:
    from retoma.settings import Settings


@click.group()
def db() -> None:
    """The tables: bring them up or down, or print the SQL that would."""


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
    from retoma import migrate

    with _database() as (url, settings):
        before = migrate.status(url, settings).current
        migrate.upgrade(url, settings, to=to, tries=tries, tell=show.talk)
        now = migrate.status(url, settings)
    after = now.current
    if now.newer:
        show.talk(f"The tables are at revision {after}, newer than this version needs, and serve it too.")
    elif before == after:
        show.talk(f"The tables are at revision {after or 'base'} already.")
    else:
        show.talk(f"The tables went from {before or 'nothing'} to revision {after or 'base'}.")


@db.command()
@click.option("--to", metavar="REVISION", required=True, help="The revision to go back to; 'base' removes all.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_tries
def downgrade(to: str, *, yes: bool, tries: int) -> None:
    """Take the tables back to an earlier revision. What they hold may be lost."""
    import sys

    from retoma import migrate
    from retoma.errors import ConfigurationError

    with _database() as (url, settings):
        before = migrate.status(url, settings).current
        if not yes and not sys.stdin.isatty():
            raise ConfigurationError(
                f"Going from revision {before or 'base'} back to {to} may delete jobs, and nobody is here to ask.",
                next="the same with --yes.",
            )
        question = f"Go from revision {before or 'base'} back to {to}, and delete what it added?"
        if not yes and not click.confirm(question, err=True):
            raise ConfigurationError("Nothing was changed.")
        migrate.downgrade(url, settings, to=to, tries=tries, tell=show.talk)
        after = migrate.status(url, settings).current
    show.talk(f"The tables went from {before or 'nothing'} to {after or 'nothing'}.")


@db.command()
@click.option("--down", is_flag=True, help="The way back, from the newest revision to nothing.")
@click.option(
    "--from", "start", metavar="REVISION", default="base", help="Where an upgrade begins; otherwise at nothing."
)
def sql(start: str, *, down: bool) -> None:
    """Print the SQL of an upgrade or a downgrade. For those who run it by other means; needs no database."""
    from retoma import migrate

    with _revisions():
        click.echo(migrate.sql(start=start, down=down), nl=False)


@db.command()
@show.as_json
def status(*, as_json: bool) -> None:
    """Show the revision of the tables, and the one that is needed.

    The exit code is 2 when this version cannot work with them: older ones, or newer ones that do not serve it.
    """
    from retoma import migrate

    with _database() as (url, settings):
        found = migrate.status(url, settings)
    said = {"current": found.current, "head": found.head, "serves": found.serves, "ready": found.ready}
    if as_json:
        show.print_json(said)
    else:
        show.fields(said)
    migrate.require(found)


@contextmanager
def _database() -> Iterator[tuple[str, Settings]]:
    """The database's address; the embedded server is kept up meanwhile."""
    from retoma.app import reach

    settings = door.settings()
    url, server = reach(settings)
    try:
        with _revisions():
            yield url, settings
    finally:
        if server is not None:
            server.release()


@contextmanager
def _revisions() -> Iterator[None]:
    """Say in our own words that there is no such revision."""
    from alembic.script.revision import RevisionError
    from alembic.util import CommandError

    from retoma.errors import ConfigurationError
    from retoma.migrate import HEAD

    try:
        yield
    except (CommandError, RevisionError) as error:
        raise ConfigurationError(f"{error}.", next=f"The newest revision is {HEAD}, the oldest is 'base'.") from None

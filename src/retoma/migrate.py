"""The schema: revisions in plain SQL, up and down, by one program at a time, under workers that go on."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg

from retoma.address import checked, explain_connection
from retoma.database import check_version, connection_options, is_lost
from retoma.errors import SchemaMismatch
from retoma.patience import TRIES, Patience, Tell
from retoma.settings import Settings
from retoma.store.migrations import LOCK_SECONDS

HEAD = "0011"
"""The revision this program was written for."""

_LOCK = 7_368_021_115
_NAME = "retoma db"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Which revision the database has, which one this program needs, and from which on programs are served."""

    current: str | None
    head: str
    serves: str | None = None

    @property
    def newer(self) -> bool:
        """Whether the tables are of a revision that this program does not know."""
        return self.current is not None and self.current > self.head

    @property
    def ready(self) -> bool:
        """Whether this program can work: the tables are its own, or newer ones that say they serve it."""
        if self.newer:
            return self.serves is not None and self.serves <= self.head
        return self.current == self.head


def _script_folder() -> Path:
    return Path(str(resources.files("retoma.store.migrations")))


def _config(url: str | None = None, *, connection: object = None, output: io.StringIO | None = None) -> Any:
    # Alembic is only needed when the schema changes: an executor never pays for importing it.
    from alembic.config import Config  # noqa: PLC0415

    config = Config(output_buffer=output) if output else Config()
    config.set_main_option("script_location", str(_script_folder()).replace("%", "%%"))
    config.attributes["url"] = url
    config.attributes["connection"] = connection
    return config


def _connect(url: str, settings: Settings, *, autocommit: bool = False) -> psycopg.Connection[Any]:
    options = connection_options(settings) | {"autocommit": autocommit, "application_name": _NAME}
    if settings.pooler == "session":
        # A revision limits its own waiting for locks; an index that is built beside the work may take its time.
        options["options"] = "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0"
    try:
        return psycopg.connect(checked(url), **options)
    except psycopg.Error as error:
        raise explain_connection(url, error) from None


class _Changes:
    """The only program that changes the tables now; each revision is a transaction of its own."""

    def __init__(self, connection: Any, patience: Patience, before: SchemaStatus) -> None:
        from alembic.script import ScriptDirectory  # noqa: PLC0415

        self.before = before
        self._connection = connection
        self._patience = patience
        self._config = _config(connection=connection)
        self._pid = connection.exec_driver_sql("select pg_backend_pid()").scalar_one()
        self.script = ScriptDirectory.from_config(self._config)

    def move(self, way: Callable[[Any, str], None], to: str, what: str) -> None:
        """One step up or down, once its locks can be had."""
        import sqlalchemy  # noqa: PLC0415

        def step() -> None:
            self._connection.rollback()  # Alembic begins and ends what it does, when nothing is begun
            try:
                way(self._config, to)
            except sqlalchemy.exc.DBAPIError as error:
                raise error.orig or error from None

        self._patience(step, pid=self._pid, what=what)


@contextmanager
def _alone(url: str, settings: Settings, *, tries: int, tell: Tell | None) -> Iterator[_Changes]:
    """Nobody else changes the tables meanwhile: a second program waits, and finds nothing to do."""
    import sqlalchemy  # noqa: PLC0415

    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: _connect(url, settings), poolclass=sqlalchemy.NullPool
    )
    with closing(_connect(url, settings, autocommit=True)) as looking, closing(_connect(url, settings)) as keeping:
        check_version(looking.info.server_version)
        patience = Patience(looking, tries=tries, tell=tell or (lambda _text: None))

        def lock() -> None:
            keeping.rollback()
            keeping.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
            # Without parameters: what has some keeps its snapshot until the end of the transaction, and whoever
            # builds an index concurrently would wait for that.
            keeping.execute(f"select pg_advisory_xact_lock({_LOCK})")

        # For as long as this transaction lasts; also through a pooler that gives each transaction another session.
        patience(lock, pid=keeping.info.backend_pid, what="Changing the tables")
        try:
            with engine.connect() as connection:
                connection.exec_driver_sql("create schema if not exists retoma")
                connection.commit()
                yield _Changes(connection, patience, _status(looking))
        except psycopg.OperationalError as error:
            if is_lost(error):
                raise explain_connection(url, error) from None
            raise


def upgrade(url: str, settings: Settings, *, to: str = "head", tries: int = TRIES, tell: Tell | None = None) -> None:
    """Bring the schema up to *to*; does nothing when it is there already. *tell* hears who is in the way."""
    from alembic import command  # noqa: PLC0415

    with _alone(url, settings, tries=tries, tell=tell) as changes:
        if changes.before.newer:
            require(changes.before)
            return
        steps = [each.revision for each in changes.script.iterate_revisions(to, changes.before.current or "base")]
        for revision in reversed(steps):
            changes.move(command.upgrade, revision, f"Revision {revision}")


def downgrade(url: str, settings: Settings, *, to: str, tries: int = TRIES, tell: Tell | None = None) -> None:
    """Take the schema back to *to* ('base' removes everything)."""
    from alembic import command  # noqa: PLC0415

    with _alone(url, settings, tries=tries, tell=tell) as changes:
        before = changes.before
        if before.newer:
            raise SchemaMismatch(
                f"The Retoma tables are at revision {before.current}, and this program knows them up to {HEAD}.",
                next="Use the version of Retoma that brought them there.",
            )
        # Alembic gives them from the newest; each is undone down to the one before it.
        for each in changes.script.iterate_revisions(before.current or "base", to, select_for_downgrade=True):
            changes.move(command.downgrade, str(each.down_revision or "base"), f"Undoing revision {each.revision}")


def sql(*, start: str = "base", to: str = "head", down: bool = False) -> str:
    """The statements of an upgrade or downgrade, for those who run SQL by hand; needs no database."""
    from alembic import command  # noqa: PLC0415

    output = io.StringIO()
    config = _config("postgresql+psycopg://", output=output)
    if down:
        command.downgrade(config, f"{HEAD}:{to if to != 'head' else 'base'}", sql=True)
    else:
        command.upgrade(config, to if start == "base" else f"{start}:{to}", sql=True)
    return output.getvalue()


def _status(connection: psycopg.Connection[Any]) -> SchemaStatus:
    exists = connection.execute("select to_regclass('retoma.alembic_version') is not null").fetchone()
    if not exists or not exists[0]:
        return SchemaStatus(None, HEAD)
    row = connection.execute(
        "select version_num, substring(obj_description('retoma.alembic_version'::regclass, 'pg_class')"
        " from '^serves (.+)$') from retoma.alembic_version"
    ).fetchone()
    return SchemaStatus(row[0] if row else None, HEAD, row[1] if row else None)


def status(url: str, settings: Settings) -> SchemaStatus:
    """The revision that the database has now."""
    try:
        with psycopg.connect(checked(url), **connection_options(settings)) as connection:
            check_version(connection.info.server_version)
            return _status(connection)
    except psycopg.Error as error:
        raise explain_connection(url, error) from None


def require(current: SchemaStatus) -> None:
    """Refuse to work on tables that this program cannot use: older ones, or newer ones that do not serve it."""
    if current.ready:
        return
    if current.current is None:
        raise SchemaMismatch("This database has no Retoma tables yet.", next="Run 'retoma db upgrade' first.")
    found = f"The Retoma tables are at revision {current.current}, and this program needs {current.head}"
    if current.newer:
        raise SchemaMismatch(
            f"{found}; they serve programs from {current.serves or current.current} on.",
            next=f"Use a newer version of Retoma, or with it 'retoma db downgrade --to {current.head}'.",
        )
    raise SchemaMismatch(f"{found}.", next="Run 'retoma db upgrade' with this version of Retoma, then start again.")

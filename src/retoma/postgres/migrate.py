"""Schema migrations: revisions in plain SQL, up and down, by one program at a time, while workers continue."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg

from retoma.errors import SchemaMismatch
from retoma.postgres import roles
from retoma.postgres.database import check_version, connection_options, is_lost
from retoma.postgres.lock_retry import TRIES, LockRetry, Tell
from retoma.postgres.roles import Account, Roles
from retoma.postgres.url import checked, explain_connection
from retoma.store.migrations import LOCK_SECONDS
from retoma.system.settings import Settings

HEAD = "0050"
"""The revision this program was written for."""


@dataclass(frozen=True, slots=True)
class Branch:
    """A chain of revisions in a PostgreSQL schema of its own: the engine's, or that of an extension."""

    name: str
    schema: str
    package: str
    """The package with ``versions/`` and ``grants.toml``, which lists what each role may do with the tables."""

    @property
    def head(self) -> str | None:
        """The newest revision that this program knows, from the names of its files."""
        if self.name == ENGINE.name:
            return HEAD
        versions = resources.files(self.package).joinpath("versions")
        numbers = (each.name.partition("_")[0] for each in versions.iterdir() if each.name.endswith(".up.sql"))
        return max(numbers, default=None)


ENGINE = Branch("retoma", "retoma", "retoma.store.migrations")

_LOCK = 7_368_021_115
_NAME = "retoma db"


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """The revision of the database, the one that this program needs, and the oldest that the tables still serve."""

    current: str | None
    head: str | None
    serves: str | None = None
    branch: Branch = ENGINE

    @property
    def newer(self) -> bool:
        """Whether the tables are of a revision that this program does not know."""
        return self.current is not None and self.current > (self.head or "")

    @property
    def ready(self) -> bool:
        """Whether this program can work: the tables have its revision, or a newer one that serves it."""
        if self.newer:
            return self.serves is not None and self.serves <= (self.head or "")
        return self.current == self.head


def _folder(branch: Branch) -> Path:
    return Path(str(resources.files(branch.package)))


def _config(
    branch: Branch, url: str | None = None, *, connection: object = None, output: io.StringIO | None = None
) -> Any:
    # Alembic is only needed when the schema changes, so an executor never pays for importing it.
    from alembic.config import Config  # noqa: PLC0415

    config = Config(output_buffer=output) if output else Config()
    # All branches share the environment that runs revisions; each has its own versions.
    config.set_main_option("script_location", str(_folder(ENGINE)).replace("%", "%%"))
    config.set_main_option("version_locations", str(_folder(branch) / "versions").replace("%", "%%"))
    config.set_main_option("path_separator", "newline")
    config.attributes.update(url=url, connection=connection, schema=branch.schema)
    return config


def _connect(url: str, settings: Settings, *, autocommit: bool = False) -> psycopg.Connection[Any]:
    options = connection_options(settings) | {"autocommit": autocommit, "application_name": _NAME}
    if settings.pooler == "session":
        # A revision limits its own lock waits; an index that is built concurrently may take its time.
        options["options"] = "-c statement_timeout=0 -c lock_timeout=0 -c idle_in_transaction_session_timeout=0"
    try:
        return psycopg.connect(checked(url), **options)
    except psycopg.Error as error:
        raise explain_connection(url, error) from None


class _Changes:
    """Holds the migration lock; each revision is a transaction of its own."""

    def __init__(
        self,
        connection: Any,
        patience: LockRetry,
        looking: psycopg.Connection[Any],
        connect: Callable[[], psycopg.Connection[Any]],
    ) -> None:
        self._looking = looking
        self._connect = connect
        self._connection = connection
        self._patience = patience
        self._pid = connection.exec_driver_sql("select pg_backend_pid()").scalar_one()

    def upgrade(self, branch: Branch, to: str) -> None:
        """Upgrade *branch* to revision *to*."""
        from alembic import command  # noqa: PLC0415

        before, config, script = self._state(branch)
        if before.newer:
            require(before)
            return
        steps = [each.revision for each in script.iterate_revisions(to, before.current or "base")]
        for revision in reversed(steps):
            self._move(config, command.upgrade, revision, f"Revision {_called(branch, revision)}")

    def downgrade(self, branch: Branch, to: str) -> None:
        """Downgrade *branch* to revision *to*."""
        from alembic import command  # noqa: PLC0415

        before, config, script = self._state(branch)
        if before.newer:
            raise SchemaMismatch(
                f"The {_tables(branch)} are at revision {before.current}, and this program knows them up to "
                f"{branch.head}.",
                next="Use the version that brought them there.",
            )
        # Alembic lists them newest first; each is undone down to the one before it.
        for each in script.iterate_revisions(before.current or "base", to, select_for_downgrade=True):
            undone = f"Undoing revision {_called(branch, each.revision)}"
            self._move(config, command.downgrade, str(each.down_revision or "base"), undone)

    def _state(self, branch: Branch) -> tuple[SchemaStatus, Any, Any]:
        from alembic.script import ScriptDirectory  # noqa: PLC0415

        self._connection.exec_driver_sql(f"create schema if not exists {branch.schema}")
        self._connection.commit()
        config = _config(branch, connection=self._connection)
        return _status(self._looking, branch), config, ScriptDirectory.from_config(config)

    def _move(self, config: Any, way: Callable[[Any, str], None], to: str, what: str) -> None:
        """One step up or down, as soon as its locks are available."""
        import sqlalchemy  # noqa: PLC0415

        def step() -> None:
            self._connection.rollback()  # Alembic begins its own transaction only when none is open
            try:
                way(config, to)
            except sqlalchemy.exc.DBAPIError as error:
                raise error.orig or error from None

        self._patience(step, pid=self._pid, what=what)

    def roles(self) -> Roles | None:
        """The roles of this database."""
        with closing(self._connect()) as connection:
            return roles.known(connection)

    def grant(self, wanted: Roles, branches: Sequence[Branch], *, takes: bool) -> None:
        """Give the roles their privileges on the current tables, all or nothing. Privileges that they no longer need
        stay, unless this *takes* them.
        """
        with closing(self._connect()) as connection:

            def step() -> None:
                connection.rollback()
                connection.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
                roles.apply(connection, wanted, _schemas(branches), takes=takes)
                connection.commit()

            self._patience(step, pid=connection.info.backend_pid, what="Giving the roles their rights")


@contextmanager
def _alone(url: str, settings: Settings, *, tries: int, tell: Tell | None) -> Iterator[_Changes]:
    """Hold the migration lock: a second program waits, and then finds nothing to do."""
    import sqlalchemy  # noqa: PLC0415

    engine = sqlalchemy.create_engine(
        "postgresql+psycopg://", creator=lambda: _connect(url, settings), poolclass=sqlalchemy.NullPool
    )
    with closing(_connect(url, settings, autocommit=True)) as looking, closing(_connect(url, settings)) as keeping:
        check_version(looking.info.server_version)
        patience = LockRetry(looking, tries=tries, tell=tell or (lambda _text: None))

        def lock() -> None:
            keeping.rollback()
            keeping.execute(f"set local lock_timeout = '{LOCK_SECONDS}s'")
            # Without parameters: a statement with parameters keeps its snapshot until the end of the transaction, and a
            # concurrent index build would wait for that.
            keeping.execute(f"select pg_advisory_xact_lock({_LOCK})")

        # The lock lasts as long as this transaction, also behind a pooler that gives each transaction another session.
        patience(lock, pid=keeping.info.backend_pid, what="Changing the tables")
        try:
            with engine.connect() as connection:
                yield _Changes(connection, patience, looking, lambda: _connect(url, settings))
        except psycopg.OperationalError as error:
            if is_lost(error):
                raise explain_connection(url, error) from None
            raise


def upgrade(
    url: str,
    settings: Settings,
    *,
    to: str = "head",
    branches: Sequence[Branch] = (ENGINE,),
    tries: int = TRIES,
    tell: Tell | None = None,
) -> None:
    """Upgrade *branches* to *to*; does nothing where they are already. *tell* is called with the
    sessions that block it.
    """
    with _alone(url, settings, tries=tries, tell=tell) as changes:
        for branch in branches:
            changes.upgrade(branch, to)
        # New tables need new grants. This also runs when nothing moved, because an earlier upgrade may have been killed
        # in between. Older programs continue beside this one, so it revokes nothing.
        if wanted := changes.roles():
            changes.grant(wanted, branches, takes=False)


def grant(
    url: str,
    settings: Settings,
    wanted: Roles,
    *,
    branches: Sequence[Branch] = (ENGINE,),
    tries: int = TRIES,
    tell: Tell | None = None,
) -> None:
    """Create the *wanted* roles if necessary, and give each its privileges; from now on every upgrade does so too."""
    with _alone(url, settings, tries=tries, tell=tell) as changes:
        changes.grant(wanted, branches, takes=True)


def name(url: str, settings: Settings) -> str:
    """The name of the database."""
    with closing(_connect(url, settings)) as connection:
        return connection.info.dbname


def account(url: str, settings: Settings) -> Account:
    """The account of the connection, and whether it has the privileges that its part needs."""
    with closing(_connect(url, settings)) as connection:
        check_version(connection.info.server_version)
        connection.read_only = True
        return roles.account(connection)


def give_passwords(url: str, settings: Settings, passwords: Mapping[str, str]) -> None:
    """Let each role log in with its password; all of them, or none."""
    with closing(_connect(url, settings)) as connection:
        for role, password in passwords.items():
            roles.encrypt(connection, role, password)
        connection.commit()


def grants(url: str, settings: Settings, wanted: Roles, *, branches: Sequence[Branch] = (ENGINE,)) -> list[str]:
    """The same statements, for people who run SQL by hand. The database is read and not changed."""
    with closing(_connect(url, settings)) as connection:
        check_version(connection.info.server_version)
        connection.read_only = True
        return roles.script(connection, wanted, _schemas(branches))


def downgrade(
    url: str, settings: Settings, *, to: str, branch: Branch = ENGINE, tries: int = TRIES, tell: Tell | None = None
) -> None:
    """Downgrade *branch* to *to* ('base' removes everything)."""
    with _alone(url, settings, tries=tries, tell=tell) as changes:
        changes.downgrade(branch, to)


def sql(*, start: str = "base", to: str = "head", down: bool = False, branch: Branch = ENGINE) -> str:
    """The statements of an upgrade or downgrade, for people who run SQL by hand; needs no database."""
    from alembic import command  # noqa: PLC0415

    output = io.StringIO()
    config = _config(branch, "postgresql+psycopg://", output=output)
    if down:
        command.downgrade(config, f"{branch.head}:{to if to != 'head' else 'base'}", sql=True)
    else:
        command.upgrade(config, to if start == "base" else f"{start}:{to}", sql=True)
    return output.getvalue()


def _schemas(branches: Sequence[Branch]) -> dict[str, str]:
    """The package with the grants of each schema."""
    return {each.schema: each.package for each in branches}


def _called(branch: Branch, revision: str) -> str:
    return revision if branch == ENGINE else f"{revision} of {branch.name}"


def _tables(branch: Branch) -> str:
    return "Retoma tables" if branch == ENGINE else f"tables of {branch.name}"


_EXISTS = "select to_regclass(%s) is not null"
_REVISION = (
    "select version_num, substring(obj_description('{0}.alembic_version'::regclass, 'pg_class')"
    " from '^serves (.+)$') from {0}.alembic_version"
)


def _status(connection: psycopg.Connection[Any], branch: Branch = ENGINE) -> SchemaStatus:
    exists = connection.execute(_EXISTS, (f"{branch.schema}.alembic_version",)).fetchone()
    if not exists or not exists[0]:
        return SchemaStatus(None, branch.head, branch=branch)
    row = connection.execute(_REVISION.format(branch.schema).encode()).fetchone()
    return SchemaStatus(row[0] if row else None, branch.head, row[1] if row else None, branch)


async def status_on(connection: psycopg.AsyncConnection[Any]) -> SchemaStatus:
    """The current revision of the engine's tables, read on an existing connection."""
    exists = await (await connection.execute(_EXISTS, (f"{ENGINE.schema}.alembic_version",))).fetchone()
    if not exists or not exists[0]:
        return SchemaStatus(None, HEAD)
    row = await (await connection.execute(_REVISION.format(ENGINE.schema).encode())).fetchone()
    return SchemaStatus(row[0] if row else None, HEAD, row[1] if row else None)


def status(url: str, settings: Settings, branch: Branch = ENGINE) -> SchemaStatus:
    """The current revision of the tables of *branch*."""
    return statuses(url, settings, (branch,))[0]


def statuses(url: str, settings: Settings, branches: Sequence[Branch]) -> list[SchemaStatus]:
    """The current revisions of the tables of *branches*."""
    try:
        with psycopg.connect(checked(url), **connection_options(settings)) as connection:
            check_version(connection.info.server_version)
            return [_status(connection, each) for each in branches]
    except psycopg.Error as error:
        raise explain_connection(url, error) from None


def require(current: SchemaStatus) -> None:
    """Refuse tables that this program cannot use: older ones, or newer ones that do not serve it."""
    if current.ready:
        return
    if current.current is None:
        raise SchemaMismatch(
            f"This database has no {_tables(current.branch)} yet.", next="Run 'retoma db upgrade' first."
        )
    found = f"The {_tables(current.branch)} are at revision {current.current}, and this program needs {current.head}"
    if current.newer:
        raise SchemaMismatch(
            f"{found}; they serve programs from {current.serves or current.current} on.",
            next=f"Use a newer version of Retoma, or with it 'retoma db downgrade --to {current.head}'.",
        )
    raise SchemaMismatch(f"{found}.", next="Run 'retoma db upgrade' with this version of Retoma, then start again.")

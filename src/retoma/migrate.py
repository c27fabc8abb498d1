"""The schema: revisions in plain SQL, up and down, under an advisory lock."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Any

import psycopg

from retoma.database import check_version, checked, connection_options, explain_connection
from retoma.errors import SchemaMismatch
from retoma.settings import Settings

HEAD = "0007"
"""The revision this program was written for."""

_LOCK = 7_368_021_115
_HINT = "Run 'retoma db upgrade' with this version of Retoma, then start again."


@dataclass(frozen=True, slots=True)
class SchemaStatus:
    """Which revision the database has, and which one this program needs."""

    current: str | None
    head: str

    @property
    def ready(self) -> bool:
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


@contextmanager
def _locked(url: str, settings: Settings) -> Iterator[Any]:
    """One SQLAlchemy connection in one transaction, with the migration lock held."""
    import sqlalchemy  # noqa: PLC0415

    def connect() -> psycopg.Connection[Any]:
        options = connection_options(settings) | {"autocommit": False}
        try:
            return psycopg.connect(checked(url), **options)
        except psycopg.Error as error:
            raise explain_connection(url, error) from None

    engine = sqlalchemy.create_engine("postgresql+psycopg://", creator=connect, poolclass=sqlalchemy.NullPool)
    with engine.begin() as connection:
        check_version(int(connection.exec_driver_sql("show server_version_num").scalar_one()))
        connection.exec_driver_sql("set local lock_timeout = '10s'")
        connection.exec_driver_sql(f"select pg_advisory_xact_lock({_LOCK})")
        connection.exec_driver_sql("create schema if not exists retoma")
        yield connection


def upgrade(url: str, settings: Settings, *, to: str = "head") -> None:
    """Bring the schema up to *to*; does nothing when it is there already."""
    from alembic import command  # noqa: PLC0415

    with _locked(url, settings) as connection:
        command.upgrade(_config(connection=connection), to)


def downgrade(url: str, settings: Settings, *, to: str) -> None:
    """Take the schema back to *to* ('base' removes everything)."""
    from alembic import command  # noqa: PLC0415

    with _locked(url, settings) as connection:
        command.downgrade(_config(connection=connection), to)


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


def _revision(connection: psycopg.Connection[Any]) -> str | None:
    exists = connection.execute("select to_regclass('retoma.alembic_version') is not null").fetchone()
    if not exists or not exists[0]:
        return None
    row = connection.execute("select version_num from retoma.alembic_version").fetchone()
    return str(row[0]) if row else None


def status(url: str, settings: Settings) -> SchemaStatus:
    """The revision that the database has now."""
    try:
        with psycopg.connect(checked(url), **connection_options(settings)) as connection:
            check_version(connection.info.server_version)
            return SchemaStatus(_revision(connection), HEAD)
    except psycopg.Error as error:
        raise explain_connection(url, error) from None


def require(current: SchemaStatus) -> None:
    """Refuse to work on tables that are not the ones this program knows."""
    if current.ready:
        return
    if current.current is None:
        raise SchemaMismatch("This database has no Retoma tables yet.", next="Run 'retoma db upgrade' first.")
    raise SchemaMismatch(
        f"The Retoma tables are at revision {current.current}, and this program needs {current.head}.", next=_HINT
    )

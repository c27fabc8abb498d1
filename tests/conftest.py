"""One PostgreSQL for the whole run, one migrated database per test."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import AsyncIterator, Iterator
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from retoma import Settings, embedded, migrate
from retoma.database import Database

_HOME = "RETOMA_TEST_HOME"
_numbers = count(1)
_ROOM = 6_000_000_000


def pytest_configure(config: pytest.Config) -> None:
    # The first process of the run chooses the place; the others inherit it and share the server.
    for name in [name for name in os.environ if name.startswith(("RETOMA_", "PG", "JOB_")) and name != _HOME]:
        del os.environ[name]
    os.environ.pop("DATABASE_URL", None)
    os.environ.pop("WORKER_ID", None)
    if not hasattr(config, "workerinput") and _HOME not in os.environ:
        place = _memory()
        if place is not None:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", place)
        home = Path(tempfile.mkdtemp(prefix="retoma-test-", dir=place))
        home.chmod(0o755)  # the server's account must be able to reach it
        os.environ[_HOME] = str(home)
        config.add_cleanup(lambda: _leave(home))


def _memory() -> str | None:
    """A folder that is in memory, when it has room: a database of its own for each test is ten times as quick there,
    because nothing waits for a disk. What survives a power cut is not what tests can show.
    """
    place = Path("/dev/shm")
    if not place.is_dir() or not os.access(place, os.W_OK):
        return None
    return str(place) if shutil.disk_usage(place).free > _ROOM else None


def _leave(home: Path) -> None:
    embedded.stop(home)
    shutil.rmtree(home, ignore_errors=True)


def database_at(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of the server's own database."""
    running = embedded.ensure(Path(os.environ[_HOME]))
    yield running.url
    running.release()


@pytest.fixture(scope="session")
def template(server: str, worker_id_of_run: str) -> str:
    name = f"template_{worker_id_of_run}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database if exists {name}")
        connection.execute(f"create database {name}")
    migrate.upgrade(database_at(server, name), Settings.load())
    return name


@pytest.fixture(scope="session")
def worker_id_of_run() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "alone")


@pytest.fixture
def empty_database_url(server: str, worker_id_of_run: str) -> Iterator[str]:
    """A database without tables."""
    name = f"empty_{worker_id_of_run}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"create database {name}")
        yield database_at(server, name)
        connection.execute(f"drop database {name} with (force)")


@pytest.fixture
def database_url(server: str, template: str, worker_id_of_run: str) -> Iterator[str]:
    """A migrated database for one test."""
    name = f"test_{worker_id_of_run}_{next(_numbers)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"create database {name} template {template} strategy file_copy")
    yield database_at(server, name)
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings.load(database_url=database_url)


@pytest.fixture
async def database(database_url: str, settings: Settings) -> AsyncIterator[Database]:
    database = Database(database_url, settings)
    await database.open()
    yield database
    await database.close()


@pytest.fixture
def psql(database_url: str) -> Iterator[psycopg.Connection]:
    """A plain connection for looking and for letting time pass."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection

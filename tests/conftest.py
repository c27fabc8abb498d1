"""One PostgreSQL for the whole run, one migrated database per test."""

from __future__ import annotations

import fcntl
import gc
import os
import shutil
import signal
import sys
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import asdict
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

import hypothesis
import psycopg
import pytest

from retoma import Settings
from retoma.app.extension import branches_of
from retoma.pipelines import ALL
from retoma.postgres import migrate
from retoma.postgres.database import Database
from retoma.postgres.embedded import server as embedded_server
from retoma.postgres.roles import Roles

sys.path.insert(0, str(Path(__file__).parent / "processes"))  # where every room finds how programs are run

_HOME = "RETOMA_TEST_HOME"
_numbers = count(1)
_ROOM = 6_000_000_000
_LONG = 900.0
"""The limit of a test, in seconds, from which it counts as long."""

# The same stories in each run, so that a change is what makes a test fail; `make explore` tells others.
hypothesis.settings.register_profile("repeatable", derandomize=True)
if not os.environ.get("EXPLORE"):
    hypothesis.settings.load_profile("repeatable")


def pytest_configure(config: pytest.Config) -> None:
    # The first process of the run chooses the place; the others inherit it and share the server.
    kept = {_HOME, "RETOMA_PG_BIN"}  # make matrix names another PostgreSQL with that
    for name in [name for name in os.environ if name.startswith(("RETOMA_", "PG", "JOB_")) and name not in kept]:
        del os.environ[name]
    # Most tests call a server that has no key; those of the token switch it on.
    os.environ["RETOMA_TOKEN"] = "off"
    os.environ.pop("DATABASE_URL", None)
    os.environ.pop("WORKER_ID", None)
    # Commands speak the language of whoever runs them; tests read English, and say so where they do not.
    for name in ("LANGUAGE", "LC_ALL", "LC_MESSAGES"):
        os.environ.pop(name, None)
    os.environ["LANG"] = "C.UTF-8"
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A run in the background of a script inherits that, and so would the programs that tests interrupt.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    if not hasattr(config, "workerinput") and _HOME not in os.environ:
        place = _memory()
        if place is not None:
            os.environ.setdefault("PYTEST_DEBUG_TEMPROOT", place)
        home = Path(tempfile.mkdtemp(prefix="retoma-test-", dir=place))
        home.chmod(0o755)  # the server's account must be able to reach it
        os.environ[_HOME] = str(home)
        config.add_cleanup(lambda: _leave(home))
    if hasattr(config, "workerinput"):
        gc.disable()  # until all tests are imported: to look through them again and again costs each process 2 s


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Begin with what may take long: at the end one process would still be at it when the others have nothing left."""
    items.sort(key=lambda each: _limit(each) < _LONG)  # all others stay in their order


def _limit(item: pytest.Item) -> float:
    own = item.get_closest_marker("timeout")
    return float(own.args[0]) if own else 0.0


def pytest_collection_finish() -> None:
    gc.freeze()
    gc.enable()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Say at the very end what failed and where, each in a line, whatever the processes of a test have printed."""
    for report in [*terminalreporter.getreports("failed"), *terminalreporter.getreports("error")]:
        crash = getattr(report.longrepr, "reprcrash", None)
        if crash is not None:
            why = " ".join(crash.message.split())[:400]
            terminalreporter.write_line(f"{report.nodeid} ({Path(crash.path).name}:{crash.lineno}): {why}")


def _memory() -> str | None:
    """A folder that is in memory, when it has room: a database of its own for each test is ten times as quick there,
    because nothing waits for a disk. What survives a power cut is not what tests can show.
    """
    place = Path("/dev/shm")
    if not place.is_dir() or not os.access(place, os.W_OK):
        return None
    return str(place) if shutil.disk_usage(place).free > _ROOM else None


def _leave(home: Path) -> None:
    embedded_server.stop(home)
    shutil.rmtree(home, ignore_errors=True)


def database_at(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()


@pytest.fixture(scope="session")
def server() -> Iterator[str]:
    """The address of the server's own database, as the superuser: tests make databases, roles and trouble."""
    running = embedded_server.ensure(Path(os.environ[_HOME]))
    yield running.superuser_url
    running.release()


@pytest.fixture(scope="session")
def maker(server: str) -> Iterator[psycopg.Connection]:
    """A connection to the server's own database, kept for the whole run: a new one for each database that is made would
    cost as much as the database.
    """
    with psycopg.connect(server, autocommit=True) as connection:
        yield connection


@pytest.fixture(scope="session")
def template(server: str) -> str:
    """A database with all tables, of which those of the tests are copies; the first process that needs it makes it."""
    name = "template_of_tests"
    with (
        (Path(os.environ[_HOME]) / "template.lock").open("w") as file,
        psycopg.connect(server, autocommit=True) as psql,
    ):
        fcntl.flock(file, fcntl.LOCK_EX)
        if not psql.execute("select 1 from pg_database where datname = %s and datistemplate", [name]).fetchone():
            psql.execute(f"drop database if exists {name}")
            psql.execute(f"create database {name}")
            migrate.upgrade(database_at(server, name), Settings.load(), branches=branches_of(ALL))
            psql.execute(f"alter database {name} is_template true")  # it is whole
    return name


@pytest.fixture(scope="session")
def worker_id_of_run() -> str:
    return os.environ.get("PYTEST_XDIST_WORKER", "alone")


@pytest.fixture
def empty_database_url(server: str, maker: psycopg.Connection, worker_id_of_run: str) -> Iterator[str]:
    """A database without tables."""
    name = f"empty_{worker_id_of_run}_{next(_numbers)}"
    maker.execute(f"create database {name}")
    yield database_at(server, name)
    maker.execute(f"drop database {name} with (force)")


@pytest.fixture
def database_url(server: str, maker: psycopg.Connection, template: str, worker_id_of_run: str) -> Iterator[str]:
    """A migrated database for one test."""
    name = f"test_{worker_id_of_run}_{next(_numbers)}"
    maker.execute(f"create database {name} template {template} strategy file_copy")
    yield database_at(server, name)
    maker.execute(f"drop database {name} with (force)")


@pytest.fixture
def roles_of(server: str, template: str, worker_id_of_run: str) -> Iterator[Callable[[], dict[str, str]]]:
    """Makes migrated databases with the four roles: the address for each part of the house, and *admin* for all."""
    made: list[str] = []

    def make() -> dict[str, str]:
        name = f"walled_{worker_id_of_run}_{next(_numbers)}"
        made.append(name)
        with psycopg.connect(server, autocommit=True) as connection:
            connection.execute(f"create database {name} template {template} strategy file_copy")
        admin, settings = database_at(server, name), Settings.load()
        wanted = Roles.of(name)
        migrate.grant(admin, settings, wanted, branches=branches_of(ALL))
        migrate.give_passwords(admin, settings, dict.fromkeys(wanted.names, "a password of the tests"))
        return {"admin": admin} | {part: signed_in(admin, role) for part, role in asdict(wanted).items()}

    yield make
    with psycopg.connect(server, autocommit=True) as connection:
        for name in made:
            connection.execute(f"drop database {name} with (force)")
            for role in Roles.of(name).names:
                connection.execute(f"drop role {role}")


def signed_in(url: str, role: str) -> str:
    """The same database for another account."""
    hosts = urlsplit(url).netloc.rpartition("@")[2]
    return urlsplit(url)._replace(netloc=f"{role}:a%20password%20of%20the%20tests@{hosts}").geturl()


@pytest.fixture
def parts(roles_of: Callable[[], dict[str, str]]) -> dict[str, str]:
    """A migrated database for one test: the address of each part of the house."""
    return roles_of()


@pytest.fixture
def settings(database_url: str) -> Settings:
    return Settings.load(database_url=database_url)


@pytest.fixture
async def database(database_url: str, settings: Settings) -> AsyncIterator[Database]:
    database = Database(database_url, settings)
    await database.open(known=True)
    yield database
    await database.close()


@pytest.fixture
def psql(database_url: str) -> Iterator[psycopg.Connection]:
    """A plain connection for looking and for letting time pass."""
    with psycopg.connect(database_url, autocommit=True) as connection:
        yield connection

"""The plugin for pytest: a PostgreSQL for the run, a database for each test, and an app that uses it.

pytest loads it in every project beside which Retoma is installed, so nothing of Retoma is imported
until a fixture is used.
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from retoma.app.retoma import Retoma

_HOME = "PYTEST_RETOMA_HOME"
"""Where the processes of one run find their server; the first of them sets it."""

_SERVER = "RETOMA_TEST_SERVER"


def pytest_configure(config: pytest.Config) -> None:
    """Choose the folder of the server, which the other processes of the run inherit; the first fixture
    that needs it starts it.
    """
    if _HOME not in os.environ:
        os.environ[_HOME] = str(Path(tempfile.gettempdir()) / f"retoma-pytest-{uuid4().hex[:12]}")
        config.add_cleanup(_leave)


def _leave() -> None:
    home = Path(os.environ.pop(_HOME))
    if home.exists():
        from retoma.postgres.embedded import server

        server.stop(home)
        shutil.rmtree(home, ignore_errors=True)


@pytest.fixture(scope="session")
def retoma_server() -> Iterator[str]:
    """The URL of a PostgreSQL on which databases can be created: RETOMA_TEST_SERVER, or an embedded one."""
    if given := os.environ.get(_SERVER):
        yield given
        return
    from retoma.postgres.embedded import server

    home = Path(os.environ[_HOME])
    home.mkdir(exist_ok=True)
    home.chmod(0o755)  # the server's account must be able to reach it
    running = server.ensure(home)
    yield running.superuser_url
    running.release()


@pytest.fixture(scope="session")
def _retoma_template(retoma_server: str) -> Iterator[str]:
    """The name of a database with the tables of the engine, to be copied."""
    from retoma.postgres import migrate
    from retoma.system.settings import Settings

    name = f"retoma_template_{uuid4().hex[:12]}"
    _execute(retoma_server, f"create database {name}")
    try:
        migrate.upgrade(_at(retoma_server, name), Settings.load())
        yield name
    finally:
        _execute(retoma_server, f"drop database {name} with (force)")


@pytest.fixture
def retoma_database(retoma_server: str, _retoma_template: str) -> Iterator[str]:
    """The URL of a migrated database for one test, which is dropped afterwards."""
    name = f"retoma_test_{uuid4().hex[:12]}"
    _execute(retoma_server, f"create database {name} template {_retoma_template}")
    try:
        yield _at(retoma_server, name)
    finally:
        _execute(retoma_server, f"drop database {name} with (force)")


@pytest.fixture
def retoma_app(retoma_database: str) -> Iterator[Callable[..., Retoma]]:
    """Binds an app to the database of the test: ``retoma_app(app)`` one of your own, until the test ends, and
    ``retoma_app(pipelines=[…], providers={…})`` a new one. Open it with ``async with``.
    """
    from retoma.app.extension import branches_of
    from retoma.app.retoma import Retoma
    from retoma.postgres import migrate
    from retoma.system.settings import Settings

    bound: list[tuple[Retoma, Settings]] = []

    def bind(app: Retoma | None = None, **arguments: Any) -> Retoma:
        if app is None:
            app = Retoma(retoma_database, **arguments)
        elif arguments:
            raise TypeError("An app has its pipelines and providers: give retoma_app() either an app or these.")
        else:
            bound.append((app, app.settings))
            app.registry.settings = app.settings.model_copy(update={"database_url": retoma_database})
        if app.extensions:
            migrate.upgrade(retoma_database, app.settings, branches=branches_of(app.extensions))
        return app

    yield bind
    for app, settings in reversed(bound):
        app.registry.settings = settings


def _at(url: str, name: str) -> str:
    return urlsplit(url)._replace(path=f"/{name}").geturl()


def _execute(url: str, statement: str) -> None:
    import psycopg

    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute(statement.encode())

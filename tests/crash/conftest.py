"""A fleet, its oracle and an app to queue jobs with; nothing is left running afterwards."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parent))

from crash_app import PIPELINES
from fleet import Fleet
from oracle import Oracle

from retoma import Retoma
from retoma.chores import plant
from retoma.join import run_on_sync
from retoma.pipelines.sweeping import sweep_blobs


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured on the way; no test depends on it."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties if report.when == "call" else ():
            terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {name} = {value}")


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Write a figure down with the test's report (record_property, without its quarrel with JUnit), as plain JSON: the
    report goes from process to process.
    """

    def write(name: str, value: object) -> None:
        request.node.user_properties.append((name, json.loads(json.dumps(value, default=str))))

    return write


def rest_the_chores(url: str) -> None:
    """Nothing that comes by the clock comes between: what workers did is counted."""
    with psycopg.connect(url, autocommit=True) as connection:
        run_on_sync(connection, plant("UTC", [sweep_blobs]))
        connection.execute("update retoma.schedules set paused_at = now()")


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    rest_the_chores(database_url)
    fleet = Fleet(database_url, tmp_path)
    yield fleet
    fleet.clear_away()
    fleet.tell()


@pytest.fixture
def oracle(fleet: Fleet) -> Iterator[Oracle]:
    oracle = Oracle(fleet.url, fleet.file)
    yield oracle
    oracle.close()


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Retoma]:
    async with Retoma(fleet.url, pipelines=PIPELINES) as app:
        yield app

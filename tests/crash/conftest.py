"""A fleet, its oracle and an app to queue jobs with; nothing is left running afterwards."""

from __future__ import annotations

import fcntl
import json
import os
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "servers"))
sys.path.insert(0, str(Path(__file__).parent))

from crash_app import PIPELINES
from fleet import Fleet
from oracle import Oracle

from retoma import Retoma


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """What was measured on the way; no test depends on it."""
    for report in terminalreporter.getreports("passed"):
        for name, value in report.user_properties if report.when == "call" else ():
            terminalreporter.write_line(f"{report.nodeid.rpartition('::')[2]}: {name} = {value}")


@pytest.fixture
def crowd() -> Iterator[None]:
    """For a test that uses more than half of the server's connections: one such test runs at a time."""
    with (Path(os.environ["RETOMA_TEST_HOME"]) / "crowd.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def figure(request: pytest.FixtureRequest) -> Callable[[str, object], None]:
    """Write a figure down with the test's report (record_property, without its quarrel with JUnit), as plain JSON: the
    report goes from process to process.
    """

    def write(name: str, value: object) -> None:
        request.node.user_properties.append((name, json.loads(json.dumps(value, default=str))))

    return write


@pytest.fixture
def fleet(database_url: str, tmp_path: Path) -> Iterator[Fleet]:
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

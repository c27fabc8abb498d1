"""The command line: in this process where only its words matter, as a real process where its end does."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import programs
import pytest
from click.testing import CliRunner, Result

import retoma.cli
from retoma import Retoma
from retoma.app.loader import find_app
from retoma.testing import drain

PROGRAM = f"{Path(__file__).parent / 'cli_program.py'}:app"

Run = Callable[..., Result]


@dataclass
class Command:
    """The command as a process of its own, on one database."""

    environment: dict[str, str]
    started: list[programs.Started] = field(default_factory=list)

    def __call__(self, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
        return programs.run(["-m", "retoma", *args], environment=self.environment | variables)

    def start(self, *args: str, **variables: str) -> programs.Started:
        process = programs.start(["-m", "retoma", *args], environment=self.environment | variables)
        self.started.append(process)
        return process


@pytest.fixture
def command(tmp_path: Path) -> Iterator[Command]:
    """Nothing is said of a database: the test says which."""
    found = Command({**os.environ, "RETOMA_HOME": str(tmp_path / "home")})
    yield found
    for process in found.started:
        if process.poll() is None:
            process.kill()
        process.communicate()


def here(*args: str, **options: str) -> Result:
    """A command in this process, which keeps its environment: a command may set variables for what it starts."""
    before = dict(os.environ)
    try:
        return CliRunner().invoke(retoma.cli.main, args, prog_name="retoma", **options)
    finally:
        os.environ.clear()
        os.environ.update(before)


@pytest.fixture
def run(database_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command in this process, on the database of the test."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("RETOMA_APP", PROGRAM)
    # Imported anew by each test: a program reads its settings when it is imported.
    monkeypatch.delitem(sys.modules, "cli_program", raising=False)
    return here


@pytest.fixture
def run_on_nothing(empty_database_url: str, monkeypatch: pytest.MonkeyPatch) -> Run:
    """A command in this process, on a database without tables."""
    monkeypatch.setenv("DATABASE_URL", empty_database_url)
    return here


@pytest.fixture
def program(run: Run) -> Retoma:  # noqa: ARG001 - it says which database
    """The program that the tests serve, on the database of the test."""
    return find_app(PROGRAM)


@pytest.fixture
def work(program: Retoma) -> Callable[[], int]:
    """Run what is ready, in this process."""
    return lambda: asyncio.run(drain(program))

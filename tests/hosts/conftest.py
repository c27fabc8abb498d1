"""A stage for the programs of a test, and a Redis."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from node_stage import Stage, die_with_the_tests, until


@pytest.fixture
def stage(database_url: str, tmp_path: Path) -> Iterator[Stage]:
    stage = Stage(database_url, tmp_path)
    yield stage
    stage.clear_away()


@pytest.fixture
def redis(tmp_path: Path) -> Iterator[str]:
    """A Redis of the test's own, on a free port of this machine alone."""
    program = shutil.which("redis-server")
    if program is None:
        pytest.skip("there is no redis-server here; try: tools/system-packages redis-server")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", "", "--dir", str(tmp_path)]
    server = subprocess.Popen(command, stdout=subprocess.DEVNULL, preexec_fn=die_with_the_tests)  # noqa: PLW1509
    until(lambda: server.poll() is not None or _answers(port), "Redis answers", seconds=30)
    if server.poll() is not None:
        pytest.skip(f"redis-server ended at once with {server.returncode}")
    yield f"redis://127.0.0.1:{port}/0"
    server.kill()
    server.wait()


def _answers(port: int) -> bool:
    with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=1) as connection:
        connection.sendall(b"PING\r\n")
        return connection.recv(16).startswith(b"+PONG")
    return False

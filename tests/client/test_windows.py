"""The client and the command line where a system lacks what Unix has: as on Windows."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from .conftest import SECRET, Served

pytestmark = pytest.mark.timeout(600)

LACKING = """
import os, signal, sys

for name in ("fcntl", "resource", "uvloop", "pwd", "grp", "termios"):
    sys.modules[name] = None  # importing it raises ModuleNotFoundError
for name in ("SIGKILL", "SIGSTOP", "SIGCONT", "SIGHUP", "SIGCHLD", "SIGUSR1", "SIGALRM"):
    vars(signal).pop(name, None)
for name in ("fork", "getuid", "geteuid", "getgid", "killpg", "getpgid", "setsid", "chown"):
    vars(os).pop(name, None)
"""


def without_unix(program: str, **variables: str) -> subprocess.CompletedProcess[str]:
    kept = {name: value for name, value in os.environ.items() if name not in ("DATABASE_URL", "LOGNAME", "USER")}
    return subprocess.run(
        [sys.executable, "-c", LACKING + program],
        env={**kept, **variables},
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )


def test_what_is_hidden_is_really_missing() -> None:
    assert without_unix("import fcntl").returncode == 1
    assert without_unix("signal.SIGKILL").returncode == 1
    assert without_unix("os.fork").returncode == 1


def test_the_package_and_the_client_are_imported() -> None:
    program = (
        "import retoma, retoma.client, retoma.errors\nfrom retoma.client import AsyncClient, Client\nClient('http://x')"
    )
    ran = without_unix(program + "\nfrom retoma import Batch, Job, Progress, RetomaError")

    assert ran.returncode == 0, ran.stderr


@pytest.mark.parametrize("args", ["--help", "--version", "batch --help", "job show --help"])
def test_help_is_printed(args: str) -> None:
    ran = without_unix(f"from retoma.cli import main\nmain({args.split()!r}, prog_name='retoma')")

    assert ran.returncode == 0, ran.stderr


def test_commands_ask_a_server(served: Served) -> None:
    with served.client() as client:
        id = client.batches.create("double", [1, 2], name="from afar").id
    commands = [
        ["batch", "list", "--json"],
        ["batch", "show", str(id)],
        ["batch", "pause", str(id)],
        ["batch", "cancel", str(id)],
        ["job", "list"],
        ["queue", "list"],
        ["workers", "--all"],
        ["status"],
    ]
    program = "from retoma.cli import main\n" + "".join(
        f"try: main({[*command, '--api', served.url]!r}, prog_name='retoma')\n"
        f"except SystemExit as end: assert end.code == 0, {command!r}\n"
        for command in commands
    )

    ran = without_unix(program, RETOMA_API_KEY=SECRET)

    assert ran.returncode == 0, ran.stderr
    assert f"{id}\tcancelled" in ran.stdout

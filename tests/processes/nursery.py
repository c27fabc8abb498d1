"""The tests' side of the nursery: programs that are forked instead of started, because most of a start is imports."""

from __future__ import annotations

import atexit
import ctypes
import json
import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO, TypeAlias

FORKS = not os.environ.get("EXPLORE")
"""Whether programs are forked from the nursery, which saves most of a second of processor for each process; `make
explore` starts them as people do.
"""
MAIN = Path(__file__).with_name("nursery_main.py")
_libc = ctypes.CDLL(None)

# What every worker imports before it has read a line of its program.
_USUAL = ("retoma.cli.worker", "retoma.app.retoma", "retoma.app.loader", "retoma.telemetry.logs", "uvloop")
_USUAL += ("retoma.worker.supervisor", "retoma.worker.executor_main", "retoma.pipelines")
_SERVER = ("retoma.cli.serve", "retoma.web.server.server")
_LOCAL = ("retoma.providers.local.embed", "retoma.providers.local.classify")
_OPENAI = ("retoma.providers.openai",)

# What else takes long to import and is of use to many, by the program.
_NEEDS: dict[str, Sequence[str]] = {
    "books_app": _OPENAI,
    "classifier_app": _LOCAL,
    "classify_app": _LOCAL,
    "documents_app": _LOCAL,
    "earlier_app": _LOCAL,
    "embeddings_app": (*_LOCAL, "retoma.pipelines.embeddings.pipeline"),
    "nobody_app": (*_OPENAI, *_LOCAL),
    "paid_app": _OPENAI,
    "quotes_app": ("retoma.providers.anthropic", "retoma.pipelines.quotes.pipeline"),
    "quotes_hungry_app": ("retoma.pipelines.quotes.pipeline",),
    "reading_app": ("retoma.providers.azure_documents",),
    "refine_app": _LOCAL,
    "sick_paid_app": _OPENAI,
    "stores_app": _LOCAL,
}


class Forked:
    """As much of a Popen as tests use: a process that the nursery is the parent of."""

    def __init__(self, pid: int, said: int) -> None:
        self.pid = pid
        self.returncode: int | None = None
        self._said = said

    def poll(self) -> int | None:
        return self._read(0)

    def wait(self, timeout: float | None = None) -> int:
        ended = self._read(timeout)
        if ended is None:
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        return ended

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._said, select.POLLIN)
            if waiting.poll(None if timeout is None else timeout * 1000):
                told = os.read(self._said, 100)
                self.returncode = int(told) if told else -9  # the nursery died, and took it along
                os.close(self._said)
        return self.returncode


Begun: TypeAlias = "Forked | subprocess.Popen[bytes]"


class Nursery:
    """One for each process of the test run; it dies with it."""

    def __init__(self) -> None:
        self._door, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Set before numpy loads: a thread that it starts would not be there in what is forked.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, str(MAIN), str(there.fileno())]
        self._process = subprocess.Popen(command, env=environment, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)
        there.close()
        atexit.register(self._end)

    def _end(self) -> None:
        self._door.close()
        self._process.wait()

    def fork(
        self,
        words: Sequence[str],
        *,
        environment: Mapping[str, str],
        folder: Path,
        log: int,
        errors: int | None = None,
        needs: Sequence[str] = (),
    ) -> Forked:
        """Run *words*, which would follow the name of the interpreter, in a process and a group of its own; what it
        says goes to *log*, and its errors too unless they have a file. The nursery imports *needs* before, once for
        all.
        """
        order = {
            "words": list(words),
            "environment": dict(environment),
            "folder": str(folder),
            "files": [0, 1, 2],
            "name": "forked",
            "group": True,
            "needs": [*_USUAL, *needs],
        }
        said, tell = os.pipe()
        nothing = os.open(os.devnull, os.O_RDONLY)
        socket.send_fds(
            self._door, [json.dumps(order).encode()], [tell, nothing, log, log if errors is None else errors]
        )
        os.close(nothing)
        os.close(tell)
        pid = b""
        while not pid.endswith(b"\n"):
            pid += os.read(said, 1) or b"-1\n"
        return Forked(int(pid), said)


@cache
def _nursery() -> Nursery:
    return Nursery()


def begin(
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path,
    log: IO[bytes] | int,
    errors: int | None = None,
    forked: bool = True,
) -> Begun:
    """Run *words*, which follow the name of the interpreter, in a process group of their own; they end with the tests.
    Unless *forked* it is a new interpreter, as somebody at a terminal would start it. What it says goes to *log*, and
    its errors too unless they have a file.
    """
    log = log if isinstance(log, int) else log.fileno()
    if FORKS and forked:
        return _nursery().fork(
            words, environment=environment, folder=folder, log=log, errors=errors, needs=_needs(words)
        )
    return subprocess.Popen(
        [sys.executable, *words],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log if errors is None else errors,
        process_group=0,
        preexec_fn=_die_with_the_tests,  # noqa: PLW1509 - it only makes a system call
    )


def _needs(words: Sequence[str]) -> list[str]:
    app = words[words.index("--app") + 1].partition(":")[0] if "--app" in words else ""
    return [*_NEEDS.get(app, ()), *(_SERVER if {"serve", "up"} & {*words} else ())]


def _die_with_the_tests() -> None:
    _libc.prctl(1, signal.SIGKILL)


def said(words: Sequence[str], *, environment: Mapping[str, str], folder: Path) -> str:
    """What a program says until it ends, errors included."""
    with tempfile.TemporaryFile() as log:
        begin(words, environment=environment, folder=folder, log=log).wait()
        log.seek(0)
        return log.read().decode()

"""The tests' side of the nursery: programs that are forked instead of started, because most of a start is imports."""

from __future__ import annotations

import json
import os
import select
import socket
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path

MAIN = Path(__file__).with_name("nursery_main.py")

# What every worker imports before it has read a line of its program.
_USUAL = ("retoma.cli.worker", "retoma.app.retoma", "retoma.app.loader", "retoma.telemetry.logs", "uvloop")
_USUAL += ("retoma.worker.supervisor", "retoma.worker.executor_main")


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

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, 9)

    def terminate(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, 15)

    def _read(self, timeout: float | None) -> int | None:
        if self.returncode is None:
            waiting = select.poll()
            waiting.register(self._said, select.POLLIN)
            if waiting.poll(None if timeout is None else timeout * 1000):
                told = os.read(self._said, 100)
                self.returncode = int(told) if told else -9  # the nursery died, and took it along
                os.close(self._said)
        return self.returncode


class Nursery:
    """One for each process of the test run; it dies with it."""

    def __init__(self) -> None:
        self._door, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # Set before numpy loads: a thread that it starts would not be there in what is forked.
        environment = os.environ | {"OPENBLAS_NUM_THREADS": "1"}
        command = [sys.executable, str(MAIN), str(there.fileno())]
        self._process = subprocess.Popen(command, env=environment, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)
        there.close()

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
def nursery() -> Nursery:
    return Nursery()

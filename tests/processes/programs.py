"""Programs as somebody at a terminal starts them: run to their end, or started and listened to.

They are forked from the nursery; `make explore` starts an interpreter for each.
"""

from __future__ import annotations

import os
import signal
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import IO, TextIO

from nursery import Begun, begin


class Started:
    """A program that goes on: as much of a Popen as tests use."""

    def __init__(self, process: Begun, stdout: TextIO, stderr: TextIO) -> None:
        self._process = process
        self.pid = process.pid
        self.stdout = stdout
        self.stderr = stderr

    @property
    def returncode(self) -> int | None:
        return self._process.returncode

    def poll(self) -> int | None:
        return self._process.poll()

    def wait(self, timeout: float | None = None) -> int:
        return self._process.wait(timeout)

    def communicate(self, timeout: float | None = None) -> tuple[str, str]:
        """What it still says until it has ended."""
        said = ["", ""]

        def read(number: int, stream: TextIO) -> None:
            with stream:
                said[number] = stream.read()

        streams = enumerate((self.stdout, self.stderr))
        readers = [Thread(target=read, args=each, daemon=True) for each in streams if not each[1].closed]
        for reader in readers:
            reader.start()
        for reader in readers:
            reader.join(timeout)
        if any(reader.is_alive() for reader in readers):
            raise subprocess.TimeoutExpired(str(self.pid), timeout or 0)
        self.wait(timeout)
        return said[0], said[1]

    def send_signal(self, number: int) -> None:
        self._process.send_signal(number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)


def run(
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    timeout: float = 180,
) -> subprocess.CompletedProcess[str]:
    """Run *words*, which would follow the name of the interpreter, and give what it said."""
    folder = folder or Path.cwd()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = begin(words, environment=environment, folder=folder, log=out.fileno(), errors=errors.fileno())
        try:
            code = process.wait(timeout)
        except BaseException:
            process.send_signal(signal.SIGKILL)
            process.wait()
            raise
        said = []
        for file in (out, errors):
            file.seek(0)
            said.append(file.read().decode())
    return subprocess.CompletedProcess(list(words), code, *said)


def start(
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    quiet: bool = False,
    log: IO[str] | None = None,
) -> Started:
    """Start *words*; what it says can be read while it goes on, or is kept in *log*. Of a *quiet* one only its errors
    can be read.
    """
    out, out_there = os.pipe()
    errors, errors_there = os.pipe()
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        said, wrong = (log.fileno(), log.fileno()) if log else (nothing if quiet else out_there, errors_there)
        process = begin(words, environment=environment, folder=folder or Path.cwd(), log=said, errors=wrong)
    finally:
        for file in (out_there, errors_there, nothing):
            os.close(file)
    return Started(process, os.fdopen(out, encoding="utf-8"), os.fdopen(errors, encoding="utf-8"))

"""Programs as somebody at a terminal starts them: run to their end, or started and listened to.

They are forked from the nursery; `make explore` starts an interpreter for each.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from threading import Thread
from typing import IO, TextIO

from nursery import Forked, nursery

FORKS = sys.platform == "linux" and not os.environ.get("EXPLORE")


class Started:
    """A program that goes on: as much of a Popen as tests use."""

    def __init__(self, process: Forked | subprocess.Popen[bytes], stdout: TextIO, stderr: TextIO) -> None:
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
        if self.poll() is None:
            os.kill(self.pid, number)

    def kill(self) -> None:
        self._process.kill()

    def terminate(self) -> None:
        self._process.terminate()


def run(
    words: Sequence[str],
    *,
    environment: Mapping[str, str],
    folder: Path | None = None,
    timeout: float = 180,
    needs: Sequence[str] = (),
) -> subprocess.CompletedProcess[str]:
    """Run *words*, which would follow the name of the interpreter, and give what it said. The nursery imports *needs*
    before.
    """
    folder = folder or Path.cwd()
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as errors:
        process = _begin(words, environment, folder, out.fileno(), errors.fileno(), needs)
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
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
    needs: Sequence[str] = (),
) -> Started:
    """Start *words*; what it says can be read while it goes on, or is kept in *log*. Of a *quiet* one only its errors
    can be read.
    """
    out, out_there = os.pipe()
    errors, errors_there = os.pipe()
    nothing = os.open(os.devnull, os.O_WRONLY)
    try:
        written = (log.fileno(), log.fileno()) if log else (nothing if quiet else out_there, errors_there)
        process = _begin(words, environment, folder or Path.cwd(), *written, needs)
    finally:
        for file in (out_there, errors_there, nothing):
            os.close(file)
    return Started(process, os.fdopen(out, encoding="utf-8"), os.fdopen(errors, encoding="utf-8"))


def _begin(
    words: Sequence[str],
    environment: Mapping[str, str],
    folder: Path,
    out: int,
    errors: int,
    needs: Sequence[str],
) -> Forked | subprocess.Popen[bytes]:
    if FORKS:
        return nursery().fork(words, environment=environment, folder=folder, log=out, errors=errors, needs=needs)
    return subprocess.Popen(
        [sys.executable, *words],
        env=environment,
        cwd=folder,
        stdin=subprocess.DEVNULL,
        stdout=out,
        stderr=errors,
    )

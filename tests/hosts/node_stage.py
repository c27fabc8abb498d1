"""Programs in the background: started, lost, cleared away."""

from __future__ import annotations

import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

import psutil
import psycopg

HERE = Path(__file__).parent

QUICK = {
    "RETOMA_LEASE_SECONDS": "3",
    "RETOMA_HEARTBEAT_SECONDS": "0.5",
    "RETOMA_SWEEP_SECONDS": "0.5",
    "RETOMA_POLL_SECONDS": "0.25",
    "RETOMA_GRACE_SECONDS": "0.5",
    "RETOMA_CONNECT_TIMEOUT": "2",
}
_libc = ctypes.CDLL(None)


def die_with_the_tests() -> None:
    _libc.prctl(1, signal.SIGKILL)


def until(look: Callable[[], object], what: str, seconds: float = 150.0) -> None:
    """Wait for *look*; the seconds are when to give up, not a measure."""
    end = time.monotonic() + seconds
    while not look():
        assert time.monotonic() < end, f"It did not happen: {what}"
        time.sleep(0.1)


class Stage:
    """The programs of one test, over one database and one file that only grows."""

    def __init__(self, url: str, folder: Path) -> None:
        self.url = url
        self.folder = folder
        self.file = folder / "guest.log"
        self.file.touch()
        self.psql = psycopg.connect(url, autocommit=True)
        self.psql.execute("create table effects (job bigint not null, at timestamptz default clock_timestamp())")
        self._started: list[subprocess.Popen[bytes]] = []
        self._seen: dict[int, psutil.Process] = {}

    def start(self, name: str, command: Sequence[str], **variables: str) -> subprocess.Popen[bytes]:
        others = {each: value for each, value in os.environ.items() if not each.startswith("RETOMA_")}
        own = {"DATABASE_URL": self.url, "GUEST_FILE": str(self.file), "PYTHONPATH": str(HERE), "RETOMA_TOKEN": "off"}
        with (self.folder / f"{name}.said").open("ab") as words:
            process = subprocess.Popen(
                [sys.executable, *command],
                env=others | QUICK | own | variables,
                cwd=self.folder,
                stdin=subprocess.PIPE,
                stdout=words,
                stderr=words,
                preexec_fn=die_with_the_tests,  # noqa: PLW1509 - it only makes a system call
            )
        self._started.append(process)
        return process

    def tree(self, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """A program and all that came of it."""
        found = [psutil.Process(process.pid), *psutil.Process(process.pid).children(recursive=True)]
        self._seen |= {each.pid: each for each in found}
        return found

    def loops(self, process: subprocess.Popen[bytes]) -> list[psutil.Process]:
        """Its worker loops."""
        return [each for each in self.tree(process) if _is(each, "retoma.hosts.worker_loop")]

    def executors(self, process: subprocess.Popen[bytes]) -> list[int]:
        return [each.pid for each in self.tree(process) if _is(each, "retoma.worker.executor_main")]

    def kill_node(self, process: subprocess.Popen[bytes]) -> None:
        """All at once, as when a machine is lost."""
        everybody = self.tree(process)
        for each in everybody:
            with suppress(psutil.NoSuchProcess):
                each.suspend()
        for each in {*everybody, *self.tree(process)}:
            with suppress(psutil.NoSuchProcess):
                each.kill()
        process.wait()

    def lines(self) -> list[list[int]]:
        """Which job was begun, and by which process."""
        return [[int(word) for word in line.split()] for line in self.file.read_text().splitlines()]

    def one(self, sql: str) -> object:
        row = self.psql.execute(sql).fetchone()
        return row[0] if row else None

    def clear_away(self) -> None:
        for process in self._started:
            with suppress(psutil.NoSuchProcess):
                self.tree(process)
            process.kill()
            process.communicate()
        for each in self._seen.values():
            with suppress(psutil.NoSuchProcess):  # it makes sure that the number is still the same process
                each.kill()
        self.psql.close()
        for said in sorted(self.folder.glob("*.said")):
            print(f"— {said.name} —", *said.read_text(errors="replace").splitlines()[-40:], sep="\n")  # noqa: T201


def _is(process: psutil.Process, module: str) -> bool:
    with suppress(psutil.NoSuchProcess):
        return process.status() != psutil.STATUS_ZOMBIE and module in " ".join(process.cmdline())
    return False

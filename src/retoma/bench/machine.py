"""Processor time: of a worker and all it started, and of the database's server when it is on this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from pathlib import Path
from typing import IO

_TICK = os.sysconf("SC_CLK_TCK")


class WorkerProcess:
    """A ``retoma worker`` for the measured jobs, and what it used."""

    def __init__(
        self,
        environment: dict[str, str],
        program: str,
        *,
        processes: int,
        at_once: int,
        queue: str | None = None,
        log: IO[bytes] | None = None,
    ) -> None:
        command = [sys.executable, "-m", "retoma", "worker", "--app", program]
        command += ["--processes", str(processes), "--at-once", str(at_once)]
        command += ["--queues", queue] if queue else []
        self._popen = subprocess.Popen(command, env={**os.environ, **environment}, stdin=subprocess.DEVNULL, stderr=log)
        self.cpu_seconds = 0.0
        self.peak_megabytes = 0.0
        self._before = 0.0

    @property
    def pid(self) -> int:
        """The process id of its supervisor."""
        return self._popen.pid

    def count(self) -> float:
        """What it has used so far, executors included, is not part of the figure; how much more that is than before."""
        last, self._before = self._before, _cpu_of(self._popen.pid) or 0.0
        return self._before - last

    def stop(self) -> None:
        """End it gracefully; its processor time, executors included, is known afterwards."""
        if self._popen.returncode is not None:
            return
        # Not the figure of wait4: a process begins with the peak of the one that started it, and that is this one.
        self.peak_megabytes = max((_kilobytes(pid, "VmHWM") for pid in family(self.pid)), default=0) / 1024
        os.kill(self._popen.pid, signal.SIGTERM)  # not send_signal, which would take the exit status for itself
        _, status, usage = os.wait4(self._popen.pid, 0)
        self._popen.returncode = os.waitstatus_to_exitcode(status)
        self.cpu_seconds = usage.ru_utime + usage.ru_stime - self._before


@contextmanager
def worker(
    url: str,
    *,
    processes: int = 1,
    at_once: int = 100,
    program: str = "retoma.bench.program:app",
    queue: str | None = None,
    environment: Mapping[str, str] | None = None,
) -> Iterator[WorkerProcess]:
    """A worker of *program* for as long as the block lasts."""
    told = {"RETOMA_LOG_LEVEL": "error", **(environment or {}), "DATABASE_URL": url}
    # Lines of every job would fill the terminal; a file takes as long as where logs usually go.
    with tempfile.TemporaryFile() if told["RETOMA_LOG_LEVEL"] != "error" else nullcontext() as log:
        running = WorkerProcess(told, program, processes=processes, at_once=at_once, queue=queue, log=log)
        try:
            yield running
        finally:
            running.stop()


def family(parent: int) -> list[int]:
    """A process and all that it started, as far as they live."""
    try:
        children = Path(f"/proc/{parent}/task/{parent}/children").read_text().split()
    except OSError:
        return []
    return [parent, *(each for child in children for each in family(int(child)))]


def resident_megabytes(parent: int) -> float:
    """The memory that a process and all that it started have at hand."""
    return sum(_kilobytes(pid, "VmRSS") for pid in family(parent)) / 1024


def _kilobytes(pid: int, name: str) -> int:
    """A figure of a process's memory; 0 when it has ended."""
    try:
        lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) for line in lines if line.startswith(f"{name}:"))


def open_files(parent: int) -> int:
    """How many files and sockets a process and all that it started have open."""
    whole = 0
    for pid in family(parent):
        try:
            whole += sum(1 for _ in Path(f"/proc/{pid}/fd").iterdir())
        except OSError:
            continue
    return whole


def server_cpu(backend: int) -> float | None:
    """Processor seconds so far of the server that *backend* belongs to; None when it is not on this machine."""
    try:
        return _cpu_of(int(_stat(backend)[1]))
    except (OSError, ValueError, IndexError):
        return None


def server_of(backend: int) -> int | None:
    """The process id of the server that *backend* belongs to; None when it is not on this machine."""
    try:
        return int(_stat(backend)[1])
    except (OSError, ValueError, IndexError):
        return None


def exact_cpu(parent: int) -> float:
    """Processor seconds so far of a process and all that it started, to the nanosecond for those that live."""
    whole = 0.0
    for pid in family(parent):
        try:
            whole += sum(float(part) for part in _stat(pid)[13:15]) / _TICK  # what had ended children
            for each in Path(f"/proc/{pid}/task").iterdir():
                whole += int((each / "schedstat").read_text().split()[0]) / 1e9
        except (OSError, ValueError, IndexError):
            continue
    return whole


def _cpu_of(parent: int) -> float | None:
    """Processor seconds so far of a process and all that it has started, those that have ended included."""
    try:
        whole = sum(float(each) for each in _stat(parent)[11:15])
        for each in Path(f"/proc/{parent}/task/{parent}/children").read_text().split():
            whole += sum(float(part) for part in _stat(int(each))[11:13])
    except (OSError, ValueError, IndexError):
        return None
    return whole / _TICK


def _stat(pid: int) -> list[str]:
    return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()

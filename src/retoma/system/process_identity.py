"""Identifies a process beyond its pid, and tells whether it still runs, as far as this process can see."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19  # fields after the name in /proc/…/stat: state (R, S, Z …), start in ticks since boot


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """The identity of a supervisor, as far as its system reports it: machine, pid and start,
    which together are unique.
    """

    machine: str | None = None
    pid: int | None = None
    started: int | None = None


def own_identity() -> ProcessIdentity:
    """The identity of our own process."""
    found = _stat(os.getpid())
    return ProcessIdentity(_machine(), os.getpid(), int(found[_STARTED]) if found else None)


def is_near(where: ProcessIdentity) -> bool:
    """Whether it runs among the processes that we can see."""
    return where.machine is not None and where.machine == _machine()


def has_ended(where: ProcessIdentity) -> bool:
    """Whether that process has certainly ended: it ran on this machine, in the pid namespace that we can see, and is
    not there. Its pid may have been reused; the start time tells.
    """
    if not is_near(where) or where.pid is None or where.started is None:
        return False
    found = _stat(where.pid)
    if not found or int(found[_STARTED]) != where.started:
        return True
    # A zombie has ended and waits for its parent; while one of its threads is left it has not ended.
    with suppress(OSError):
        return found[_STATE] in "ZX" and len(list((_PROC / str(where.pid) / "task").iterdir())) <= 1
    return False


@cache
def _machine() -> str | None:
    """The boot of this machine and its pid namespace, as one name; None where /proc does not tell."""
    with suppress(OSError):
        started = (_PROC / "sys/kernel/random/boot_id").read_text().strip()
        seen = (_PROC / "self/ns/pid").readlink()
        if _stat(os.getpid()):
            return f"{started}/{seen}/{socket.gethostname()}"
    return None


def _stat(pid: int) -> list[str]:
    with suppress(OSError):
        return (_PROC / str(pid) / "stat").read_text().rpartition(")")[2].split()
    return []

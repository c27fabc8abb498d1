"""Where a process runs, in words that name it for good; and whether it is still there, as far as we can see."""

from __future__ import annotations

import os
import socket
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_PROC = Path("/proc")
_STATE, _STARTED = 0, 19  # of what follows the name in /proc/…/stat: R, S, Z …; ticks since the machine started


@dataclass(frozen=True, slots=True)
class ProcessIdentity:
    """Where a supervisor runs, as far as its system tells: machine and process, which together name it for good."""

    machine: str | None = None
    pid: int | None = None
    started: int | None = None


def own_identity() -> ProcessIdentity:
    """Where our own process runs."""
    found = _stat(os.getpid())
    return ProcessIdentity(_machine(), os.getpid(), int(found[_STARTED]) if found else None)


def is_near(where: ProcessIdentity) -> bool:
    """Whether it runs among the processes that we can see."""
    return where.machine is not None and where.machine == _machine()


def has_ended(where: ProcessIdentity) -> bool:
    """Whether that process is gone for sure: it ran on this machine, among the processes that we can see, and none of
    these is it. A number may have been given to another meanwhile; the time of its start tells.
    """
    if not is_near(where) or where.pid is None or where.started is None:
        return False
    found = _stat(where.pid)
    if not found or int(found[_STARTED]) != where.started:
        return True
    # It has ended, and its parent has yet to ask how; while another thread of it is left it has not.
    with suppress(OSError):
        return found[_STATE] in "ZX" and len(list((_PROC / str(where.pid) / "task").iterdir())) <= 1
    return False


@cache
def _machine() -> str | None:
    """The start of this machine, and which of its processes we see, in one name; None where /proc does not tell."""
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

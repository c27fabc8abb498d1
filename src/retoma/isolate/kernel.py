"""Linux system calls by number, for which Python has no function."""

from __future__ import annotations

import ctypes
import os
import platform
import sys
from contextlib import suppress
from pathlib import Path

LINUX = sys.platform == "linux"
MACHINE = platform.machine()

_libc = ctypes.CDLL(None, use_errno=True)

_PDEATHSIG, _DUMPABLE, _DROP_BOUND, _SUBREAPER, _NO_NEW_PRIVS, _AMBIENT = 1, 4, 24, 36, 38, 47
_CLEAR_AMBIENT = 4
_CAPSET = {"x86_64": 126, "aarch64": 91}
_CAPABILITIES = 0x20080522  # version 3: two words of 32 bits
_NEW_USER, _NEW_NET = 0x10000000, 0x40000000


def prctl(option: int, *arguments: int) -> int:
    words = [ctypes.c_ulong(each) for each in (*arguments, 0, 0, 0, 0)[:4]]
    return _checked(_libc.prctl(option, *words))


def syscall(number: int, *arguments: object) -> int:
    words = [ctypes.c_long(each) if isinstance(each, int) else each for each in arguments]
    return _checked(int(_libc.syscall(ctypes.c_long(number), *words)))


def _checked(found: int) -> int:
    if found < 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
    return found


def signal_at_parents_death(number: int) -> None:
    """Have the kernel send us signal *number* when the thread that launched us ends."""
    prctl(_PDEATHSIG, number)


def hide() -> None:
    """Prevent other processes of this user from reading our memory and environment, and write no
    core file. Root still can.
    """
    if LINUX:
        prctl(_DUMPABLE, 0)


def show() -> None:
    """Be an ordinary process again after a change of user; otherwise our files in /proc belong to root."""
    prctl(_DUMPABLE, 1)


def adopt_orphans(*, yes: bool) -> None:
    """Whether processes below us whose parent ends become our children, and not those of the first process."""
    prctl(_SUBREAPER, int(yes))


def rename(part: bytes, other: bytes) -> None:
    """Replace *part* of the command line under which this process is listed by *other*, which is as long."""
    assert len(part) == len(other)
    begin, end = map(int, Path("/proc/self/stat").read_text().rpartition(")")[2].split()[45:47])
    place = ctypes.string_at(begin, end - begin).find(part) if end > begin else -1
    if place >= 0:
        ctypes.memmove(begin + place, other, len(other))


def gain_nothing() -> None:
    """From now on no program that we start gets more privileges than we have."""
    prctl(_NO_NEW_PRIVS, 1)


def leave_network() -> None:
    """Move into a new user namespace and a new network namespace, which has no network. Raises OSError where the
    machine does not allow it. The process must have a single thread.
    """
    user, group = os.geteuid(), os.getegid()
    _checked(_libc.unshare(_NEW_USER | _NEW_NET))
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{user} {user} 1")
    Path("/proc/self/gid_map").write_text(f"{group} {group} 1")


def drop_capabilities() -> None:
    """Give up every capability, including those that a program run by root would get."""
    with suppress(OSError):  # none left to drop, or not permitted
        for each in range(64):
            prctl(_DROP_BOUND, each)
    with suppress(OSError):
        prctl(_AMBIENT, _CLEAR_AMBIENT)
    header = (ctypes.c_uint32 * 2)(_CAPABILITIES, 0)
    syscall(_CAPSET[MACHINE], header, (ctypes.c_uint32 * 6)())

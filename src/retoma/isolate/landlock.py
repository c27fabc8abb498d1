"""Landlock: the kernel lets this process open only the named files, permanently."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from retoma.isolate.kernel import syscall

_CREATE, _ADD, _RESTRICT = 444, 445, 446
_ASK_VERSION, _BENEATH = 1, 1

_EXECUTE, _WRITE, _READ, _LIST = 1 << 0, 1 << 1, 1 << 2, 1 << 3
_TRUNCATE, _DEVICE = 1 << 14, 1 << 15
_READING = _EXECUTE | _READ | _LIST
_OF_FILES = _EXECUTE | _WRITE | _READ | _TRUNCATE | _DEVICE
_SPECIAL = 1 << 6 | 1 << 9 | 1 << 11 | _DEVICE  # device files and sockets: never created
_KNOWN = {1: 13, 2: 14, 3: 15, 4: 15}  # how many rights on files a version knows; from 5 on all 16
_TCP, _SCOPES = 0b11, 0b11  # bind and connect; abstract sockets and signals
_TCP_SINCE, _SCOPES_SINCE = 4, 6


class _Ruleset(ctypes.Structure):
    _fields_ = (("files", ctypes.c_uint64), ("network", ctypes.c_uint64), ("scopes", ctypes.c_uint64))


class _Beneath(ctypes.Structure):
    _pack_ = 1
    _fields_ = (("allowed", ctypes.c_uint64), ("place", ctypes.c_int32))


def version() -> int:
    """The version of Landlock in this kernel; raises OSError when there is none."""
    return syscall(_CREATE, None, 0, _ASK_VERSION)


def scopes_signals() -> bool:
    """Whether this kernel also confines signals."""
    return version() >= _SCOPES_SINCE


def restrict(*, read: Iterable[Path], listed: Iterable[Path], write: Iterable[Path]) -> None:
    """From now on, files below *read* can be opened for reading and executing, those below *write* for anything, and
    folders below *listed* can only be listed. Open files stay open. Applies to this thread and those it starts.
    """
    spoken = version()
    known = (1 << _KNOWN.get(spoken, 16)) - 1
    ruleset = _Ruleset(
        files=known,
        network=_TCP if spoken >= _TCP_SINCE else 0,
        scopes=_SCOPES if spoken >= _SCOPES_SINCE else 0,
    )
    handle = syscall(_CREATE, ctypes.byref(ruleset), ctypes.sizeof(ruleset), 0)
    try:
        for places, rights in ((read, _READING), (listed, _LIST), (write, known & ~_SPECIAL & ~_EXECUTE)):
            for place in places:
                _allow(handle, place, rights & known)
        syscall(_RESTRICT, handle, 0)
    finally:
        os.close(handle)


def _allow(handle: int, place: Path, rights: int) -> None:
    with suppress(FileNotFoundError, PermissionError, NotADirectoryError):  # then there is nothing to allow
        descriptor = os.open(place, os.O_PATH | os.O_CLOEXEC)
        try:
            if not place.is_dir():
                rights &= _OF_FILES
            if rights:
                rule = _Beneath(allowed=rights, place=descriptor)
                syscall(_ADD, handle, _BENEATH, ctypes.byref(rule), 0)
        finally:
            os.close(descriptor)

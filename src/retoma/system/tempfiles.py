"""Named temporary files and folders, shared with child processes and removed when this process ends. Each file lies in
a folder of its own, and the next process that needs one removes what a killed process left.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO

_PREFIX = "retoma-scratch-"


@contextmanager
def named(*, suffix: str = "") -> Iterator[IO[bytes]]:
    """A new file for the duration of the block."""
    with folder() as place, tempfile.NamedTemporaryFile(suffix=suffix, dir=place) as file:
        yield file


@contextmanager
def folder() -> Iterator[Path]:
    """A new folder for the duration of the block. A lock that only a live process can hold marks it as in use."""
    _sweep(Path(tempfile.gettempdir()))
    descriptor = None
    while descriptor is None:
        place = Path(tempfile.mkdtemp(prefix=_PREFIX))
        try:
            descriptor = _lock(place)  # None when another process took it for a leftover: try another one
        except OSError:  # a file system without locks: then nothing removes leftovers there, either
            descriptor = os.open(place, os.O_RDONLY)
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        os.close(descriptor)


def _sweep(where: Path) -> None:
    """Remove the folders of dead processes; only our own, whoever else may write here."""
    for folder in where.glob(f"{_PREFIX}*"):
        with suppress(OSError):
            if folder.lstat().st_uid == os.geteuid() and (descriptor := _lock(folder)) is not None:
                shutil.rmtree(folder, ignore_errors=True)
                os.close(descriptor)


def _lock(folder: Path) -> int | None:
    """A descriptor that holds the lock of *folder*; None when another process has it, or the folder is gone."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        os.close(descriptor)
        if isinstance(error, BlockingIOError):
            return None
        raise
    if not folder.is_dir():
        os.close(descriptor)
        return None
    return descriptor

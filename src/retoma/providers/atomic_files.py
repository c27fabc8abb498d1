"""Atomic files: a file is visible only when it is complete.

At every system call the other threads of a process may run first, so this code makes few of them: it does not buffer,
creates nothing in vain, and writes concurrent files together.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path

from retoma.errors import RetomaError
from retoma.system.private_files import FILE, make_private

_FLAGS = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC


class Part:
    """A file at *path* until it becomes the whole; created with the first write. For one thread at a time. Missing
    folders *inside* that one are created for their owner alone.
    """

    def __init__(self, path: Path, *, inside: Path) -> None:
        self._path = path
        self._inside = inside
        self._file: int | None = None
        self._there = False

    @property
    def begun(self) -> bool:
        """Whether something of it is written."""
        return self._there

    def write(self, piece: bytes) -> None:
        """Add *piece*."""
        if self._file is None:
            self._file, self._there = _created(self._path, self._inside), True
        left = memoryview(piece)
        while left:
            left = left[os.write(self._file, left) :]

    def set_out(self) -> None:
        """Ask the system to start writing it to the disk, without waiting, where that is possible."""
        assert self._file is not None
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def become(self, target: Path) -> None:
        """Rename it to *target*, complete; until *settle*, a power failure may still lose the name."""
        assert self._file is not None
        os.fsync(self._file)
        self._close()
        try:
            self._path.replace(target)
        except FileNotFoundError:  # the folder was removed meanwhile
            make_private(target.parent, inside=self._inside)
            self._path.replace(target)
        self._there = False

    def drop(self) -> None:
        """Remove the part; one that has become the whole is left alone."""
        with suppress(OSError):  # a full disk reports again what it could not write
            self._close()
        if self._there:
            self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


New = tuple[Part, Callable[[], Path], bytes]
"""A file to keep: its part, the function that returns its final path, and the rest of its content."""


def keep_all(files: Sequence[New]) -> list[Exception | None]:
    """Keep each file, or drop it; returns the error of each, if any. All writes are started before the first is
    awaited, and a folder is synchronised once for all its files.
    """
    failed: list[Exception | None] = [None] * len(files)
    settled: set[Path] = set()

    def go_on(step: Callable[[Part, Callable[[], Path], bytes], None]) -> None:
        for place, file in enumerate(files):
            try:
                if failed[place] is None:
                    step(*file)
            except (OSError, RetomaError) as error:
                failed[place] = error
                file[0].drop()

    def set_out(part: Part, _: Callable[[], Path], rest: bytes) -> None:
        part.write(rest)
        part.set_out()

    def outlive(_: Part, target: Callable[[], Path], __: bytes) -> None:
        folder = target().parent
        if folder not in settled:
            settle(folder)
            settled.add(folder)

    go_on(set_out)
    go_on(lambda part, target, _: part.become(target()))
    go_on(outlive)
    return failed


def settle(folder: Path) -> None:
    """Make the names in *folder* survive a power failure."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _created(path: Path, inside: Path) -> int:
    """A new file to write to."""
    try:
        return os.open(path, _FLAGS, FILE)
    except FileNotFoundError:  # the first file, or the folder was removed
        make_private(path.parent, inside=inside)
        return os.open(path, _FLAGS, FILE)

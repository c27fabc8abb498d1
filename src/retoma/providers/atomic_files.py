"""Files that are written: nobody sees one until it is whole.

At every call of the system the other threads of a process may come first, so there are few of them: nothing is
buffered, nothing made in vain, and files that come at the same moment go together.
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
    """A file at *path* until it becomes the whole; made when something is written. For one thread at a time. Folders
    that are missing *inside* that one are made for their owner alone.
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
        """Have the system begin to write it to the disk, without waiting for it, where there is a way to ask."""
        assert self._file is not None
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file, 0, 0, os.POSIX_FADV_DONTNEED)

    def become(self, target: Path) -> None:
        """*target*, in full; so far its name may be lost when the power fails."""
        assert self._file is not None
        os.fsync(self._file)
        self._close()
        try:
            self._path.replace(target)
        except FileNotFoundError:  # somebody tidied up
            make_private(target.parent, inside=self._inside)
            self._path.replace(target)
        self._there = False

    def drop(self) -> None:
        """Leave nothing behind; what has become the whole has no part any more."""
        with suppress(OSError):  # a full disk complains again about what it could not take
            self._close()
        if self._there:
            self._path.unlink(missing_ok=True)

    def _close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            os.close(file)


New = tuple[Part, Callable[[], Path], bytes]
"""A file to keep: what is written of it, what it is to become, and the rest of its content."""


def keep_all(files: Sequence[New]) -> list[Exception | None]:
    """Keep each, or drop it; what went wrong with it, if anything. All are on their way to the disk before the first is
    waited for, and a folder is settled once for all that came to it.
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
    """Have the names in *folder* outlive a power failure too."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)


def _created(path: Path, inside: Path) -> int:
    """A new file to write to."""
    try:
        return os.open(path, _FLAGS, FILE)
    except FileNotFoundError:  # the first one, or somebody tidied up
        make_private(path.parent, inside=inside)
        return os.open(path, _FLAGS, FILE)

"""Blobs as files in a folder, the default: a file is there in full or not at all, also when the power fails."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import cache, partial
from io import FileIO
from pathlib import Path
from typing import NamedTuple, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from retoma.errors import RetomaError
from retoma.providers import Blob, ProviderDown, ProviderError, ProviderRefused
from retoma.providers.blobs import PIECE, Measured, checked, missing
from retoma.providers.http import rejected
from retoma.writer import Together

T = TypeVar("T")

_PARTS = ".parts"  # no name of a blob begins with a dot
_REMEMBERED = 1000  # folders
_ABANDONED = 24 * 3600.0  # seconds after which a part belongs to nobody: its process was killed
_MOST = 50  # short files that one thread keeps together


class _Short(NamedTuple):
    name: str
    content: bytes


class FolderBlobs:
    """Files under *root*, each by its name."""

    provider = "folder"

    def __init__(self, root: Path) -> None:
        self._root = root.absolute()
        self._swept = False
        self._inside: set[str] = set()
        self._together: WeakKeyDictionary[asyncio.AbstractEventLoop, Together[_Short, Exception | None]] = (
            WeakKeyDictionary()
        )

    async def put(self, name: str, content: AsyncIterable[bytes], *, most: int | None = None) -> Blob:
        """Store *content*; all of it or nothing, refused when longer than *most* bytes."""
        checked(name, provider=self.provider)
        measured = Measured(content, name=name, most=most, provider=self.provider)
        part = _Part(self._parts)
        try:
            # One piece is held back: when it was the only one, the file is short and kept together with others.
            last = b""
            async for piece in measured:
                if last:
                    await self._do(name, partial(part.write, last))
                last = piece
            if part.begun:
                await self._do(name, lambda: self._end(part, name, last))
            else:
                await self._keep(_Short(name, last))
        finally:
            part.drop()
        return measured.blob

    def _end(self, part: _Part, name: str, last: bytes) -> None:
        target = self._target(name)
        part.write(last)
        part.become(target)
        _settle(target.parent)

    async def _keep(self, file: _Short) -> None:
        loop = asyncio.get_running_loop()
        if loop not in self._together:
            self._together[loop] = Together(lambda files: asyncio.to_thread(self._keep_all, files), most=_MOST)
        if failed := await self._together[loop](file):
            raise self._told(failed, file.name) if isinstance(failed, OSError) else failed

    def _keep_all(self, files: list[_Short]) -> list[Exception | None]:
        """What went wrong with each, if anything. All are on their way to the disk before the first is waited for, and
        a folder is settled once for all that came to it.
        """
        failed: list[Exception | None] = [None] * len(files)
        parts = [_Part(self._parts) for _ in files]
        settle = cache(_settle)

        def go_on(step: Callable[[_Part, _Short], None]) -> None:
            for place, (part, file) in enumerate(zip(parts, files, strict=True)):
                try:
                    if failed[place] is None:
                        step(part, file)
                except (OSError, ProviderError) as error:
                    failed[place] = error

        go_on(lambda part, file: part.write(file.content))
        go_on(lambda part, _: part.set_out())
        go_on(lambda part, file: part.become(self._target(file.name)))
        go_on(lambda _, file: settle(self._target(file.name).parent))
        for part in parts:
            part.drop()
        return failed

    @asynccontextmanager
    async def open(self, name: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """The content, in pieces; a file that is deleted or replaced meanwhile is still read to its end."""
        path = self._path(name)
        file = await self._do(name, lambda: path.open("rb"))

        async def pieces() -> AsyncIterator[bytes]:
            while piece := await self._do(name, lambda: file.read(PIECE)):
                yield piece

        try:
            yield pieces()
        finally:
            file.close()

    async def delete(self, name: str) -> bool:
        """Whether it was there."""
        path = self._path(name)

        def unlink() -> bool:
            with suppress(FileNotFoundError, NotADirectoryError):
                path.unlink()
                _settle(path.parent)
                return True
            return False

        return await self._do(name, unlink)

    async def exists(self, name: str) -> bool:
        """Whether it is there."""
        return await self._do(name, self._path(name).is_file)

    def path(self, name: str) -> Path:
        """Where the blob *name* is on this machine; for who only reads it."""
        return self._path(name)

    def _path(self, name: str) -> Path:
        path = self._root / checked(name, provider=self.provider)
        self._refuse_outside(path, name)
        return path

    def _target(self, name: str) -> Path:
        """Where *name* is put. A link in its place is replaced, so only the folder matters, and is looked at once."""
        folder = name.rpartition("/")[0]
        if folder not in self._inside:
            path = self._root / folder
            path.mkdir(parents=True, exist_ok=True)
            self._refuse_outside(path, name)
            if len(self._inside) < _REMEMBERED:
                self._inside.add(folder)
        return self._root / name

    def _refuse_outside(self, path: Path, name: str) -> None:
        if not path.resolve().is_relative_to(self._root.resolve()):  # by a link that somebody put there
            raise rejected(self.provider, f"{name!r} leads out of the folder.")

    def _parts(self) -> Path:
        """Where files are until they are whole; what a killed process left there long ago is gone afterwards."""
        parts = self._root / _PARTS
        if not self._swept:
            self._swept = True
            for part in parts.glob("*"):
                with suppress(FileNotFoundError):
                    if part.stat().st_mtime < time.time() - _ABANDONED:
                        part.unlink()
        return parts

    async def _do(self, name: str, work: Callable[[], T]) -> T:
        """*work* in a thread, and what the system says about it in our words."""
        try:
            return await asyncio.to_thread(work)
        except OSError as error:
            failed = self._told(error, name)
        raise failed

    def _told(self, error: OSError, name: str) -> RetomaError:
        why = f"{name} in {self._root}: {error.strerror or error}."
        match error.errno:
            case errno.ENOENT:
                return missing(name)
            case errno.ENOTDIR | errno.EISDIR | errno.EEXIST:
                return rejected(self.provider, f"{why} One blob cannot be the folder of another.")
            case errno.EACCES | errno.EPERM | errno.EROFS:
                next = "Let this account write there, or name another folder."
                return ProviderRefused(why, next=next, provider=self.provider, paid=False)
        full = 507 if error.errno in (errno.ENOSPC, errno.EDQUOT) else None
        next = "Make room or mend the disk, then try again."
        return ProviderDown(why, next=next, provider=self.provider, status=full, paid=False)


class _Part:
    """A file that nobody sees until it becomes the whole; made in *folder* when something is written. At every call of
    the system the other threads may come first, so there are few: nothing is buffered, and no folder made in vain.
    """

    def __init__(self, folder: Callable[[], Path]) -> None:
        self._folder = folder
        self._path: Path | None = None
        self._file: FileIO | None = None

    @property
    def begun(self) -> bool:
        """Whether something of it is written."""
        return self._file is not None

    def write(self, piece: bytes) -> None:
        if self._file is None:
            path = self._folder() / uuid4().hex
            self._file, self._path = _created(path), path
        left = memoryview(piece)
        while left:
            left = left[self._file.write(left) :]

    def set_out(self) -> None:
        """Have the system begin to write it to the disk, without waiting for it, where there is a way to ask."""
        assert self._file is not None
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(self._file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def become(self, target: Path) -> None:
        """*target*, in full."""
        assert self._file is not None
        assert self._path is not None
        os.fsync(self._file.fileno())
        self._file.close()
        try:
            self._path.replace(target)
        except FileNotFoundError:  # somebody tidied up
            target.parent.mkdir(parents=True, exist_ok=True)
            self._path.replace(target)
        self._path = None

    def drop(self) -> None:
        """Leave nothing behind; what has become the whole has no part any more. A thread that still writes because
        nobody waits for it any more finds its file closed.
        """
        if self._file is not None:
            with suppress(OSError):  # a full disk complains again about what it could not take
                self._file.close()
        if self._path is not None:
            self._path.unlink(missing_ok=True)


def _created(path: Path) -> FileIO:
    """A new file to write to."""
    try:
        return path.open("xb", buffering=0)
    except FileNotFoundError:  # the first one, or somebody tidied up
        path.parent.mkdir(parents=True, exist_ok=True)
        return path.open("xb", buffering=0)


def _settle(folder: Path) -> None:
    """Have the names in *folder* outlive a power failure too."""
    number = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(number)
    finally:
        os.close(number)

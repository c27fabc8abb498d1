"""Blobs as files in a folder, the default: a file is there in full or not at all, also when the power fails."""

from __future__ import annotations

import asyncio
import errno
import os
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import count
from pathlib import Path
from typing import IO, TypeVar
from uuid import uuid4
from weakref import WeakKeyDictionary

from retoma.errors import RetomaError
from retoma.providers import Blob, ProviderDown, ProviderRefused
from retoma.providers.atomic_files import New, Part, keep_all, settle
from retoma.providers.blobs import PIECE, Measured, checked, missing
from retoma.providers.http import rejected
from retoma.system.concurrency import Coalescer, finish_before_cancel
from retoma.system.private_files import close, close_all, make_private

T = TypeVar("T")

_PARTS = ".parts"  # no name of a blob begins with a dot
_REMEMBERED = 1000  # folders
_ABANDONED = 24 * 3600.0  # seconds after which a part belongs to nobody: its process was killed
_MOST = 50  # short files that are kept together


class FolderBlobs:
    """Files under *root*, each by its name, for this account alone; and so is the *home* around it, if there is one."""

    provider = "folder"

    def __init__(self, root: Path, *, home: Path | None = None) -> None:
        self._root = root.absolute()
        self._private = home.absolute() if home else self._root
        close(self._private)
        # What was made when files were left as open as the umask had it.
        close_all(self._root, last=self._root / _PARTS)
        self._swept = False
        self._inside: set[str] = set()
        self._numbers = count()
        self._mark = uuid4().hex
        self._kept: WeakKeyDictionary[asyncio.AbstractEventLoop, Coalescer[New, Exception | None]] = WeakKeyDictionary()

    async def put(self, name: str, content: AsyncIterable[bytes], *, most: int | None = None) -> Blob:
        """Store *content*; all of it or nothing, refused when longer than *most* bytes."""
        checked(name, provider=self.provider)
        measured = Measured(content, name=name, most=most, provider=self.provider)
        part, last = self._part(), b""
        try:
            # One piece is held back: when it was the only one, the file is short and kept together with others.
            async for piece in measured:
                if last:
                    await self._do(name, partial(part.write, last))
                last = piece
        except BaseException:
            part.drop()
            raise
        new = (part, partial(self._target, name), last)
        if part.begun:
            (failed,) = await self._do(name, partial(keep_all, [new]))
        else:
            failed = await self._together()(new)
        if failed:
            raise self._told(failed, name) if isinstance(failed, OSError) else failed
        return measured.blob

    def _together(self) -> Coalescer[New, Exception | None]:
        loop = asyncio.get_running_loop()
        if loop not in self._kept:

            async def keep(files: list[New]) -> list[Exception | None]:
                return await asyncio.to_thread(keep_all, files)

            self._kept[loop] = Coalescer(keep, most=_MOST)
        return self._kept[loop]

    @asynccontextmanager
    async def open(
        self, name: str, *, start: int = 0, length: int | None = None
    ) -> AsyncIterator[AsyncIterator[bytes]]:
        """The content, in pieces; a file that is deleted or replaced meanwhile is still read to its end."""
        path = self._path(name)

        def opened() -> IO[bytes]:
            try:
                found = path.open("rb")
                found.seek(start)
                return found
            except FileNotFoundError:
                self._refuse_vanished()
                raise

        file = await self._do(name, opened)

        async def pieces() -> AsyncIterator[bytes]:
            left = length
            while piece := await self._do(name, partial(file.read, PIECE if left is None else min(PIECE, left))):
                left = None if left is None else left - len(piece)
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
                settle(path.parent)
                return True
            self._refuse_vanished()
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
            self._make(folder, name)
            if len(self._inside) < _REMEMBERED:
                self._inside.add(folder)
        return self._root / name

    def _make(self, folder: str, name: str) -> None:
        path = self._root / folder
        make_private(path, inside=self._private)
        self._refuse_outside(path, name)
        while path != self._root:  # a new folder is a name, too
            path = path.parent
            settle(path)
        self._sweep()

    def _refuse_outside(self, path: Path, name: str) -> None:
        if not path.resolve().is_relative_to(self._root.resolve()):  # by a link that somebody put there
            raise rejected(self.provider, f"{name!r} leads out of the folder.")

    def _refuse_vanished(self) -> None:
        """Where something was ever kept there is a folder of parts. Without it nothing can be said of any blob: nobody
        has kept one yet, or a disk is not mounted, and what is on it is neither missing nor deleted.
        """
        if not (self._root / _PARTS).is_dir():
            raise OSError(errno.ENXIO, "nothing of the store is there; is its disk mounted?")

    def _part(self) -> Part:
        # Others may write there, and our own children.
        name = f"{self._mark}-{os.getpid()}-{next(self._numbers)}"
        return Part(self._root / _PARTS / name, inside=self._private)

    def _sweep(self) -> None:
        """Remove, once, what a killed process left behind long ago."""
        if self._swept:
            return
        self._swept = True
        for part in (self._root / _PARTS).glob("*"):
            with suppress(FileNotFoundError):
                if part.stat().st_mtime < time.time() - _ABANDONED:
                    part.unlink()

    async def _do(self, name: str, work: Callable[[], T]) -> T:
        """*work* in a thread, and what the system says about it in our words. Nobody goes away while a thread still has
        their file.
        """
        try:
            return await finish_before_cancel(asyncio.get_running_loop().run_in_executor(None, work))
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

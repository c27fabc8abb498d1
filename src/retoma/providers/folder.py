"""Blobs as files in a folder, the default. A file is complete or absent, even after a power failure."""

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

_PARTS = ".parts"  # no blob name begins with a dot
_REMEMBERED = 1000  # folders that are remembered
_ABANDONED = 24 * 3600.0  # seconds after which a part is abandoned: its process was killed
_MOST = 50  # short files that are written together


class FolderBlobs:
    """Files under *root*, by name, readable for this account alone; the *home* around it too, if there is one."""

    provider = "folder"

    def __init__(self, root: Path, *, home: Path | None = None) -> None:
        self._root = root.absolute()
        self._private = home.absolute() if home else self._root
        close(self._private)
        # Closes files that an earlier version created with the modes of the umask.
        close_all(self._root, last=self._root / _PARTS)
        self._swept = False
        self._inside: set[str] = set()
        self._numbers = count()
        self._mark = uuid4().hex
        self._kept: WeakKeyDictionary[asyncio.AbstractEventLoop, Coalescer[New, Exception | None]] = WeakKeyDictionary()

    async def put(self, name: str, content: AsyncIterable[bytes], *, most: int | None = None) -> Blob:
        """Store *content* atomically; refused when longer than *most* bytes."""
        checked(name, provider=self.provider)
        measured = Measured(content, name=name, most=most, provider=self.provider)
        part, last = self._part(), b""
        try:
            # One piece is held back: if it is the only one, the file is short and is written together with others.
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
        """The content in pieces; a file that is deleted or replaced meanwhile is still read to its end."""
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
        """Delete it; returns whether it existed."""
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
        """Whether it exists."""
        return await self._do(name, self._path(name).is_file)

    def path(self, name: str) -> Path:
        """The path of the blob *name* on this machine, for reading only."""
        return self._path(name)

    def _path(self, name: str) -> Path:
        path = self._root / checked(name, provider=self.provider)
        self._refuse_outside(path, name)
        return path

    def _target(self, name: str) -> Path:
        """The path for *name*. A link in its place is replaced, so only the folder matters, and is checked once."""
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
        while path != self._root:  # a new folder is a new name, too
            path = path.parent
            settle(path)
        self._sweep()

    def _refuse_outside(self, path: Path, name: str) -> None:
        if not path.resolve().is_relative_to(self._root.resolve()):  # through a link in a folder
            raise rejected(self.provider, f"{name!r} leads out of the folder.")

    def _refuse_vanished(self) -> None:
        """Refuse to answer when the folder of parts is missing. It exists wherever anything was ever stored; without
        it, either nothing was stored yet or a disk is not mounted, and its blobs are neither missing nor deleted.
        """
        if not (self._root / _PARTS).is_dir():
            raise OSError(errno.ENXIO, "nothing of the store is there; is its disk mounted?")

    def _part(self) -> Part:
        # Other processes may write there, and our own children.
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
        """Run *work* in a thread, and translate the system's errors. The caller does not return while the
        thread still uses its file.
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

"""Files that people send: received piece by piece, looked at, kept in the blob store, and never lost between the two.

A blob belongs to a row of a pipeline. Until that row is committed, and from the moment it is gone, the blob stands in
``retoma.loose_blobs``; what stays there for a day is swept away. So a process may be killed at any line.
"""

from __future__ import annotations

import asyncio
import hashlib
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Callable, Collection, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from io import BytesIO
from pathlib import Path
from typing import IO, Self, TypeVar
from uuid import uuid4

from retoma.app.retoma import Retoma
from retoma.errors import RetomaError
from retoma.model.validation import LARGEST_FILE
from retoma.pipelines.files import unowned_blobs
from retoma.pipelines.files.content import MIME_TYPES, FileRefused, clean_name, kind_of, refuse_closed
from retoma.providers import BlobStore, ProviderError
from retoma.store.query import Query
from retoma.system.concurrency import Coalescer
from retoma.system.tempfiles import named

T = TypeVar("T")

__all__ = ["LARGEST", "File", "FileRefused", "Files", "StoreDown", "StoreFull", "hash_of", "local_file", "read_from"]

LARGEST = LARGEST_FILE
"""Bytes of one file, unless somebody says otherwise."""

_PIECE = 1 << 20
_SHORT = 1 << 17
_IN_A_ROW = 100  # names in one folder
_FULL = 507  # what a store says when it has no room


class StoreFull(RetomaError):
    """There is no room for the file; nothing was kept of it."""


class StoreDown(RetomaError):
    """The blob store does not answer, or does not let us in; nothing was kept of the file."""


@dataclass(frozen=True, slots=True)
class File:
    """A file that was taken: what it is called, what it is, and where it is kept."""

    filename: str
    kind: str
    mime_type: str
    size: int
    sha256: str
    blob: str


class Files:
    """Receives files into the blob store of an app, and lets go of them. One of it serves many callers at once: what
    they ask of the database at the same moment goes in one statement.
    """

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self.blobs: BlobStore = app.provider(BlobStore)
        self._announced: Coalescer[str, None] = Coalescer(self._announce)
        self._names = _new_names()

    async def take(
        self,
        filename: str,
        content: AsyncIterable[bytes],
        *,
        kinds: Collection[str],
        most: int = LARGEST,
        opens: bool = False,
    ) -> File:
        """Keep *content*; its blob has no owner until the caller's transaction runs ``keep``. With *opens*, a PDF
        that cannot be opened is refused now, and not when it is read.

        Raises FileRefused when the file is at fault, and StoreFull or StoreDown when we are. Never whole in memory.
        """
        name = clean_name(filename)
        with _Incoming() as came:
            await _received(came, content, name, most)
            kind = await came.look(lambda file: kind_of(file, name, kinds))
            if opens:
                await refuse_closed(came.file, name, kind)
            blob = next(self._names)
            await self._announced(blob)
            try:
                kept = await self.blobs.put(blob, came.pieces())
            except ProviderError as error:
                raise _told(error) from error
        return File(filename=name, kind=kind, mime_type=MIME_TYPES[kind], size=kept.size, sha256=kept.sha256, blob=blob)

    async def _announce(self, blobs: list[str]) -> list[None]:
        await self._app.fetch(unowned_blobs.announce(blobs))
        return [None] * len(blobs)

    def keep(self, file: File) -> Query[str]:
        """For the transaction that inserts the owner; no row comes back when the blob was swept away meanwhile."""
        return unowned_blobs.own(file.blob)

    def release(self, blob: str) -> Query[str]:
        """For the transaction that removes the owner; ``drop`` comes after it."""
        return unowned_blobs.disown(blob)

    def local(self, blob: str, kind: str) -> AbstractAsyncContextManager[Path]:
        """The blob as a file on this machine, for as long as the block lasts."""
        return local_file(self.blobs, blob, kind)

    async def drop(self, blob: str) -> None:
        """Delete a blob that has no owner. When the store does not answer, the sweep does it later."""
        await self._app.fetch(unowned_blobs.disown(blob))
        await self._delete([blob])

    async def sweep(self, older_than: timedelta = timedelta(days=1)) -> int:
        """Delete the blobs that have had no owner for longer; how many."""
        swept, after = 0, unowned_blobs.OLDEST
        # Behind a cursor: those that the store refuses to delete hide nobody.
        while given_up := await self._app.fetch(unowned_blobs.give_up(older_than.total_seconds(), after=after)):
            swept += await self._delete([each.blob for each in given_up])
            after = given_up[-1]
        return swept

    async def _delete(self, blobs: list[str]) -> int:
        gone = await deleted(self.blobs, blobs)
        await self._app.fetch(unowned_blobs.forget(gone))
        return len(gone)


async def deleted(blobs: BlobStore, names: Collection[str]) -> list[str]:
    """Those of *names* that are not in the store any more; what it refuses to delete stays for another day."""
    gone = []
    for name in names:
        try:
            await blobs.delete(name)
        except ProviderError:
            continue
        gone.append(name)
    return gone


@asynccontextmanager
async def local_file(blobs: BlobStore, blob: str, kind: str) -> AsyncIterator[Path]:
    """The blob as a file on this machine: the store's own where it is one, else a copy that goes with the block."""
    if hasattr(blobs, "path"):
        async with blobs.open(blob):  # or a reader would be the first to notice that it is not there, and not know why
            yield blobs.path(blob)
        return
    with named(suffix=f".{kind}") as copy:
        async with blobs.open(blob) as pieces:
            async for piece in pieces:
                await asyncio.to_thread(copy.write, piece)
        await asyncio.to_thread(copy.flush)
        yield Path(copy.name)


def _new_names() -> Iterator[str]:
    """Names of ours, spread over folders; nothing that a person wrote is in them. Many in a row are in one folder: what
    a store does for a folder it then does once for all that come at the same moment.
    """
    while True:
        folder = uuid4().hex[:2]
        for _ in range(_IN_A_ROW):
            yield f"files/{folder}/{uuid4().hex}"


class _Incoming:
    """What comes: in memory while it is short, else in a file without a name, which the system frees even if we are
    killed.
    """

    def __init__(self) -> None:
        self.file: IO[bytes] = BytesIO()
        self.size = 0
        self._waiting = bytearray()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.file.close()

    @property
    def short(self) -> bool:
        """Whether it is so short that a visit to a thread would take longer than what is done there."""
        return self.size <= _SHORT

    async def add(self, piece: bytes) -> None:
        self.size += len(piece)
        self._waiting += piece
        if len(self._waiting) >= _PIECE:
            await self._do(self._write)

    async def end(self) -> None:
        """There is no more to come: from now on all of it is in *file*."""
        await self._do(self._write)

    def _write(self) -> None:
        if not self.short and isinstance(self.file, BytesIO):  # which is empty: this is the first that is written
            self.file = tempfile.TemporaryFile()  # noqa: SIM115 - closed by our own __exit__
        self.file.write(self._waiting)
        self.file.flush()
        self._waiting = bytearray()

    async def _do(self, work: Callable[[], T]) -> T:
        return work() if self.short else await asyncio.to_thread(work)

    async def look(self, at: Callable[[IO[bytes]], T]) -> T:
        """What *at* finds in the file."""
        return await self._do(lambda: at(self.file))

    async def pieces(self) -> AsyncIterator[bytes]:
        """All of it."""
        self.file.seek(0)
        while piece := await self._do(lambda: self.file.read(_PIECE)):
            yield piece


async def _received(came: _Incoming, content: AsyncIterable[bytes], name: str, most: int) -> None:
    async for piece in content:
        try:
            await came.add(piece)
        except OSError as error:
            raise _no_room(error) from error
        if came.size > most:
            raise FileRefused(
                f"{name} is larger than the {most:,} bytes that are allowed.",
                code="file_too_large",
                next="Split it, or make its pictures smaller.",
                limit=most,
            )
    try:
        await came.end()
    except OSError as error:
        raise _no_room(error) from error


def _no_room(error: OSError) -> RetomaError:
    return StoreFull(
        f"There is no room to receive files in {tempfile.gettempdir()}: {error.strerror}.",
        next="Make room there, or set TMPDIR to a larger disk.",
    )


def _told(error: ProviderError) -> RetomaError:
    kind: type[RetomaError] = StoreFull if error.status == _FULL else StoreDown
    return kind(f"The blob store did not take the file: {error.message}", next=error.next)


async def hash_of(path: Path) -> str:
    """The SHA-256 of a file, in hexadecimal digits."""

    def hashed() -> str:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()

    return await asyncio.to_thread(hashed)


async def read_from(path: Path) -> AsyncIterator[bytes]:
    """The content of a file of this machine, as it would come over the wire."""
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece

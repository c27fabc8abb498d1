"""Files that people send: received piece by piece, looked at, kept in the blob store, and never lost between the two.

A blob belongs to a row of a pipeline. Until that row is committed, and from the moment it is gone, the blob stands in
``retoma.loose_blobs``; what stays there for a day is swept away. So a process may be killed at any line.
"""

from __future__ import annotations

import asyncio
import errno
import hashlib
import tempfile
from collections.abc import AsyncIterable, AsyncIterator, Collection
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from typing import IO
from uuid import uuid4

from retoma.app import Retoma
from retoma.errors import RetomaError
from retoma.pipelines import loose_blobs
from retoma.pipelines.content import MIME_TYPES, FileRefused, clean_name, kind_of, refuse_closed
from retoma.providers import BlobStore, ProviderError
from retoma.query import Query

__all__ = ["LARGEST", "File", "FileRefused", "Files", "StoreDown", "StoreFull", "local_file", "read_from"]

LARGEST = 50_000_000
"""Bytes of one file, unless somebody says otherwise."""

_PIECE = 1 << 20
_FULL = 507  # what a store says when it has no room
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT)


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
    """Receives files into the blob store of an app, and lets go of them."""

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self.blobs: BlobStore = app.front.provider(BlobStore)  # type: ignore[type-abstract]

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
        with _scratch() as spool:
            size, sha256 = await _received(spool, content, name, most)
            path = Path(f"/dev/fd/{spool.fileno()}")
            kind = await asyncio.to_thread(kind_of, path, name, kinds)
            if opens:
                await refuse_closed(path, name, kind)
            blob = _new_name()
            await self._app.fetch(loose_blobs.announce(blob))
            try:
                await self.blobs.put(blob, _pieces(spool))
            except ProviderError as error:
                raise _told(error) from error
        return File(filename=name, kind=kind, mime_type=MIME_TYPES[kind], size=size, sha256=sha256, blob=blob)

    def keep(self, file: File) -> Query[str]:
        """For the transaction that inserts the owner; no row comes back when the blob was swept away meanwhile."""
        return loose_blobs.own(file.blob)

    def release(self, blob: str) -> Query[str]:
        """For the transaction that removes the owner; ``drop`` comes after it."""
        return loose_blobs.disown(blob)

    def local(self, blob: str, kind: str) -> AbstractAsyncContextManager[Path]:
        """The blob as a file on this machine, for as long as the block lasts."""
        return local_file(self.blobs, blob, kind)

    async def drop(self, blob: str) -> None:
        """Delete a blob that has no owner. When the store does not answer, the sweep does it later."""
        await self._app.fetch(loose_blobs.disown(blob))
        await self._delete([blob])

    async def sweep(self, older_than: timedelta = timedelta(days=1)) -> int:
        """Delete the blobs that have had no owner for longer; how many."""
        swept = 0
        while given_up := await self._app.fetch(loose_blobs.give_up(older_than.total_seconds())):
            gone = await self._delete(given_up)
            swept += gone
            if gone < len(given_up):  # the store refuses some: they would come again at once
                break
        return swept

    async def _delete(self, blobs: list[str]) -> int:
        gone = await deleted(self.blobs, blobs)
        await self._app.fetch(loose_blobs.forget(gone))
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
        yield blobs.path(blob)
        return
    with tempfile.NamedTemporaryFile(prefix="retoma-", suffix=f".{kind}") as copy:
        async with blobs.open(blob) as pieces:
            async for piece in pieces:
                await asyncio.to_thread(copy.write, piece)
        await asyncio.to_thread(copy.flush)
        yield Path(copy.name)


def _new_name() -> str:
    """A name of ours, spread over folders; nothing that a person wrote is in it."""
    name = uuid4().hex
    return f"files/{name[:2]}/{name}"


def _scratch() -> IO[bytes]:
    """A file without a name: the system frees it even if we are killed."""
    try:
        return tempfile.TemporaryFile()
    except OSError as error:
        raise _no_room(error) from error


async def _received(spool: IO[bytes], content: AsyncIterable[bytes], name: str, most: int) -> tuple[int, str]:
    """How many bytes came, and their SHA-256."""
    size, digest, waiting = 0, hashlib.sha256(), bytearray()

    def write(pieces: bytes) -> None:
        digest.update(pieces)
        spool.write(pieces)

    try:
        async for piece in content:
            size += len(piece)
            if size > most:
                raise FileRefused(
                    f"{name} is larger than the {most:,} bytes that are allowed.",
                    code="file_too_large",
                    next="Split it, or make its pictures smaller.",
                    limit=most,
                )
            waiting += piece
            if len(waiting) >= _PIECE:
                await asyncio.to_thread(write, bytes(waiting))
                waiting.clear()
        await asyncio.to_thread(write, bytes(waiting))
        await asyncio.to_thread(spool.flush)
    except OSError as error:
        if error.errno not in _NO_ROOM:  # the sender's own trouble passes through
            raise
        raise _no_room(error) from error
    return size, digest.hexdigest()


async def _pieces(spool: IO[bytes]) -> AsyncIterator[bytes]:
    await asyncio.to_thread(spool.seek, 0)
    while piece := await asyncio.to_thread(spool.read, _PIECE):
        yield piece


def _no_room(error: OSError) -> RetomaError:
    return StoreFull(
        f"There is no room to receive files in {tempfile.gettempdir()}: {error.strerror}.",
        next="Make room there, or set TMPDIR to a larger disk.",
    )


def _told(error: ProviderError) -> RetomaError:
    kind: type[RetomaError] = StoreFull if error.status == _FULL else StoreDown
    return kind(f"The blob store did not take the file: {error.message}", next=error.next)


async def read_from(path: Path) -> AsyncIterator[bytes]:
    """The content of a file of this machine, as it would come over the wire."""
    with path.open("rb") as file:
        while piece := await asyncio.to_thread(file.read, _PIECE):
            yield piece

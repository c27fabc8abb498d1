"""What the blob stores share: the rules for names, and the measuring of content."""

from __future__ import annotations

import hashlib
import re
from collections.abc import AsyncIterable, AsyncIterator

from retoma.errors import NotFound
from retoma.providers import Blob
from retoma.providers.http import rejected

PIECE = 1 << 20  # bytes per read
LONGEST = 3600.0  # seconds for one request as a whole; silence ends it much sooner

_LONGEST = 800  # some stores allow 1,024 characters, and a prefix may be added
_PART = r"(?![.])[A-Za-z0-9._=@+-]{1,200}(?<![.])"
_NAME = re.compile(f"{_PART}(?:/{_PART})*")


def checked(name: str, *, provider: str) -> str:
    """*name*, if it is valid in every store and leads nowhere else: ``documents/3f/report.pdf``."""
    if len(name) > _LONGEST or not _NAME.fullmatch(name):
        raise rejected(
            provider,
            f"{name[:80]!r} cannot be the name of a blob: it takes letters, digits and ._=@+- between slashes, "
            f"no part that begins or ends with a dot, and at most {_LONGEST} characters.",
        )
    return name


def missing(name: str) -> NotFound:
    return NotFound(f"There is no blob {name!r}.", next="It was deleted, or never stored under this name.")


class Measured:
    """Counts and hashes *content* as it passes; refuses what is longer than *most*."""

    def __init__(self, content: AsyncIterable[bytes], *, name: str, most: int | None, provider: str) -> None:
        self._content = content
        self._name = name
        self._most = most
        self._provider = provider
        self._size = 0
        self._hash = hashlib.sha256()
        self.broken: Exception | None = None
        """The error that stopped the content half-way; an error during the clean-up must not hide it."""

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            async for piece in self._content:
                self._count(piece)
                yield piece
        except Exception as error:
            self.broken = error
            raise

    def _count(self, piece: bytes) -> None:
        self._size += len(piece)
        if self._most is not None and self._size > self._most:
            why = f"{self._name} is longer than the {self._most:,} bytes that are allowed; nothing was stored."
            raise rejected(self._provider, why, status=413)
        self._hash.update(piece)

    async def blocks(self, size: int) -> AsyncIterator[bytes]:
        """The same in blocks of *size* bytes, the last one shorter; at least one, even if empty."""
        kept = bytearray()
        first = True
        async for piece in self:
            kept += piece
            while len(kept) > size:
                yield bytes(kept[:size])
                del kept[:size]
                first = False
        if kept or first:
            yield bytes(kept)

    @property
    def blob(self) -> Blob:
        """What has passed so far."""
        return Blob(name=self._name, size=self._size, sha256=self._hash.hexdigest())

"""The ready documents in the blob store that the settings name; told to, a server stops right after a blob is stored.

With STOP_AFTER_PUT a put that is done is told on standard error, and nothing follows it, until the process is killed.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import AsyncIterable
from typing import Any

from retoma import Retoma
from retoma.pipelines import DOCUMENTS, FILES
from retoma.providers import Blob, BlobStore, Embedder, Extractor
from retoma.providers.factory import providers_from
from retoma.providers.local import LocalEmbedder, LocalExtractor
from retoma.providers.local.encoder import Lexical


class Stopping:
    """A blob store whose puts are done, and never come back."""

    def __init__(self, real: Any) -> None:
        self._real = real

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)

    async def put(self, name: str, content: AsyncIterable[bytes], *, most: int | None = None) -> Blob:
        await self._real.put(name, content, most=most)
        os.write(2, f"stored {name}\n".encode())
        await asyncio.Event().wait()
        raise AssertionError


def providers() -> dict[type[Any], Any]:
    real = providers_from()[BlobStore]
    blobs = Stopping(real) if "STOP_AFTER_PUT" in os.environ else real
    return {BlobStore: blobs, Embedder: LocalEmbedder(Lexical()), Extractor: LocalExtractor()}


def __getattr__(name: str) -> Any:
    if name == "app":  # in a process of its own, not where the test runs
        return Retoma(extensions=[DOCUMENTS, FILES], providers=providers())
    raise AttributeError(name)

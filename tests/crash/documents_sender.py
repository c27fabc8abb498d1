"""Somebody who sends a document and is stopped half-way: the blob is stored, or the rows are written, or committed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from uuid import UUID

from retoma import Retoma
from retoma.pipelines.documents import PIPELINES
from retoma.pipelines.documents.library import Documents
from retoma.pipelines.files import File
from retoma.providers import BlobStore, Embedder, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalEmbedder, LocalExtractor

FOLDER = Path(os.environ["CRASH_FILE"]).with_name("blobs")


def stop() -> None:
    os.write(1, b"here\n")
    while True:
        time.sleep(3600)


class Stopped(Documents):
    """A library that stops where it is told to."""

    where = ""

    async def _insert(self, file: File, uploaded_by: str | None, correlation_id: str | None) -> UUID | None:
        if self.where == "stored":
            stop()
        inserted = await super()._insert(file, uploaded_by, correlation_id)
        stop()
        return inserted

    async def _queue(self, connection: object, *rest: Any) -> None:
        await super()._queue(connection, *rest)
        if self.where == "written":
            stop()


async def main(where: str, text: str) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield text.encode()

    providers = {BlobStore: FolderBlobs(FOLDER), Embedder: LocalEmbedder(), Extractor: LocalExtractor()}
    async with Retoma(os.environ["DATABASE_URL"], pipelines=PIPELINES, providers=providers) as app:
        library = Stopped(app)
        library.where = where
        await library.receive(f"{where}.txt", content())


asyncio.run(main(*sys.argv[1:]))

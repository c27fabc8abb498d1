"""Somebody who sends a document and is stopped half-way: the blob is stored, or the rows are written, or committed."""

from __future__ import annotations

import asyncio
import os
import sys
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from retoma import Retoma
from retoma.pipelines import DOCUMENTS
from retoma.pipelines.documents.ingest import Arriving
from retoma.pipelines.documents.library import Documents
from retoma.pipelines.documents.model import Arrival
from retoma.providers import BlobStore, Embedder, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalEmbedder, LocalExtractor

FOLDER = Path(os.environ["CRASH_FILE"]).with_name("blobs")


def stop() -> None:
    os.write(1, b"here\n")
    while True:
        time.sleep(3600)


class Stopped(Arriving):
    """Arrivals that stop where they are told to."""

    where = ""

    async def _write(self, arrivals: list[Arrival]) -> Any:
        if self.where == "stored":
            stop()
        written = await super()._write(arrivals)
        stop()
        return written

    async def _queue(self, *given: Any) -> Any:
        queued = await super()._queue(*given)
        if self.where == "written":
            stop()
        return queued


async def main(where: str, text: str) -> None:
    async def content() -> AsyncIterator[bytes]:
        yield text.encode()

    providers = {BlobStore: FolderBlobs(FOLDER), Embedder: LocalEmbedder(), Extractor: LocalExtractor()}
    async with Retoma(os.environ["DATABASE_URL"], extensions=[DOCUMENTS], providers=providers) as app:
        library = Documents(app)
        library._arriving = stopped = Stopped(app, library.files)
        stopped.where = where
        await library.receive(f"{where}.txt", content())


asyncio.run(main(*sys.argv[1:]))

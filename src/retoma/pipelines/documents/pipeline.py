"""The pipeline: read, cut, name, embed, store, with a checkpoint after each."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg

from retoma.app.fetch import fetch
from retoma.errors import NotFound
from retoma.model.endings import Reject, Skip
from retoma.model.retry import Retry
from retoma.pipelines.documents import contents, documents
from retoma.pipelines.documents.chunking import cut
from retoma.pipelines.documents.fields import find_fields
from retoma.pipelines.documents.model import Chunk, NewDocument
from retoma.pipelines.files.ingest import hash_of, local_file
from retoma.providers import BlobStore, Embedder, Extraction, Extractor, Field, ProviderError
from retoma.providers.deferred import Pending, Submitter
from retoma.providers.local.errors import ContentChanged
from retoma.run.pipeline import Pipeline, pipeline
from retoma.run.run import Run

Connection = psycopg.AsyncConnection[Any]

GROUP = 32
"""Chunks that are embedded with one request: 64,000 tokens at most."""

_STORED_AT_ONCE = 200
_NO_TEXT = "no_text"


@dataclass(frozen=True, slots=True)
class Processed:
    """What was stored of a document."""

    pages: int
    chunks: int
    fields: int
    tables: int


@pipeline("documents", internal=True, timeout=120.0, retry=Retry(attempts=3, wait=5.0, factor=2.0))
async def process(
    document: NewDocument, run: Run, *, extractor: Extractor, embedder: Embedder, blobs: BlobStore
) -> Processed:
    """Read a document, cut it, find its fields, embed its pieces, and store all that in one transaction."""
    try:
        extraction = await _read(document, run, extractor, blobs)
        chunks = await run.step("cut", cut, extraction)
        if not chunks:
            raise Reject(_no_text(document, extraction.reader))
        fields = await run.step("fields", find_fields, extraction)
        vectors = await _embed(run, embedder, chunks)
    except NotFound:
        raise Reject(
            f"document_missing: {document.filename} is not in the store any more. Remove it here and send it again."
        ) from None
    except ProviderError as error:
        if error.retryable:
            raise
        raise Reject(_why(document, error)) from error

    async def store(connection: Connection) -> Processed:
        await _own(connection, document, run, extraction)
        return await _store(connection, document, extraction, fields, chunks, vectors, embedder)

    return await run.transact("store", store)


async def _read(document: NewDocument, run: Run, extractor: Extractor, blobs: BlobStore) -> Extraction:
    """What the document says; its file is only fetched when it has to be read."""
    kind = _Submitting if isinstance(extractor, Submitter) else _Stored
    stored = kind(extractor, blobs, document)
    extraction = await run.extract("extract", stored, Path(document.blob), kind=document.kind, sha256=document.sha256)
    if not extraction.text.strip():
        raise Reject(_no_text(document, extraction.reader))
    return extraction


class _Stored:
    """An extractor that reads from the blob store."""

    def __init__(self, extractor: Extractor, blobs: BlobStore, document: NewDocument) -> None:
        self._extractor = extractor
        self._blobs = blobs
        self._document = document
        self.provider = extractor.provider

    def __getattr__(self, name: str) -> Any:
        # Its model and its parameters are the extractor's: they tell one paid answer from another.
        return getattr(self._extractor, name)

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        """What the blob of that name says."""
        async with self._fetched(file, kind) as path:
            return await self._extractor.extract(path, kind=kind, timeout=timeout)

    @asynccontextmanager
    async def _fetched(self, file: Path, kind: str) -> AsyncIterator[Path]:
        """The blob as a file; its content is the one that was received, or it is not read."""
        async with local_file(self._blobs, str(file), kind) as path:
            if await hash_of(path) != self._document.sha256:
                raise ContentChanged(
                    f"The content of {file.name} is not the one that was received.",
                    next="Find out who changed it in the store; remove the document and send it again.",
                )
            yield path


class _Submitting(_Stored):
    """The same, of one that is handed documents and has read them later."""

    _extractor: Submitter

    @property
    def kept_seconds(self) -> float:
        """For how long a result can be looked for."""
        return self._extractor.kept_seconds

    async def submit(self, file: Path, *, kind: str, timeout: float) -> str:
        """Hand in the blob of that name."""
        async with self._fetched(file, kind) as path:
            return await self._extractor.submit(path, kind=kind, timeout=timeout)

    async def look(self, operation: str, *, timeout: float) -> Extraction | Pending:
        """What was handed in says, if it was read by now."""
        return await self._extractor.look(operation, timeout=timeout)


async def _embed(run: Run, embedder: Embedder, chunks: Sequence[Chunk]) -> list[list[float]]:
    """One vector per chunk, group by group. The step is named by the model: vectors of two models do not mix."""
    groups = [chunks[start : start + GROUP] for start in range(0, len(chunks), GROUP)]
    vectors = [
        await run.embed(f"embed/{embedder.model}/{place}", embedder, [chunk.content for chunk in group])
        for place, group in enumerate(groups)
    ]
    return list(chain.from_iterable(vectors))


async def _own(connection: Connection, document: NewDocument, run: Run, extraction: Extraction) -> None:
    """Lock the document's row and note that it was read; end here when it is not there, or is not this job's."""
    pages = len(extraction.pages)
    done = documents.finish(document, run.job, page_count=pages, reader=extraction.reader, attempts=run.attempt)
    if await fetch(connection, done):
        return
    if await fetch(connection, documents.hold(document.id)):
        raise Reject(
            f"input_mismatch: job {run.job} is not the one that processes document {document.id}, or names another "
            "file than the document has. Nothing was changed. Send the document, or ask for it to be processed again."
        )
    raise Skip("the document was removed while it was processed")


async def _store(
    connection: Connection,
    document: NewDocument,
    extraction: Extraction,
    fields: Sequence[Field],
    chunks: Sequence[Chunk],
    vectors: Sequence[Sequence[float]],
    embedder: Embedder,
) -> Processed:
    """Replace what was there; the document's row is locked by now."""
    await fetch(connection, contents.clear(document.id))
    await fetch(connection, contents.put_fields(document.id, fields))
    await fetch(connection, contents.put_tables(document.id, extraction.tables))
    for start in range(0, len(chunks), _STORED_AT_ONCE):
        some = slice(start, start + _STORED_AT_ONCE)
        put = contents.put_chunks(
            document.id, chunks[some], vectors[some], provider=embedder.provider, model=embedder.model
        )
        await fetch(connection, put)
    pages = len(extraction.pages)
    return Processed(pages=pages, chunks=len(chunks), fields=len(fields), tables=len(extraction.tables))


def _why(document: NewDocument, error: ProviderError) -> str:
    """A refusal in words for the person who sent the file, who has never seen the name of our blob."""
    code = getattr(error, "code", "provider_refused")
    if code == "document_empty":
        code = _NO_TEXT
    return f"{code}: {str(error).replace(Path(document.blob).name, document.filename)}"


def _no_text(document: NewDocument, reader: str) -> str:
    return (
        f"{_NO_TEXT}: {document.filename} was read by {reader}, and there is no text in it. "
        "If a person can read something in it, print it to a PDF and send that."
    )


PIPELINES: tuple[Pipeline[Any, Any], ...] = (process,)

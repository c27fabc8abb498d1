"""The pipeline: read, cut, name, embed, store, with a checkpoint after each."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg

from retoma.commands import only
from retoma.endings import Reject, Skip
from retoma.errors import NotFound
from retoma.join import run_on
from retoma.pipeline import pipeline
from retoma.pipelines.documents import contents, documents
from retoma.pipelines.documents.cutting import cut
from retoma.pipelines.documents.naming import find_fields
from retoma.pipelines.documents.nouns import Chunk, NewDocument
from retoma.pipelines.files import local_file
from retoma.providers import BlobStore, Embedder, Extraction, Extractor, Field, ProviderError
from retoma.providers.later import Pending, Submitter
from retoma.retry import Retry
from retoma.run import Run

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


@pipeline("documents", timeout=120.0, retry=Retry(attempts=3, wait=5.0, factor=2.0))
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
        return await _store(connection, document, run.attempt, extraction, fields, chunks, vectors, embedder)

    return await run.transact("store", store)


async def _read(document: NewDocument, run: Run, extractor: Extractor, blobs: BlobStore) -> Extraction:
    """What the document says; its file is only fetched when it has to be read."""
    stored = _Submitting(extractor, blobs) if isinstance(extractor, Submitter) else _Stored(extractor, blobs)
    extraction = await run.extract("extract", stored, Path(document.blob), kind=document.kind, sha256=document.sha256)
    if not extraction.text.strip():
        raise Reject(_no_text(document, extraction.reader))
    return extraction


class _Stored:
    """An extractor that reads from the blob store."""

    def __init__(self, extractor: Extractor, blobs: BlobStore) -> None:
        self._extractor = extractor
        self._blobs = blobs
        self.provider = extractor.provider

    def __getattr__(self, name: str) -> Any:
        # Its model and its parameters are the extractor's: they tell one paid answer from another.
        return getattr(self._extractor, name)

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:
        """What the blob of that name says."""
        async with local_file(self._blobs, str(file), kind) as path:
            return await self._extractor.extract(path, kind=kind, timeout=timeout)


class _Submitting(_Stored):
    """The same, of one that is handed documents and has read them later."""

    _extractor: Submitter

    @property
    def kept_seconds(self) -> float:
        """For how long a result can be looked for."""
        return self._extractor.kept_seconds

    async def submit(self, file: Path, *, kind: str, timeout: float) -> str:
        """Hand in the blob of that name."""
        async with local_file(self._blobs, str(file), kind) as path:
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


async def _store(
    connection: Connection,
    document: NewDocument,
    attempt: int,
    extraction: Extraction,
    fields: Sequence[Field],
    chunks: Sequence[Chunk],
    vectors: Sequence[Sequence[float]],
    embedder: Embedder,
) -> Processed:
    """Replace what was there; the document's row is locked first."""
    pages = len(extraction.pages)
    done = documents.finish(document.id, page_count=pages, reader=extraction.reader, attempts=attempt)
    if not await run_on(connection, only(done)):
        raise Skip("the document was removed while it was processed")
    await run_on(connection, only(contents.clear(document.id)))
    await run_on(connection, only(contents.put_fields(document.id, fields)))
    await run_on(connection, only(contents.put_tables(document.id, extraction.tables)))
    for start in range(0, len(chunks), _STORED_AT_ONCE):
        some = slice(start, start + _STORED_AT_ONCE)
        put = contents.put_chunks(
            document.id, chunks[some], vectors[some], provider=embedder.provider, model=embedder.model
        )
        await run_on(connection, only(put))
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

"""The report of a batch, however many quotes it has, as ordinary work: read part by part, written, and kept.

Each part is a recorded step whose content is in the blob store under its hash, so a job that is killed half-way goes on
at the next part. A report that is to be closed stops decisions about its quotes with its first step; what is read
afterwards is what was there then.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pydantic import TypeAdapter

from retoma.app.fetch import fetch
from retoma.errors import Conflict, NotFound
from retoma.model.endings import Reject
from retoma.model.retry import Retry
from retoma.pipelines.files.ingest import deleted
from retoma.pipelines.quotes import report_jobs, requests, researches, reviews
from retoma.pipelines.quotes.pricing import report, report_pdf, report_xlsx
from retoma.pipelines.quotes.pricing.report import Document, Research, fingerprint, to_json
from retoma.pipelines.quotes.progress import Connection
from retoma.pipelines.quotes.stages import QUEUE
from retoma.providers import BlobStore
from retoma.run.pipeline import pipeline
from retoma.run.run import Run

PART = 250
"""Quotes of one part."""
_WRITTEN = ("pdf", "xlsx")
_RESEARCHES = TypeAdapter(list[Research])


@dataclass(frozen=True, slots=True, kw_only=True)
class ReportOrder:
    """A report that is wanted; *closing* it makes it final."""

    batch_id: int
    closing: bool
    by: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Begun:
    """Which quotes the report is about, and the moment that it is of."""

    quotes: list[int]
    at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Piece:
    """A file in the blob store."""

    blob: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Written:
    """What a job gives back."""

    quotes: int
    sha256: str
    report_id: int | None = None


@pipeline(
    "make-quote-report",
    internal=True,
    queue=QUEUE,
    retry=Retry(attempts=5, wait=5.0, factor=2.0),
    timeout=3600.0,
)
async def make_quote_report(order: ReportOrder, run: Run, *, blobs: BlobStore | None = None) -> Written:
    """Write the report of a batch as PDF and as a spreadsheet, once."""
    if blobs is None:
        raise Reject("store_missing: this worker has no store of files. Set RETOMA_BLOBS, then try again.")
    begun = await run.transact("begin", _begun, order, run.job)
    pieces = [
        await run.transact(
            f"part/{number}", _part, order.batch_id, begun.quotes[start : start + PART], number, run.job, blobs
        )
        for number, start in enumerate(range(0, len(begun.quotes), PART))
    ]
    pdf, xlsx = [await run.step(kind, _written, kind, order, begun, pieces, blobs) for kind in _WRITTEN]

    async def ready(connection: Connection) -> Written:
        return await _ready(connection, order, run.job, await _document(order, begun, pieces, blobs), pdf, xlsx)

    made = await run.transact("ready", ready)
    await deleted(blobs, [each.blob for each in pieces])
    return made


async def _begun(connection: Connection, order: ReportOrder, job: int) -> Begun:
    """The quotes; of a report that is to be closed, every one has ended, and nobody decides about it from now on."""
    found = await researches.of_batch(connection, order.batch_id)
    if order.closing:
        if await fetch(connection, reviews.closed(batch_id=order.batch_id)):
            raise Reject("report_closed: the report of this batch is closed already.")
        try:
            await researches.hold(connection, found)
        except Conflict as error:
            raise Reject(f"report_too_early: {error.message} {error.next or ''}") from None
    parts = -(-len(found) // PART) + len(_WRITTEN)
    await fetch(connection, report_jobs.begin(job, parts))
    return Begun(quotes=[each.id for each in found], at=datetime.now(UTC))


async def _part(
    connection: Connection, batch_id: int, ids: list[int], number: int, job: int, blobs: BlobStore
) -> Piece:
    page = requests.page(batch_id=batch_id, before=ids[-1] + 1, limit=len(ids))
    found = sorted(await fetch(connection, page), key=lambda each: each.id)
    content = _RESEARCHES.dump_json(await researches.researches(connection, found))
    # Under the number of the job: two reports of one batch have the same parts, and the first takes away its own.
    piece = await _put(blobs, f"{researches.FOLDER}/parts/{job}/{number}.json", content)
    await fetch(connection, report_jobs.advance(job, number + 1))
    return piece


async def _document(order: ReportOrder, begun: Begun, pieces: list[Piece], blobs: BlobStore) -> Document:
    told: list[Research] = []
    for piece in pieces:
        told += _RESEARCHES.validate_json(await _read(blobs, piece))
    title = researches.title_of(None, order.batch_id, draft=not order.closing)
    return await asyncio.to_thread(report.document, title, begun.at, *told)


async def _written(kind: str, order: ReportOrder, begun: Begun, pieces: list[Piece], blobs: BlobStore) -> Piece:
    told = await _document(order, begun, pieces, blobs)
    render = report_pdf.render if kind == "pdf" else report_xlsx.render
    content = await asyncio.to_thread(render, told)
    sha256 = hashlib.sha256(content).hexdigest()
    return await _put(blobs, f"{researches.FOLDER}/{sha256[:2]}/{sha256}.{kind}", content)


async def _ready(
    connection: Connection, order: ReportOrder, job: int, told: Document, pdf: Piece, xlsx: Piece
) -> Written:
    sha256 = fingerprint(told)
    report_id: int | None = None
    if order.closing:
        close = reviews.close(
            content=to_json(told).decode(),
            sha256=sha256,
            by=order.by,
            batch_id=order.batch_id,
            pdf_blob=pdf.blob,
            xlsx_blob=xlsx.blob,
        )
        rows = await fetch(connection, close)
        if not rows:
            raise Reject("report_closed: the report of this batch is closed already.")
        report_id = rows[0]
    finish = report_jobs.finish(
        job,
        report_id=report_id,
        pdf_blob=pdf.blob,
        pdf_bytes=pdf.size,
        xlsx_blob=xlsx.blob,
        xlsx_bytes=xlsx.size,
        sha256=sha256,
    )
    await fetch(connection, finish)
    return Written(quotes=len(told.reports), sha256=sha256, report_id=report_id)


async def _put(blobs: BlobStore, blob: str, content: bytes) -> Piece:
    async def once() -> AsyncIterator[bytes]:
        yield content

    await blobs.put(blob, once())
    return Piece(blob=blob, size=len(content), sha256=hashlib.sha256(content).hexdigest())


async def _read(blobs: BlobStore, piece: Piece) -> bytes:
    try:
        async with blobs.open(piece.blob) as pieces:
            content = b"".join([each async for each in pieces])
    except NotFound:
        raise Reject(
            "report_part_missing: a part of the report is not in the store any more. Ask for it again."
        ) from None
    if hashlib.sha256(content).hexdigest() != piece.sha256:
        raise Reject("content_changed: a part of the report is not the one that was kept. Ask for it again.")
    return content

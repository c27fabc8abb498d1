"""All reports of a batch as one ZIP, written while it is sent: no more than one report is in memory at a time."""

from __future__ import annotations

import asyncio
import zipfile
from collections.abc import AsyncIterator
from datetime import datetime
from weakref import WeakKeyDictionary

from pydantic import TypeAdapter

from retoma.errors import Conflict
from retoma.model.ids import BatchId
from retoma.pipelines.quotes import reviews
from retoma.pipelines.quotes.exports import results
from retoma.pipelines.quotes.model import ClosedReport, Quote
from retoma.pipelines.quotes.pricing.report import Document, Report
from retoma.pipelines.quotes.reports import Reports
from retoma.pipelines.quotes.stages import QuoteStatus
from retoma.providers import BlobStore

ZIP = "application/zip"
AT_ONCE = 2
"""Archives that one process writes at the same time: each takes a core. The others wait, with their summary sent."""
_PAGE = 100
_WITHOUT = (QuoteStatus.PENDING, QuoteStatus.PROCESSING, QuoteStatus.CANCELLED)
_REPORT = TypeAdapter(Report)

_turns: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()


async def archive(reports: Reports, batch_id: int) -> AsyncIterator[bytes]:
    """The pieces of the file: the results of every row as CSV, then a PDF for each quote that has ended. With a closed
    report of the batch, its own two files come before them, and each PDF tells what that report says. Refused where no
    quote has ended.
    """
    standing = (await reports.library.batch_status(BatchId(batch_id))).status_distribution
    if not any(count for status, count in standing.items() if status not in _WITHOUT):
        raise Conflict(
            f"No quote of batch {batch_id} has a report yet.", next="Come back when the first of them has ended."
        )
    return _pieces(reports, batch_id)


async def _pieces(reports: Reports, batch_id: int) -> AsyncIterator[bytes]:
    out = _Outlet()
    closed = next(iter(await reports.library.closed_reports(batch_id)), None)
    turns = _turns.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(AT_ONCE))
    with zipfile.ZipFile(out, "w", zipfile.ZIP_DEFLATED) as file:
        async for piece in _member(file, out, f"lote-{batch_id}.csv", results(reports.library, BatchId(batch_id))):
            yield piece
        async with turns:
            if closed is not None:
                for kind, blob in (("pdf", closed.pdf_blob), ("xlsx", closed.xlsx_blob)):
                    if blob is not None:
                        async for piece in _member(file, out, f"lote-{batch_id}.{kind}", _blob(reports, blob)):
                            yield piece
            written = _of_batch(reports, batch_id) if closed is None else _of_closed(reports, closed)
            async for name, at, content in written:
                await asyncio.to_thread(file.writestr, _entry(name, at), content)
                yield out.taken()
    yield out.taken()


async def _of_batch(reports: Reports, batch_id: int) -> AsyncIterator[tuple[str, datetime, bytes]]:
    """The report of each quote: closed as it was written on that day, else a draft that says so."""
    before: int | None = None
    while page := await reports.library.quotes(batch_id=batch_id, before=before, limit=_PAGE):
        for each in page:
            if each.status not in _WITHOUT:
                yield _name(each.id), _ended(each), await reports.file("pdf", quote_id=each.id)
        before = page[-1].id


async def _of_closed(reports: Reports, closed: ClosedReport) -> AsyncIterator[tuple[str, datetime, bytes]]:
    """The report of each item, out of the closed document: what was loaded or configured since changes nothing."""
    after = 0
    while page := await reports.app.fetch(reviews.closed_items(closed.id, after=after, limit=_PAGE)):
        for told in page:
            report = _REPORT.validate_json(told)
            title = f"Pesquisa de preços {report.research.number} (do relatório fechado do lote {closed.batch_id})"
            one = Document(title=title, closed_at=closed.closed_at, reports=(report,), total=report.total)
            yield _name(report.research.number), closed.closed_at, await reports.rendered("pdf", one, pictures=True)
        after += len(page)


def _name(number: int | str) -> str:
    return f"cotacao-{number}.pdf"


def _ended(quote: Quote) -> datetime:
    return quote.completed_at or quote.created_at


async def _blob(reports: Reports, blob: str) -> AsyncIterator[bytes]:
    async with reports.app.provider(BlobStore).open(blob) as pieces:
        async for piece in pieces:
            yield piece


async def _member(file: zipfile.ZipFile, out: _Outlet, name: str, pieces: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
    """What comes of a file of any length, added piece by piece."""
    entry = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
    entry.compress_type = zipfile.ZIP_DEFLATED
    with file.open(entry, "w", force_zip64=True) as member:
        async for piece in pieces:
            await asyncio.to_thread(member.write, piece)
            yield out.taken()


def _entry(name: str, at: datetime) -> zipfile.ZipInfo:
    entry = zipfile.ZipInfo(name, at.timetuple()[:6])
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry


class _Outlet:
    """Where the archive is written; what was sent is forgotten. The format needs nobody to go back in it."""

    def __init__(self) -> None:
        self._waiting = bytearray()

    def write(self, data: bytes, /) -> int:
        self._waiting += data
        return len(data)

    def flush(self) -> None:
        pass

    def close(self) -> None:
        pass

    def taken(self) -> bytes:
        """What was written since it was last asked."""
        found = bytes(self._waiting)
        self._waiting.clear()
        return found

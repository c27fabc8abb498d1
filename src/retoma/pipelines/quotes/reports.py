"""Reports of quotes and of batches: what follows from the rows and their evidence, closed once, verified any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import AbstractAsyncContextManager, nullcontext
from datetime import UTC, datetime
from typing import Any, Literal

import orjson

from retoma.app.retoma import Retoma
from retoma.errors import Conflict, NotFound
from retoma.model.ids import JobId
from retoma.pipelines.quotes import indices, report_jobs, researches, reviews
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.model import ClosedReport
from retoma.pipelines.quotes.ports import SourceKind
from retoma.pipelines.quotes.pricing import report, report_pdf, report_xlsx
from retoma.pipelines.quotes.pricing.correction import TABLE, load, wrong_calculation
from retoma.pipelines.quotes.pricing.report import (
    Document,
    Report,
    Research,
    fingerprint,
    from_json,
    to_json,
)
from retoma.pipelines.quotes.report_jobs import ReportJob
from retoma.pipelines.quotes.report_pipeline import ReportOrder, make_quote_report
from retoma.pipelines.quotes.retake_pipeline import PAGE, RetakeOrder, retake_quote_screenshot, still_open
from retoma.providers import BlobStore

Kind = Literal["pdf", "xlsx", "json"]
MEDIA_TYPES: Mapping[str, str] = {
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "json": "application/json",
}


class Reports:
    """What can be asked of reports, on an open app."""

    def __init__(self, app: Retoma) -> None:
        self.app = app
        self.library = Quotes(app)

    def _within(self, conn: object) -> AbstractAsyncContextManager[Any]:
        return self.app.transaction() if conn is None else nullcontext(conn)

    # — looking —

    async def document(self, *, quote_id: int | None = None, batch_id: int | None = None) -> Document:
        """The closed report, or what it would be now: a draft, and called so."""
        try:
            closed = await self.library.closed_report(quote_id=quote_id, batch_id=batch_id)
        except NotFound:
            return await self._document(quote_id, batch_id, conn=None, draft=True)
        return of_row(closed)

    async def file(self, kind: Kind, *, quote_id: int | None = None, batch_id: int | None = None) -> bytes:
        """The report as a file; a closed one as it was written on that day."""
        try:
            closed = await self.library.closed_report(quote_id=quote_id, batch_id=batch_id)
        except NotFound:
            told = await self._document(quote_id, batch_id, conn=None, draft=True)
            return await self.rendered(kind, told, pictures=quote_id is not None)
        kept = {"pdf": closed.pdf_blob, "xlsx": closed.xlsx_blob}.get(kind)
        content = await self.blob(kept) if kept else None
        return content or await self.rendered(kind, of_row(closed), pictures=closed.quote_id is not None)

    async def written_of_quote(self, quote_id: int) -> str | None:
        """Write the report of a quote that has ended; its fingerprint where it is closed, None for a draft."""
        quote = await self.library.quote(quote_id)
        if not quote.status.ended:
            raise Conflict(
                f"Quote {quote_id} is {quote.status}: it has no report yet.", next="Come back when it has ended."
            )
        await self.file("pdf", quote_id=quote_id)
        try:
            return (await self.library.closed_report(quote_id=quote_id)).sha256
        except NotFound:
            return None

    async def blob(self, name: str) -> bytes | None:
        """What is kept under *name*; None when it is not there."""
        blobs = self.app.registry.provider(BlobStore)
        try:
            async with blobs.open(name) as pieces:
                return b"".join([each async for each in pieces])
        except NotFound:
            return None

    # — closing —

    async def close(
        self, *, quote_id: int | None = None, batch_id: int | None = None, by: str, conn: object = None
    ) -> ClosedReport:
        """Close the report of a quote that is done, or of a batch whose every quote has ended: it stays as it is."""
        if quote_id is not None:
            await self.library.quote(quote_id, conn=conn)
        if batch_id is not None:
            await self.library.batch(batch_id, conn=conn)
        async with self._within(conn) as connection:
            told = await self._document(quote_id, batch_id, conn=connection, draft=False)
            sha256 = fingerprint(told)
            names = {kind: f"{researches.FOLDER}/{sha256[:2]}/{sha256}.{kind}" for kind in ("pdf", "xlsx")}
            await self._keep(names["pdf"], await self.rendered("pdf", told, pictures=quote_id is not None))
            await self._keep(names["xlsx"], await self.rendered("xlsx", told, pictures=False))
            return await self.library.close_report(
                to_json(told).decode(),
                sha256,
                quote_id=quote_id,
                batch_id=batch_id,
                pdf_blob=names["pdf"],
                xlsx_blob=names["xlsx"],
                by=by,
                conn=connection,
            )

    async def _keep(self, name: str, content: bytes) -> None:
        async def once() -> AsyncIterator[bytes]:
            yield content

        await self.app.registry.provider(BlobStore).put(name, once())

    async def rendered(self, kind: Kind, told: Document, *, pictures: bool) -> bytes:
        """The file of a document, with the pictures of its pages where they are wanted and kept."""
        if kind == "json":
            return to_json(told)
        if kind == "xlsx":
            return await asyncio.to_thread(report_xlsx.render, told)
        shown = await self._pictures(told) if pictures else {}
        return await asyncio.to_thread(report_pdf.render, told, shown)

    async def _pictures(self, told: Document) -> dict[str, bytes]:
        found: dict[str, bytes] = {}
        for each in (source.evidence for one in told.reports for source in one.research.sources if source.evidence):
            if each.screenshot and each.screenshot_sha256 and (content := await self.blob(each.screenshot)):
                found[each.screenshot_sha256] = content
        return found

    # — large batches: a worker writes the files —

    async def order(self, batch_id: int, *, closing: bool = False, by: str, conn: object = None) -> ReportJob:
        """Have the report of a batch written by a worker, as PDF and as a spreadsheet. While one is on its way,
        that one is given back; with *closing*, it is final when it is ready, and nobody decides about its quotes
        meanwhile.
        """
        async with self._within(conn) as connection:
            await self.library.batch(batch_id, conn=connection)
            if closing and await self.app.fetch(reviews.closed(batch_id=batch_id), conn=connection):
                raise Conflict("The report is closed already.", next="Look at the one that is there.")
            for each in await self.app.fetch(report_jobs.page(batch_id, limit=5), conn=connection):
                if each.state in ("QUEUED", "MAKING") and each.closing == closing:
                    return each
            wanted = ReportOrder(batch_id=batch_id, closing=closing, by=by)
            receipt = await self.app.enqueue(make_quote_report, wanted, conn=connection)
            await self.app.fetch(report_jobs.put(batch_id, receipt.id, closing=closing, by=by), conn=connection)
            return (await self.app.fetch(report_jobs.page(batch_id, limit=1), conn=connection))[0]

    async def ordered(self, batch_id: int, *, limit: int = 20) -> list[ReportJob]:
        """The reports of a batch that workers write or have written, the newest first."""
        return await self.app.fetch(report_jobs.page(batch_id, limit=limit))

    async def written(self, kind: Literal["pdf", "xlsx"], batch_id: int) -> str | None:
        """The blob of the newest file that a worker wrote for a batch; None when there is none."""
        for made in await self.app.fetch(report_jobs.page(batch_id, only_ready=True, limit=1)):
            return made.pdf_blob if kind == "pdf" else made.xlsx_blob
        return None

    # — pictures —

    async def retake(self, quote_id: int, source_id: int, *, by: str, conn: object = None) -> JobId:
        """Have a worker take the picture of a page that has none, from the page as it was kept. Refused where there is
        a picture or no page, and where the report is closed.
        """
        async with self._within(conn) as connection:
            await self.library.quote(quote_id, conn=connection)
            found = [each for each in await self.library.sources(quote_id, conn=connection) if each.id == source_id]
            if not found:
                raise NotFound(f"Quote {quote_id} has no source {source_id}.")
            if found[0].screenshot_file_id is not None:
                raise Conflict(f"Source {source_id} has its picture already.", next="Look at the one that is there.")
            if found[0].evidence_blob is None or (found[0].evidence_kind or PAGE) != PAGE:
                raise Conflict(f"Source {source_id} has no page of which a picture could be taken.")
            await still_open(connection, quote_id)
            order = RetakeOrder(quote_id=quote_id, source_id=source_id, by=by)
            return (await self.app.enqueue(retake_quote_screenshot, order, conn=connection)).id

    # — verifying —

    async def verify(self, content: bytes) -> list[tuple[str, str]]:
        """Where a report (PDF, XLSX or JSON) does not hold, and what is wrong there; nothing when every figure follows
        from the kept evidence to the cent, and the report is one that was closed here.
        """
        from retoma.pipelines.quotes.pricing import verify  # noqa: PLC0415 - it brings the readers of pages

        problems = [(each.where, each.what) for each in await verify.verify(content, self.blob)]
        told = verify.read(content)
        sha256 = fingerprint(told)
        problems += [each for one in told.reports if (each := await self._index_problem(one.research))]
        problems += [each for one in told.reports for each in await self._bank_problems(one.research)]
        if not problems and not await self.app.fetch(reviews.closed(sha256=sha256)):
            problems.append(("report", "no report with these figures was closed here"))
        return problems

    async def _index_problem(self, research: Research) -> tuple[str, str] | None:
        """Whether the table of the index that a report has is the one that was loaded, month by month."""
        if research.index is None or research.index_wanted is None:
            return None
        where = f"item {research.number}, index {research.index.index}"
        rows = await self.app.fetch(indices.page(sha256=research.index.sha256, limit=1))
        if not rows:
            return where, "no table with this hash was loaded here"
        return (
            None if load(rows[0].content) == research.index else (where, "its months are not those of the loaded file")
        )

    async def _bank_problems(self, research: Research) -> list[tuple[str, str]]:
        """Whether the prices that the index made in the price bank follow from the tables that were loaded."""
        found: list[tuple[str, str]] = []
        for number, source in enumerate(research.sources, start=1):
            if source.kind is not SourceKind.BANK or TABLE not in source.detail:
                continue
            rows = await self.app.fetch(indices.page(sha256=source.detail[TABLE], limit=1))
            wrong = (
                wrong_calculation(source.price, source.detail, load(rows[0].content))
                if rows
                else ["its price was corrected by a table, and none with this hash was loaded here"]
            )
            found += [(f"item {research.number}, source {number}", each) for each in wrong]
        return found

    # — from rows to a document —

    async def _document(self, quote_id: int | None, batch_id: int | None, *, conn: object, draft: bool) -> Document:
        async with self._within(conn) as connection:
            if quote_id is not None:
                found = [await self.library.quote(quote_id, conn=connection)]
            else:
                assert batch_id is not None
                await self.library.batch(batch_id, conn=connection)
                found = await researches.of_batch(connection, batch_id)
            if not draft:
                await researches.hold(connection, found)
            told = await researches.researches(connection, found)
        title = researches.title_of(quote_id, batch_id, draft=draft)
        return await asyncio.to_thread(report.document, title, datetime.now(UTC), *told)

    async def valuation(self, quote_id: int) -> Report | None:
        """What the report says of the value of an asset: price, factors and value; None where no value was asked for,
        or no price counts.
        """
        quote = await self.library.quote(quote_id)
        if quote.condition is None or not quote.status.ended:
            return None
        (told,) = (await self.document(quote_id=quote_id)).reports
        return told if told.result is not None else None


def of_row(closed: ClosedReport) -> Document:
    """The document of a closed report."""
    return from_json(orjson.dumps(closed.content))

"""Reports of quotes and of batches: what follows from the rows and their evidence, closed once, verified any time."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any, Literal

import orjson

from retoma.app.retoma import Retoma
from retoma.errors import Conflict, NotFound
from retoma.model.ids import BatchId
from retoma.pipelines.quotes import indices, requests, reviews, sources
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.model import ClosedReport, Quote, Review, Source
from retoma.pipelines.quotes.ports import Evidence, Method, Refusal, SourceKind
from retoma.pipelines.quotes.pricing import report, report_pdf, report_xlsx
from retoma.pipelines.quotes.pricing.correction import IndexTable, load
from retoma.pipelines.quotes.pricing.report import (
    Asset,
    Decision,
    Document,
    Report,
    Research,
    fingerprint,
    from_json,
    to_json,
)
from retoma.pipelines.quotes.report_terms import ReportTerms, report_terms
from retoma.pipelines.quotes.stages import QuoteStatus
from retoma.providers import BlobStore

Kind = Literal["pdf", "xlsx", "json"]
MEDIA_TYPES: Mapping[str, str] = {
    "pdf": "application/pdf",
    "xlsx": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "json": "application/json",
}
_FOLDER = "quotes/reports"
_AT_ONCE = 500
_LISTED = {SourceKind.TABLE: Method.API_FIPE, SourceKind.OFFICIAL: Method.API_OFFICIAL,
           SourceKind.CONTRACT: Method.API_OFFICIAL, SourceKind.BANK: Method.PRICE_BANK}  # fmt: skip
_ACTIONS = {
    "accept": "Preços aceitos",
    "refuse": "Preços recusados",
    "add_source": "Fonte incluída",
    "drop_source": "Fonte excluída",
    "take_source": "Fonte reincluída",
}


class Reports:
    """What can be asked of reports, on an open app."""

    def __init__(self, app: Retoma) -> None:
        self.app = app
        self.library = Quotes(app)

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
            return await self._rendered(kind, told, pictures=quote_id is not None)
        kept = {"pdf": closed.pdf_blob, "xlsx": closed.xlsx_blob}.get(kind)
        content = await self.blob(kept) if kept else None
        return content or await self._rendered(kind, of_row(closed), pictures=closed.quote_id is not None)

    async def blob(self, name: str) -> bytes | None:
        """What is kept under *name*; None when it is not there."""
        blobs = self.app.registry.provider(BlobStore)
        try:
            async with blobs.open(name) as pieces:
                return b"".join([each async for each in pieces])
        except NotFound:
            return None

    # — closing —

    async def close(self, *, quote_id: int | None = None, batch_id: int | None = None, by: str) -> ClosedReport:
        """Close the report of a quote that is done, or of a batch whose every quote has ended: it stays as it is."""
        if quote_id is not None:
            await self.library.quote(quote_id)
        if batch_id is not None:
            await self.library.batch(batch_id)
        async with self.app.transaction() as connection:
            told = await self._document(quote_id, batch_id, conn=connection, draft=False)
            sha256 = fingerprint(told)
            names = {kind: f"{_FOLDER}/{sha256[:2]}/{sha256}.{kind}" for kind in ("pdf", "xlsx")}
            await self._keep(names["pdf"], await self._rendered("pdf", told, pictures=quote_id is not None))
            await self._keep(names["xlsx"], await self._rendered("xlsx", told, pictures=False))
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

    async def _rendered(self, kind: Kind, told: Document, *, pictures: bool) -> bytes:
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

    # — from rows to a document —

    async def _document(self, quote_id: int | None, batch_id: int | None, *, conn: object, draft: bool) -> Document:
        if quote_id is not None:
            found = [await self.library.quote(quote_id, conn=conn)]
            title = f"Pesquisa de preços {quote_id}"
        else:
            assert batch_id is not None
            title = f"Pesquisa de preços do lote {batch_id}"
            found = await self._of_batch(BatchId(batch_id), conn)
        if not draft:
            await self._may_close(found, conn)
        researches: list[Research] = []
        for start in range(0, len(found), _AT_ONCE):
            researches += await self._researches(found[start : start + _AT_ONCE], conn)
        told = f"{title} (minuta)" if draft else title
        return await asyncio.to_thread(report.document, told, datetime.now(UTC), *researches)

    async def _of_batch(self, id: BatchId, conn: object) -> list[Quote]:
        await self.library.batch(id, conn=conn)
        found: list[Quote] = []
        before: int | None = None
        while page := await self.app.fetch(requests.page(batch_id=id, before=before, limit=_AT_ONCE), conn=conn):
            found += page
            before = page[-1].id
        return sorted(found, key=lambda each: each.id)

    async def _may_close(self, found: Sequence[Quote], conn: object) -> None:
        for each in found:
            await self.app.fetch(requests.hold(each.id), conn=conn)  # nobody decides about it meanwhile
            if not each.status.ended or each.status is QuoteStatus.AWAITING_REVIEW:
                raise Conflict(
                    f"Quote {each.id} is {each.status}: its report cannot be closed.",
                    next="Wait until it has ended, and decide about it.",
                )

    async def _researches(self, found: Sequence[Quote], conn: object) -> list[Research]:
        tested: dict[int, list[Source]] = {each.id: [] for each in found}
        for each in await self.app.fetch(sources.page(list(tested)), conn=conn):
            tested[each.quote_id].append(each)
        terms: dict[int, dict[str, Any]] = {}
        researches = []
        for quote in found:
            if quote.config_version_id not in terms:
                versions = await self.library.versions(quote.project_id, conn=conn)
                terms |= {each.id: {**each.terms, "version": each.version} for each in versions}
            decided = await self.app.fetch(reviews.page(quote.id), conn=conn)
            told = terms[quote.config_version_id]
            asked = report_terms(told.get("report") or {})
            table = asked.table or await self._table(asked.index, conn)
            researches.append(_research(quote, tested[quote.id], decided, told, asked, table))
        return researches

    async def _table(self, index: str | None, conn: object) -> IndexTable | None:
        """The newest table of *index* that was loaded."""
        if index is None:
            return None
        rows = await self.app.fetch(indices.page(index=index, limit=1), conn=conn)
        return load(rows[0].content) if rows else None

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


def _research(
    quote: Quote,
    tested: Sequence[Source],
    decided: Sequence[Review],
    terms: Mapping[str, Any],
    told: ReportTerms,
    table: IndexTable | None,
) -> Research:
    version = f"{quote.config_version_id} (versão {terms['version']})"
    return Research(
        number=str(quote.id),
        object=quote.input_text or f"{quote.search_query_final or 'Item'} (identificado pela fotografia)",
        researcher=quote.pesquisador or quote.created_by,
        researched_at=quote.completed_at or quote.created_at,
        sources=tuple(_source(each) for each in tested),
        rules=told.rules,
        max_days={**report.usual_days(), **told.max_days},
        index=table,
        index_wanted=told.index,
        code=quote.codigo_item,
        unit=quote.unit or "un",
        quantity=quote.quantity or Decimal(1),
        place=quote.local,
        query=quote.search_query_final,
        configuration=version,
        asset=_asset(quote, told, version),
        picture=next(iter(shown := _pictures(quote)), None),
        more_pictures=tuple(shown[1:]),
        legal_basis=told.legal_basis,
        justification=told.justification,
        approved_by=told.approved_by,
        suppliers_chosen_because=told.suppliers_chosen_because,
        decisions=tuple(
            Decision(at=each.created_at, by=each.by, what=_ACTIONS[each.action], reason=each.reason) for each in decided
        ),
    )


def _asset(quote: Quote, told: ReportTerms, version: str) -> Asset | None:
    if (given := quote.condition) is None:
        return None
    return Asset(
        factors=told.factors.of_version(version) if told.factors else None,
        conservation=given.conservation,
        years_used=given.years_used,
        years_left=given.years_left,
        book_value=given.book_value,
    )


def _pictures(quote: Quote) -> list[Evidence]:
    return [
        Evidence(
            url=f"item:{quote.id}", sha256=image.sha256, blob=image.blob, captured_at=quote.created_at, kind=image.kind
        )
        for image in quote.images
    ]


def _source(each: Source) -> report.Source:
    kind = SourceKind(each.kind)
    refused = Refusal(each.failure_reason) if each.failure_reason else None
    if refused is None and not each.is_accepted:
        refused = Refusal.OUTSIDE_BLOCK
    return report.Source(
        key=each.key,
        title=each.title,
        provider=each.provider,
        kind=kind,
        method=Method(each.extraction_method or _LISTED.get(kind, Method.GOOGLE_SHOPPING)),
        # What was refused unseen shows what the list said.
        price=each.price_value if each.price_value is not None else each.listed_price,
        currency=each.currency,
        url=each.url,
        domain=each.domain,
        seller=each.seller,
        dated=each.dated or (None if each.evidence_blob else each.tested_at),
        refused=refused,
        reason=each.failure_message or "",
        by=each.added_by,
        evidence=_evidence(each),
        detail={name: str(value) for name, value in (each.detail or {}).items()},
    )


def _evidence(each: Source) -> Evidence | None:
    if each.evidence_blob is None or each.evidence_sha256 is None or each.captured_at is None:
        return None
    return Evidence(
        url=each.url or f"{each.provider}:",
        sha256=each.evidence_sha256,
        blob=each.evidence_blob,
        captured_at=each.captured_at,
        kind=each.evidence_kind or "text/html",
        screenshot=each.screenshot_file_id,
        screenshot_sha256=each.screenshot_sha256,
        without_screenshot=each.without_screenshot,
    )

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
from retoma.pipelines.quotes import requests, reviews, sources
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.model import ClosedReport, Quote, Review, Source
from retoma.pipelines.quotes.ports import Evidence, Method, Refusal, SourceKind
from retoma.pipelines.quotes.pricing import report, report_pdf, report_xlsx
from retoma.pipelines.quotes.pricing.report import Decision, Document, Research, fingerprint, from_json, to_json
from retoma.pipelines.quotes.report_terms import report_terms
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
        sha256 = fingerprint(verify.read(content))
        if not problems and not await self.app.fetch(reviews.closed(sha256=sha256)):
            problems.append(("report", "no report with these figures was closed here"))
        return problems

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
            researches.append(_research(quote, tested[quote.id], decided, terms[quote.config_version_id]))
        return researches


def of_row(closed: ClosedReport) -> Document:
    """The document of a closed report."""
    return from_json(orjson.dumps(closed.content))


def _research(quote: Quote, tested: Sequence[Source], decided: Sequence[Review], terms: Mapping[str, Any]) -> Research:
    told = report_terms(terms.get("report") or {})
    return Research(
        number=str(quote.id),
        object=quote.input_text,
        researcher=quote.pesquisador or quote.created_by,
        researched_at=quote.completed_at or quote.created_at,
        sources=tuple(_source(each) for each in tested),
        rules=told.rules,
        max_days={**report.usual_days(), **told.max_days},
        index=told.index,
        code=quote.codigo_item,
        unit=quote.unit or "un",
        quantity=quote.quantity or Decimal(1),
        place=quote.local,
        query=quote.search_query_final,
        configuration=f"{quote.config_version_id} (versão {terms['version']})",
        legal_basis=told.legal_basis,
        justification=told.justification,
        approved_by=told.approved_by,
        suppliers_chosen_because=told.suppliers_chosen_because,
        decisions=tuple(
            Decision(at=each.created_at, by=each.by, what=_ACTIONS[each.action], reason=each.reason) for each in decided
        ),
    )


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

"""What a report is made of, read from the rows of its quotes in one transaction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any

from retoma.app.fetch import fetch
from retoma.errors import Conflict
from retoma.pipelines.quotes import indices, projects, requests, reviews, sources
from retoma.pipelines.quotes.model import Quote, Review, Source
from retoma.pipelines.quotes.ports import Evidence, Method, Refusal, SourceKind
from retoma.pipelines.quotes.pricing import report
from retoma.pipelines.quotes.pricing.correction import IndexTable, load
from retoma.pipelines.quotes.pricing.report import Asset, Decision, Research
from retoma.pipelines.quotes.progress import Connection
from retoma.pipelines.quotes.report_terms import ReportTerms, report_terms
from retoma.pipelines.quotes.stages import QuoteStatus

AT_ONCE = 500
FOLDER = "quotes/reports"
"""Where reports are kept."""
_LISTED = {SourceKind.TABLE: Method.API_FIPE, SourceKind.OFFICIAL: Method.API_OFFICIAL,
           SourceKind.CONTRACT: Method.API_OFFICIAL, SourceKind.BANK: Method.PRICE_BANK}  # fmt: skip
_ACTIONS = {
    "accept": "Preços aceitos",
    "refuse": "Preços recusados",
    "add_source": "Fonte incluída",
    "drop_source": "Fonte excluída",
    "take_source": "Fonte reincluída",
}


def title_of(quote_id: int | None, batch_id: int | None, *, draft: bool) -> str:
    """What a report is called; a draft says that it is one."""
    title = f"Pesquisa de preços do lote {batch_id}" if quote_id is None else f"Pesquisa de preços {quote_id}"
    return f"{title} (minuta)" if draft else title


async def of_batch(connection: Connection, batch_id: int) -> list[Quote]:
    """Every quote of a batch, in the order of its list."""
    found: list[Quote] = []
    before: int | None = None
    while page := await fetch(connection, requests.page(batch_id=batch_id, before=before, limit=AT_ONCE)):
        found += page
        before = page[-1].id
    return sorted(found, key=lambda each: each.id)


async def hold(connection: Connection, found: Sequence[Quote]) -> None:
    """Nobody decides about these quotes until the transaction ends; refused where one may still change."""
    ids = [each.id for each in found]
    for start in range(0, len(ids), AT_ONCE):
        await fetch(connection, requests.hold_many(ids[start : start + AT_ONCE]))
    for each in found:
        if not each.status.ended or each.status is QuoteStatus.AWAITING_REVIEW:
            raise Conflict(
                f"Quote {each.id} is {each.status}: its report cannot be closed.",
                next="Wait until it has ended, and decide about it.",
            )


async def researches(connection: Connection, found: Sequence[Quote]) -> list[Research]:
    """What was found for each quote, with the terms that it was made with."""
    made: list[Research] = []
    for start in range(0, len(found), AT_ONCE):
        made += await _researches(connection, found[start : start + AT_ONCE])
    return made


async def _researches(connection: Connection, found: Sequence[Quote]) -> list[Research]:
    ids = [each.id for each in found]
    tested: dict[int, list[Source]] = {id: [] for id in ids}
    for each in await fetch(connection, sources.page(ids)):
        tested[each.quote_id].append(each)
    decided: dict[int, list[Review]] = {id: [] for id in ids}
    for decision in await fetch(connection, reviews.of_many(ids)):
        decided[decision.quote_id].append(decision)
    terms: dict[int, dict[str, Any]] = {}
    tables: dict[str | None, IndexTable | None] = {None: None}
    made = []
    for quote in found:
        if quote.config_version_id not in terms:
            versions = await fetch(connection, projects.versions(quote.project_id))
            terms |= {each.id: {**each.terms, "version": each.version} for each in versions}
        told = terms[quote.config_version_id]
        asked = report_terms(told.get("report") or {})
        if asked.index not in tables:
            rows = await fetch(connection, indices.page(index=asked.index, limit=1))
            tables[asked.index] = load(rows[0].content) if rows else None
        table = asked.table or tables[asked.index]
        made.append(_research(quote, tested[quote.id], decided[quote.id], told, asked, table))
    return made


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

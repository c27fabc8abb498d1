"""One quote: understood, searched for, its prices read, its value found. Every stage is a recorded step.

A later attempt is given what earlier ones have paid for, and goes on at the next product.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

from pydantic import TypeAdapter

from retoma.model.endings import Reject
from retoma.model.retry import Retry
from retoma.pipelines.quotes import progress, upkeep, vehicles
from retoma.pipelines.quotes.analysis import understood
from retoma.pipelines.quotes.bank_pipeline import update_bank_vehicle
from retoma.pipelines.quotes.choosing import worth_testing
from retoma.pipelines.quotes.extraction import Extraction
from retoma.pipelines.quotes.figures import figures_of
from retoma.pipelines.quotes.model import Terms
from retoma.pipelines.quotes.ports import Analysis, Market, Offer, SourceKind
from retoma.pipelines.quotes.progress import Working, as_json
from retoma.pipelines.quotes.report_pipeline import make_quote_report
from retoma.pipelines.quotes.retake_pipeline import retake_quote_screenshot
from retoma.pipelines.quotes.sources import Tested
from retoma.pipelines.quotes.stages import QUEUE, STEPS, ProcessingCheckpoint, QuoteStatus
from retoma.providers import BlobStore, Chat, Offers
from retoma.run.pipeline import Pipeline, pipeline
from retoma.run.run import Run

_SEARCH_SECONDS = 60.0
# Made once: to make one costs more than all that a quote does with it.
_TERMS, _ANALYSIS, _OFFERS = TypeAdapter(Terms), TypeAdapter(Analysis), TypeAdapter(list[Offer])
_MOST_LISTED = 100


@dataclass(frozen=True, slots=True, kw_only=True)
class Ordered:
    """The item, for whoever looks at the job; all else is in the row of its quote."""

    text: str
    code: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Outcome:
    """What a job gives back."""

    quote_id: int
    status: QuoteStatus
    valor_medio: Decimal | None = None


# An attempt ends before a quote would be called stuck, and the next goes on where it was.
@pipeline(
    "process-quote",
    internal=True,
    queue=QUEUE,
    retry=Retry(attempts=5, wait=5.0, factor=2.0),
    timeout=480.0,
    stall_seconds=600.0,
)
async def process_quote_request(
    _: Ordered,
    run: Run,
    *,
    market: Market | None = None,
    chat: Chat | None = None,
    blobs: BlobStore | None = None,
) -> Outcome:
    """Find the value of one item, once."""
    if market is None:
        raise Reject("market_missing: this worker has no sources of prices. Pass providers={Market: …} to Retoma.")
    await run.transact(f"begin/{progress.fence_of(run)}", progress.begin, run.job)
    wanted = await run.transact("INIT", progress.init, run.job, STEPS["initializing"])
    quote = Working(run, wanted, _TERMS.validate_python(wanted.terms))
    looking = "analyzing_text" if wanted.input_blob is None else "analyzing_image"
    await quote.reach(ProcessingCheckpoint.AI_ANALYSIS_START, looking)
    analysis = await understood(quote, market.understanding, chat, blobs)
    await quote.reach(
        ProcessingCheckpoint.AI_ANALYSIS_DONE,
        "analysis_complete",
        analysis=as_json(_ANALYSIS.dump_python(analysis, mode="json")),
        query=analysis.query_principal or analysis.nome_canonico,
    )
    if analysis.is_vehicle:
        price = await vehicles.priced(quote, market, analysis)
        if price is not None:
            return await _finish(quote, [price.found], enough=price.review is None, why=price.review)
        analysis = _as_goods(analysis)
    extraction = Extraction(quote, market, *await _searched(quote, market, analysis))
    await quote.reach(ProcessingCheckpoint.PRICE_EXTRACTION_START, "extracting_prices")
    await extraction.run()
    await quote.reach(
        ProcessingCheckpoint.PRICE_EXTRACTION_DONE,
        "calculating_stats",
        details=as_json(extraction.counters()),
        resume_data=as_json(extraction.resume_data()),
    )
    chosen = [each for each in extraction.tested if each.key in extraction.search.chosen]
    return await _finish(quote, chosen, enough=extraction.search.enough)


async def _searched(
    quote: Working, market: Market, analysis: Analysis
) -> tuple[list[Offer], dict[str, tuple[str, Offers]]]:
    """What every source lists, the official ones first; what a list alone refutes is written down with its reason."""
    await quote.reach(ProcessingCheckpoint.SHOPPING_SEARCH_START, "preparing_search")
    await quote.note("searching_products", query=analysis.query_principal)
    listed: list[Offer] = []
    answers: dict[str, tuple[str, Offers]] = {}
    for source in market.sources:
        query = None if source.kind is SourceKind.TABLE else source.query_for(analysis)
        if query is None:
            continue
        found = await quote.run.search(
            f"search/{source.provider}", source, query, limit=_MOST_LISTED, timeout=_SEARCH_SECONDS, reuse=False
        )
        answers[source.provider] = (query, found)
        listed += source.read(found)
    good, refused = worth_testing(listed, analysis, quote.terms)
    await quote.tested(
        str(ProcessingCheckpoint.SHOPPING_SEARCH_DONE),
        refused,
        checkpoint=str(ProcessingCheckpoint.SHOPPING_SEARCH_DONE),
        step="searching_products",
        percentage=STEPS["searching_products"],
        query=analysis.query_principal,
        details=as_json({"listed": len(listed), "refused": len(refused), "products": len(good)}),
        shopping=as_json(_response(answers, good, refused)),
    )
    return good, answers


def _response(answers: dict[str, tuple[str, Offers]], good: list[Offer], refused: list[Tested]) -> dict[str, Any]:
    """What was found, with all that is needed to go on; the answers as they came stay with their calls."""
    return {
        "queries": {provider: query for provider, (query, _) in answers.items()},
        "products": _OFFERS.dump_python(good, mode="json"),
        "statistics": {"products": len(good), "refused": len(refused)},
    }


def _as_goods(analysis: Analysis) -> Analysis:
    """A vehicle that no table knows, as any other thing."""
    query = analysis.fallback_google_shopping or analysis.query_principal or analysis.nome_canonico
    return replace(analysis, tipo_processamento="GOOGLE_SHOPPING", query_principal=query)


async def _finish(quote: Working, chosen: list[Tested], *, enough: bool, why: str | None = None) -> Outcome:
    prices = [each.price for each in chosen if each.price is not None]
    figures = figures_of(prices)
    await quote.reach(ProcessingCheckpoint.FINALIZATION, "finalizing")
    if not prices:
        none = "no_prices: no product had a price that counts; each is listed with its reason."
        await quote.finish(QuoteStatus.ERROR, figures, [], error=none)
        raise Reject(none)
    status = QuoteStatus.DONE if enough else QuoteStatus.AWAITING_REVIEW
    wanted = quote.terms.quotes_wanted
    short = None if enough else why or f"too_few_prices: {len(prices)} of {wanted} prices were found. A person decides."
    await quote.finish(status, figures, [each.key for each in chosen], error=short)
    return Outcome(quote_id=quote.id, status=status, valor_medio=figures.mean)


PIPELINES: tuple[Pipeline[Any, Any], ...] = (
    process_quote_request,
    update_bank_vehicle,
    make_quote_report,
    retake_quote_screenshot,
    upkeep.recover_stuck_quotes,
    upkeep.cleanup_old_processing,
)

"""How quotes read on their pages: the funnel of a batch, the stages of a quote, what went wrong."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from decimal import Decimal
from typing import Literal

from retoma.model.job import Checkpoint
from retoma.pipelines.quotes.model import BatchStanding, Cost, Quote, StuckQuote
from retoma.pipelines.quotes.stages import ProcessingCheckpoint, QuoteStatus

_ORDER = {str(each): place for place, each in enumerate(ProcessingCheckpoint)}
_RUNGS = (
    ("received", ProcessingCheckpoint.INIT),
    ("understood", ProcessingCheckpoint.AI_ANALYSIS_DONE),
    ("searched", ProcessingCheckpoint.FIPE_SEARCH),
    ("reading", ProcessingCheckpoint.PRICE_EXTRACTION_START),
    ("valued", ProcessingCheckpoint.FINALIZATION),
    ("ended", ProcessingCheckpoint.COMPLETED),
)
_FIPE = frozenset({ProcessingCheckpoint.FIPE_SEARCH})
_SHOPPING = frozenset(
    {
        ProcessingCheckpoint.SHOPPING_SEARCH_START,
        ProcessingCheckpoint.SHOPPING_SEARCH_DONE,
        ProcessingCheckpoint.PRICE_EXTRACTION_START,
        ProcessingCheckpoint.PRICE_EXTRACTION_PROGRESS,
        ProcessingCheckpoint.PRICE_EXTRACTION_DONE,
    }
)


@dataclass(frozen=True, slots=True)
class Rung:
    """A step of the funnel: how many quotes came so far, and how many stand there now."""

    name: str
    reached: int
    here: int


def funnel_of(standing: BatchStanding) -> list[Rung]:
    """How many quotes of a batch reached each part of the work."""
    places = [_ORDER[each] for _, each in _RUNGS]
    at = {_ORDER.get(name, 0): count for name, count in standing.checkpoint_distribution.items()}
    rungs = []
    for (name, _), start, end in zip(_RUNGS, places, [*places[1:], len(_ORDER)], strict=True):
        reached = sum(count for place, count in at.items() if place >= start)
        rungs.append(Rung(name, reached, sum(count for place, count in at.items() if start <= place < end)))
    return rungs


@dataclass(frozen=True, slots=True)
class Moment:
    """A stage in the life of a quote, and when it was reached."""

    stage: str
    state: Literal["done", "now", "failed", "waiting"]
    at: datetime | None


def timeline_of(quote: Quote, steps: Iterable[Checkpoint]) -> list[Moment]:
    """The stages of a quote, in their order; those of the way that it did not take are left out."""
    saved = {each.step: each.saved_at for each in steps if each.set_aside_at is None}
    reached = _ORDER.get(quote.processing_checkpoint or "", -1)
    taken = {stage for stage in ProcessingCheckpoint if str(stage) in saved}
    passing = {ProcessingCheckpoint.PRICE_EXTRACTION_PROGRESS} - {quote.processing_checkpoint}
    skipped = (_left_out(quote, taken) | passing) - taken
    moments = []
    for stage in ProcessingCheckpoint:
        if stage in skipped:
            continue
        place = _ORDER[stage]
        state: Literal["done", "now", "failed", "waiting"] = "done" if place <= reached else "waiting"
        if place == reached and quote.status is QuoteStatus.PROCESSING:
            state = "now"
        if place == reached and quote.status in (QuoteStatus.ERROR, QuoteStatus.CANCELLED):
            state = "failed"
        moments.append(Moment(str(stage), state, saved.get(str(stage))))
    return moments


def _left_out(quote: Quote, taken: set[ProcessingCheckpoint]) -> frozenset[ProcessingCheckpoint]:
    by_table = (quote.claude_payload_json or {}).get("tipo_processamento") == "FIPE"
    if not by_table:
        return _FIPE
    # A vehicle that no table knows is searched for in shops after all.
    return frozenset() if taken & _SHOPPING else _SHOPPING


def code_of(message: str | None) -> str:
    """The word that a message begins with, which never changes."""
    word, colon, _ = (message or "").partition(":")
    return word if colon and word.replace("_", "").isalpha() and word.islower() else ""


def told_of(message: str | None) -> str:
    """What a message says after that word."""
    return (message or "").partition(":")[2].strip() if code_of(message) else (message or "")


def without_words(quote: Quote) -> Quote:
    """How *quote* stands, for who may not see what it says: of what went wrong only the word that never changes."""
    code = quote.error_message and f"{code_of(quote.error_message) or 'other'}:"
    return replace(quote, input_text="", local=None, pesquisador=None, search_query_final=None, error_message=code)


def named(quotes: Iterable[Quote], *, reads: bool) -> list[Quote]:
    """*quotes* as a caller sees them who *reads* what items say, or does not."""
    return [each if reads else without_words(each) for each in quotes]


def stuck_named(stuck: Iterable[StuckQuote], *, reads: bool) -> list[StuckQuote]:
    """The same of those that are stuck."""
    return [each if reads else replace(each, input_text="") for each in stuck]


def openable(url: str | None) -> bool:
    """Whether a page may link to *url*: shops and people told it, and a link could also be a program."""
    return url is not None and url.startswith(("http://", "https://"))


@dataclass(frozen=True, slots=True)
class Bill:
    """What was paid to each provider, and in all; reais are None where nobody has said what a dollar is."""

    costs: list[Cost]
    calls: int
    dollars: Decimal
    in_doubt: Decimal
    reais: Decimal | None


def bill_of(costs: list[Cost]) -> Bill:
    """The costs with their sums."""
    told = [each.reais for each in costs if each.reais is not None]
    return Bill(
        costs,
        sum(each.calls for each in costs),
        sum((each.dollars for each in costs), Decimal(0)),
        sum((each.in_doubt for each in costs), Decimal(0)),
        sum(told, Decimal(0)) if told else None,
    )


def shares_of(statuses: Mapping[str, int]) -> list[tuple[str, int]]:
    """How many quotes stand how, in the order in which people ask."""
    return [(str(each), statuses.get(each, 0)) for each in QuoteStatus]

"""The stages of a quote, in their order, and what a screen says at each."""

from __future__ import annotations

from enum import StrEnum


class ProcessingCheckpoint(StrEnum):
    """How far a quote has come. Each is the name of a recorded step."""

    INIT = "INIT"
    AI_ANALYSIS_START = "AI_ANALYSIS_START"
    AI_ANALYSIS_DONE = "AI_ANALYSIS_DONE"
    FIPE_SEARCH = "FIPE_SEARCH"
    SHOPPING_SEARCH_START = "SHOPPING_SEARCH_START"
    SHOPPING_SEARCH_DONE = "SHOPPING_SEARCH_DONE"
    PRICE_EXTRACTION_START = "PRICE_EXTRACTION_START"
    PRICE_EXTRACTION_PROGRESS = "PRICE_EXTRACTION_PROGRESS"
    PRICE_EXTRACTION_DONE = "PRICE_EXTRACTION_DONE"
    FINALIZATION = "FINALIZATION"
    COMPLETED = "COMPLETED"


class QuoteStatus(StrEnum):
    """How a quote stands."""

    PENDING = "PENDING"
    """Nobody has begun it."""
    PROCESSING = "PROCESSING"
    DONE = "DONE"
    AWAITING_REVIEW = "AWAITING_REVIEW"
    """There are prices, and too few: a person decides."""
    ERROR = "ERROR"
    CANCELLED = "CANCELLED"

    @property
    def ended(self) -> bool:
        return self not in (QuoteStatus.PENDING, QuoteStatus.PROCESSING)


class InputType(StrEnum):
    """How an item was told."""

    TEXT = "TEXT"
    IMAGE = "IMAGE"
    TEXT_BATCH = "TEXT_BATCH"
    IMAGE_BATCH = "IMAGE_BATCH"
    FILE_BATCH = "FILE_BATCH"


STEPS: dict[str, int] = {
    "initializing": 5,
    "analyzing_text": 10,
    "analyzing_image": 10,
    "analysis_complete": 30,
    "preparing_search": 40,
    "checking_price_bank": 45,
    "searching_fipe": 50,
    "searching_products": 50,
    "using_cached_price": 60,
    "extracting_prices": 60,
    "processing_fipe_result": 70,
    "calculating_stats": 80,
    "finalizing": 95,
    "completed": 100,
    "awaiting_review": 100,
}
"""The words of each step, and how much of the work is done by then, in percent."""

QUEUE = "quotes"
"""Where the work on quotes waits."""
STUCK_MINUTES = 10
"""A quote in processing that has shown no sign of life for so long is stuck."""
OLD_HOURS = 24
"""A quote that was begun so long ago and has not ended is given up."""


def extracting(tested: int, products: int) -> int:
    """How much is done while prices are read: between the beginning of that stage and the next."""
    start, end = STEPS["extracting_prices"], STEPS["calculating_stats"]
    return min(start + (end - start) * tested // max(products, 1), end - 1)

"""Quotes on the wire, in the fields that their users know, letter by letter."""

from __future__ import annotations

from retoma.pipelines.quotes.model import BatchStanding, Stats, StuckQuote
from retoma.web.api.schemas.requests import Flag, Wanted
from retoma.web.api.schemas.responses import Schema, Time


class QuotesHealth(Schema):
    """Whether quotes can be asked for here."""

    status: str


class ProcessingStats(Schema):
    """The four figures of the desk, of one moment."""

    total_processing: int
    stuck_count: int
    by_checkpoint: dict[str, int]
    avg_processing_time_seconds: float | None

    @classmethod
    def seen(cls, stats: Stats) -> ProcessingStats:
        mean = stats.avg_processing_time_seconds
        return cls(
            total_processing=stats.total_processing,
            stuck_count=stats.stuck_count,
            by_checkpoint=stats.by_checkpoint,
            avg_processing_time_seconds=None if mean is None else round(float(mean), 2),
        )


class StuckShown(Schema):
    """A quote that nobody works on, though its row says so."""

    id: int
    created_at: Time
    checkpoint: str | None
    last_heartbeat: Time
    worker_id: str | None
    batch_job_id: int | None
    input_text: str | None

    @classmethod
    def seen(cls, each: StuckQuote, *, content: bool) -> StuckShown:
        return cls(
            id=each.id,
            created_at=each.created_at,
            checkpoint=each.checkpoint,
            last_heartbeat=each.last_heartbeat,
            worker_id=each.worker_id,
            batch_job_id=each.batch_job_id,
            input_text=each.input_text if content else None,
        )


class StuckQuotes(Schema):
    """What is stuck, the oldest first."""

    count: int
    quotes: list[StuckShown]


class Triggered(Schema):
    """What was done for all quotes at once."""

    message: str
    task_id: str
    count: int


class QuoteRecovered(Schema):
    """A quote that waits again."""

    message: str
    previous_checkpoint: str | None
    attempt_number: int


class ResumeChoice(Wanted):
    """Whether quotes that failed are tried again, too."""

    reset_errors: Flag = False


class BatchResumed(Schema):
    """A batch that goes on."""

    message: str
    task_id: str
    pending_quotes: int
    reset_error_quotes: int


class QuoteBatchState(Schema):
    """How a batch of quotes stands, every figure of one moment."""

    batch_id: int
    batch_status: str
    total_items: int
    completed_items: int
    failed_items: int
    status_distribution: dict[str, int]
    stuck_quotes: int
    checkpoint_distribution: dict[str, int]
    progress_percentage: float

    @classmethod
    def seen(cls, standing: BatchStanding) -> QuoteBatchState:
        return cls.of(standing)

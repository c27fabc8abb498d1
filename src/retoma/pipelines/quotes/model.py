"""The nouns of quotes: projects and their terms, quotes, sources, batches, reviews, closed reports."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Literal

import orjson

from retoma.model.ids import BatchId, JobId
from retoma.pipelines.quotes.conditions import Condition
from retoma.pipelines.quotes.images import KeptImage
from retoma.pipelines.quotes.pricing.valuation import Conservation
from retoma.pipelines.quotes.stages import QuoteStatus


@dataclass(frozen=True, slots=True, kw_only=True)
class Terms:
    """How the quotes of a project are made. A change makes a new version; each quote keeps its own."""

    quotes_wanted: int = 3
    max_spread_percent: int = 25
    spread_step: int = 5
    spread_ceiling: int = 100
    most_products: int = 150
    lowest_price: Decimal = Decimal(1)
    highest_price: Decimal = Decimal(10_000_000)
    check_listed_price: bool = True
    max_mismatch_percent: Decimal = Decimal(5)
    blocked_domains: list[str] = field(default_factory=list)
    vehicle_validity_months: int = 6
    use_price_bank: bool = True
    bank_update: Literal["MARKET", "IPCA", "MANUAL", "SKIP"] = "MARKET"
    """What becomes of a price of the bank that is too old: looked up again, corrected by the index, left to a person,
    or used as it is."""
    bank_tolerance_percent: Decimal = Decimal(30)
    """How far a price may be from the one in the bank; beyond that a person decides."""
    model: str | None = None
    """The language model that understands items; None is the provider's own, "local" is this machine."""
    researcher: str | None = None
    place: str | None = None
    reais_per_dollar: Decimal | None = None
    """What costs in dollars are told with; without it they are told in dollars alone."""
    report: dict[str, Any] = field(default_factory=dict)
    """What the report is made with: thresholds, index, weights of the factor."""


@dataclass(frozen=True, slots=True)
class Project:
    """A project, with the newest version of its terms."""

    id: int
    name: str
    config_version_id: int
    version: int
    terms: dict[str, Any]
    created_at: datetime
    changed_at: datetime
    changed_by: str

    def __post_init__(self) -> None:
        parse(self, "terms")


@dataclass(frozen=True, slots=True)
class Version:
    """The terms of a project as they were from one change to the next."""

    id: int
    version: int
    terms: dict[str, Any]
    created_at: datetime
    created_by: str

    def __post_init__(self) -> None:
        parse(self, "terms")


@dataclass(frozen=True, slots=True)
class Wanted:
    """What a job must find a price for."""

    quote_id: int
    input_type: str
    input_text: str
    input_blob: str | None
    input_sha256: str | None
    input_kind: str | None
    codigo_item: str | None
    unit: str | None
    quantity: Decimal | None
    terms: dict[str, Any]
    input_more: list[dict[str, str]] | None = None

    def __post_init__(self) -> None:
        parse(self, "terms")
        parse(self, "input_more")

    @property
    def images(self) -> list[KeptImage]:
        """The photographs of the item, in order."""
        return _images(self.input_blob, self.input_sha256, self.input_kind, self.input_more)


@dataclass(frozen=True, slots=True)
class Quote:
    """A quote as it stands, in the words of its users."""

    id: int
    job_id: JobId
    project_id: int
    config_version_id: int
    status: QuoteStatus
    input_type: str
    input_text: str
    input_blob: str | None
    input_sha256: str | None
    input_kind: str | None
    input_more: list[dict[str, str]] | None
    codigo_item: str | None
    local: str | None
    pesquisador: str | None
    unit: str | None
    quantity: Decimal | None
    conservation: str | None
    years_used: int | None
    years_left: int | None
    book_value: Decimal | None
    claude_payload_json: dict[str, Any] | None
    search_query_final: str | None
    google_shopping_response_json: dict[str, Any] | None
    shopping_response_saved_at: datetime | None
    valor_medio: Decimal | None
    valor_minimo: Decimal | None
    valor_maximo: Decimal | None
    variacao_percentual: Decimal | None
    error_message: str | None
    current_step: str | None
    progress_percentage: int
    step_details: dict[str, Any] | None
    attempt_number: int
    original_quote_id: int | None
    requote_number: int
    batch_job_id: BatchId | None
    batch_index: int | None
    processing_checkpoint: str | None
    last_heartbeat: datetime | None
    worker_id: str | None
    resume_data: dict[str, Any] | None
    started_at: datetime | None
    completed_at: datetime | None
    created_at: datetime
    created_by: str
    job_state: str | None
    alive: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "status", QuoteStatus(self.status))
        for name in (
            "claude_payload_json",
            "google_shopping_response_json",
            "step_details",
            "resume_data",
            "input_more",
        ):
            parse(self, name)

    @property
    def images(self) -> list[KeptImage]:
        """The photographs of the item, in order."""
        return _images(self.input_blob, self.input_sha256, self.input_kind, self.input_more)

    @property
    def condition(self) -> Condition | None:
        """In what condition the asset is, where that was said."""
        if self.conservation is None or self.years_used is None or self.years_left is None:
            return None
        return Condition(
            conservation=Conservation(self.conservation),
            years_used=self.years_used,
            years_left=self.years_left,
            book_value=self.book_value,
        )

    @property
    def tested_products(self) -> list[dict[str, Any]]:
        """What was tested so far, in order."""
        return list((self.resume_data or {}).get("tested_products", ()))


@dataclass(frozen=True, slots=True)
class StuckQuote:
    """A quote that nobody works on, though its row says so."""

    id: int
    created_at: datetime
    checkpoint: str | None
    last_heartbeat: datetime
    worker_id: str | None
    batch_job_id: int | None
    input_text: str


@dataclass(frozen=True, slots=True)
class Stats:
    """The figures of the desk."""

    total_processing: int
    stuck_count: int
    by_checkpoint: dict[str, int]
    avg_processing_time_seconds: Decimal | None

    def __post_init__(self) -> None:
        parse(self, "by_checkpoint")


@dataclass(frozen=True, slots=True)
class Share:
    """How many quotes of a batch stand so, and came so far."""

    status: str
    checkpoint: str
    quotes: int
    stuck: int


@dataclass(frozen=True, slots=True)
class RecoveredQuote:
    """A quote that waits again."""

    id: int
    attempt_number: int
    previous_checkpoint: str | None


@dataclass(frozen=True, slots=True)
class Source:
    """A product that was tested: its price, its evidence, and whether it counts."""

    id: int
    quote_id: int
    key: str
    position: int
    kind: str
    provider: str
    title: str
    seller: str | None
    url: str | None
    domain: str | None
    page_title: str | None
    listed_price: Decimal | None
    price_value: Decimal | None
    currency: str
    dated: datetime | None
    extraction_method: str | None
    evidence_blob: str | None
    evidence_sha256: str | None
    evidence_kind: str | None
    screenshot_file_id: str | None
    screenshot_sha256: str | None
    without_screenshot: str | None
    captured_at: datetime | None
    is_valid: bool
    is_outlier: bool
    is_accepted: bool
    failure_reason: str | None
    failure_message: str | None
    detail: dict[str, Any] | None
    added_by: str | None
    tested_at: datetime

    def __post_init__(self) -> None:
        parse(self, "detail")


@dataclass(frozen=True, slots=True)
class QuoteBatch:
    """A list of items, as it was sent; *state* is that of the engine's batch."""

    id: BatchId
    project_id: int
    config_version_id: int
    input_type: str
    filename: str | None
    sha256: str | None
    columns: dict[str, str] | None
    created_by: str
    created_at: datetime
    name: str | None
    state: str | None
    reason: str | None
    rows: int
    problems: int

    def __post_init__(self) -> None:
        parse(self, "columns")


@dataclass(frozen=True, slots=True)
class BatchItem:
    """What became of a row of a list."""

    line: int
    quote_id: int | None
    problem: str | None
    message: str | None
    said: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStanding:
    """How a batch of quotes stands, in the words of the desk."""

    batch_id: int
    batch_status: str
    total_items: int
    completed_items: int
    failed_items: int
    status_distribution: dict[str, int]
    stuck_quotes: int
    checkpoint_distribution: dict[str, int]
    progress_percentage: float


@dataclass(frozen=True, slots=True, kw_only=True)
class ResumedBatch:
    """What a resume of a batch did."""

    batch_id: int
    pending_quotes: int
    reset_error_quotes: int
    changed: bool


@dataclass(frozen=True, slots=True)
class Review:
    """What a person decided, and why."""

    id: int
    quote_id: int
    source_id: int | None
    action: str
    reason: str
    by: str
    before: str
    after: str
    created_at: datetime


@dataclass(frozen=True, slots=True)
class ClosedReport:
    """A report that does not change any more."""

    id: int
    quote_id: int | None
    batch_id: int | None
    content: dict[str, Any] | None
    """None where nobody asked for it."""
    sha256: str
    pdf_blob: str | None
    xlsx_blob: str | None
    closed_by: str
    closed_at: datetime

    def __post_init__(self) -> None:
        parse(self, "content")


@dataclass(frozen=True, slots=True)
class LoadedIndex:
    """The table of a price index as it was loaded; a newer file is another one."""

    id: int
    index: str
    source: str
    dated: date
    first_month: str
    last_month: str
    content: str
    sha256: str
    loaded_by: str
    loaded_at: datetime


@dataclass(frozen=True, slots=True, kw_only=True)
class Cost:
    """What was paid to a provider; in reais where the terms say how many a dollar is."""

    provider: str
    calls: int
    dollars: Decimal
    in_doubt: Decimal
    reais: Decimal | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Figures:
    """What the accepted prices come to."""

    mean: Decimal | None = None
    lowest: Decimal | None = None
    highest: Decimal | None = None
    spread: Decimal | None = None


def _images(
    blob: str | None, sha256: str | None, kind: str | None, more: list[dict[str, str]] | None
) -> list[KeptImage]:
    if blob is None or sha256 is None or kind is None:
        return []
    others = [KeptImage(blob=each["blob"], sha256=each["sha256"], kind=each["kind"]) for each in more or ()]
    return [KeptImage(blob=blob, sha256=sha256, kind=kind), *others]


def parse(value: Any, name: str) -> None:
    """The field *name* of *value*, read where it is JSON as text."""
    if isinstance(text := getattr(value, name), str):
        object.__setattr__(value, name, orjson.loads(text))

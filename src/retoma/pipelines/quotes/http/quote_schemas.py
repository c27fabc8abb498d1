"""One quote on the wire: what is asked, and what is answered, in the fields that its users know."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import Field

from retoma.model.call import Call
from retoma.pipelines.quotes.conditions import MOST_YEARS, PARTS, Condition, condition_of
from retoma.pipelines.quotes.http.forms import FORM, JSON
from retoma.pipelines.quotes.lists import LONGEST_CODE, LONGEST_TEXT
from retoma.pipelines.quotes.model import Quote, Source
from retoma.pipelines.quotes.pricing.report import Report
from retoma.pipelines.quotes.stages import QuoteStatus
from retoma.web.api.schemas import requests as asked
from retoma.web.api.schemas.responses import Opened, Schema, Time

_LONGEST_PLACE = 200
_ONCE = {
    "name": "Idempotency-Key",
    "in": "header",
    "description": "Repeated within a day with the same key and content, it is answered again and not done again.",
    "schema": {"type": "string", "minLength": 1, "maxLength": 255, "pattern": "^[\\x21-\\x7e]+$"},
    "example": "item-4711",
}

Place = Annotated[str, Field(max_length=_LONGEST_PLACE)]
Code = Annotated[str, Field(max_length=LONGEST_CODE)]
Years = Annotated[int, Field(ge=0, le=MOST_YEARS), asked.WHOLE]
BookValue = Annotated[str, Field(pattern=r"^\d{1,12}(\.\d{1,2})?$")]
PageNumber = Annotated[int, Field(ge=1, le=500), asked.WHOLE]
PageSize = Annotated[int, Field(ge=1, le=200), asked.WHOLE]


def body_of(shape: type[asked.Wanted], told: str, **files: str) -> dict[str, Any]:
    """How the reference shows a body that is a form or JSON; *files* are the fields of the form that bring one. Every
    field of a form is text, so no type is told that something else could be taken for.
    """
    exact = shape.model_json_schema()
    exact.pop("title", None)
    fields = {name: {"description": each["description"]} for name, each in exact["properties"].items()}
    brought = {name: {"type": "string", "format": "binary", "description": what} for name, what in files.items()}
    said = exact.get("required", [])
    form: dict[str, Any] = {"type": "object", "properties": {**brought, **fields}}
    form["anyOf"] = [{"required": [each]} for each in (*files, *said)]
    content: dict[str, Any] = {FORM: {"schema": form}}
    if said:  # it can be asked without a file
        content[JSON] = {"schema": exact}
    return {
        "requestBody": {"required": True, "description": told, "content": content},
        "parameters": [_ONCE],
    }


# — questions —


class QuoteOrder(asked.Wanted):
    """An item whose price is wanted."""

    input_text: Annotated[
        str,
        Field(alias="inputText", description="What the item is.", max_length=LONGEST_TEXT, pattern=r"\S"),
    ]
    codigo: Annotated[Code | None, Field(description="Its code in your own register.")] = None
    local: Annotated[Place | None, Field(description="Where it stands.")] = None
    pesquisador: Annotated[Place | None, Field(description="Who researches the price.")] = None
    project_id: Annotated[asked.Id | None, Field(description="The project whose terms are used.")] = None
    conservation: Annotated[
        Literal["BOM", "REGULAR", "RUIM"] | None,
        Field(description="In what state the asset is; with years_used and years_left, its value is told."),
    ] = None
    years_used: Annotated[Years | None, Field(description="How many years it was used.")] = None
    years_left: Annotated[Years | None, Field(description="How many more years it can be used.")] = None
    book_value: Annotated[BookValue | None, Field(description="What it is worth in the books, in reais.")] = None

    def condition(self) -> Condition | None:
        """In what condition the asset is; a part that is missing is refused."""
        said = {part: getattr(self, part) for part in PARTS}
        return condition_of({part: str(value) for part, value in said.items() if value is not None})


class PhotographedOrder(QuoteOrder):
    """An item that is shown, and perhaps described as well."""

    input_text: Annotated[str, Field(alias="inputText", description="What the item is.", max_length=LONGEST_TEXT)] = ""


ORDER = body_of(
    QuoteOrder,
    "An item, as a form or as JSON; a form may show it.",
    images="A photograph of it: PNG, JPEG or WebP; up to five, of 20 MB together.",
)


class QuoteFilter(asked.Wanted):
    """Which quotes, and which page of them."""

    page: PageNumber = 1
    per_page: PageSize = 20
    cursor: asked.Text | None = None
    quote_id: asked.Id | None = None
    search: asked.Text | None = None
    status: QuoteStatus | None = None
    project_id: asked.Id | None = None
    date_from: asked.Day | None = None
    date_to: asked.Day | None = None

    def span(self) -> tuple[datetime | None, datetime | None]:
        """From the first moment of one day to the last of the other, in UTC."""
        since = None if self.date_from is None else datetime.combine(self.date_from, time(), UTC)
        if self.date_to is None or self.date_to == date.max:  # there is no day after that one, and nothing comes later
            return since, None
        return since, datetime.combine(self.date_to, time(), UTC) + timedelta(days=1)


class LogFilter(asked.Wanted):
    """Which requests to providers, and how many of them at a time."""

    cursor: asked.Text | None = None
    limit: Annotated[int, Field(ge=1, le=50), asked.WHOLE] = 20


# — answers —


class QuoteMade(Schema):
    """A quote that a worker will do."""

    quote_request_id: Annotated[int, Field(serialization_alias="quoteRequestId")]
    status: QuoteStatus
    status_url: str


class Requoted(QuoteMade):
    """The same item again; the quote that failed or was cancelled stays as it is."""

    original_quote_id: int
    requote_number: int
    attempt_number: int


class QuoteShown(Schema):
    """A quote as it stands."""

    content = ("input_text", "local", "pesquisador", "search_query_final", "error_message")

    id: int
    status: QuoteStatus
    input_type: Literal["TEXT", "IMAGE", "TEXT_BATCH", "IMAGE_BATCH", "FILE_BATCH"]
    project_id: int
    config_version_id: int
    codigo_item: str | None
    unit: str | None
    quantity: Decimal | None
    conservation: str | None
    years_used: int | None
    years_left: int | None
    book_value: Decimal | None
    valor_medio: Decimal | None
    valor_minimo: Decimal | None
    valor_maximo: Decimal | None
    variacao_percentual: Decimal | None
    current_step: str | None
    progress_percentage: int
    attempt_number: int
    original_quote_id: int | None
    requote_number: int
    batch_job_id: int | None
    batch_index: int | None
    processing_checkpoint: str | None
    last_heartbeat: Time | None
    worker_id: str | None
    started_at: Time | None
    completed_at: Time | None
    created_at: Time
    created_by: str
    job_id: int
    input_text: str | None = None
    local: str | None = None
    pesquisador: str | None = None
    search_query_final: str | None = None
    error_message: str | None = None


class QuotesShown(Schema):
    """A page of quotes, the newest first; *next* is the cursor of the page that follows."""

    quotes: list[QuoteShown]
    page: int
    per_page: int
    next: str | None


class SourceShown(Schema):
    """A price that was read and can count."""

    id: int
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
    extraction_method: str | None
    captured_at: Time | None
    evidence_sha256: str | None
    screenshot_file_id: int | None
    is_outlier: bool
    is_accepted: bool
    added_by: str | None

    @classmethod
    def seen(cls, each: Source) -> SourceShown:
        told = {name: getattr(each, name) for name in cls.model_fields}
        return cls.model_validate({**told, "screenshot_file_id": each.id if each.screenshot_file_id else None})


class SourceFailure(Schema):
    """A product that was tested and does not count, with its reason."""

    id: int
    url: str | None
    domain: str | None
    product_title: str
    google_price: Decimal | None
    extracted_price: Decimal | None
    failure_reason: str
    failure_message: str | None
    tested_at: Time

    @classmethod
    def seen(cls, each: Source) -> SourceFailure:
        return cls(
            id=each.id,
            url=each.url,
            domain=each.domain,
            product_title=each.title,
            google_price=each.listed_price,
            extracted_price=each.price_value,
            failure_reason=each.failure_reason or "",
            failure_message=each.failure_message,
            tested_at=each.tested_at,
        )


class ValuationShown(Schema):
    """What an asset is worth: market price × factor, and each part of the factor with its weight."""

    market_price: Decimal
    asset_value: Decimal
    factor: Decimal
    ec: Decimal
    ec_weight: Decimal
    pu: Decimal
    pu_weight: Decimal
    vuf: Decimal
    vuf_weight: Decimal
    configuration: str
    movement: Literal["REVALUATION", "IMPAIRMENT", "NONE"] | None
    difference: Decimal | None

    @classmethod
    def seen(cls, told: Report | None) -> ValuationShown | None:
        """As the report of the quote has it; None where it has none."""
        asset = told.research.asset if told else None
        if told is None or (found := told.valuation) is None or asset is None or asset.factors is None:
            return None
        weights = asset.factors.weights
        return cls(
            market_price=found.market,
            asset_value=found.value,
            factor=found.factor,
            ec=found.ec,
            ec_weight=weights["ec"],
            pu=found.pu,
            pu_weight=weights["pu"],
            vuf=found.vuf,
            vuf_weight=weights["vuf"],
            configuration=found.version,
            movement=found.movement,
            difference=found.difference,
        )


class QuoteWhole(QuoteShown):
    """A quote with all that was found: what a model said of it, what was searched, every product that was tested."""

    shopping_response_saved_at: Time | None
    claude_payload_json: dict[str, Any] | None = None
    google_shopping_response_json: dict[str, Any] | None = None
    step_details: dict[str, Any] | None = None
    resume_data: dict[str, Any] | None = None
    valuation: ValuationShown | None = None
    sources: list[SourceShown] | None = None
    failures: list[SourceFailure] | None = None

    @classmethod
    def seen(cls, quote: Quote, tested: Sequence[Source], *, content: bool, worth: Report | None = None) -> QuoteWhole:
        plain = QuoteShown.of(quote, content=content).model_dump(exclude_unset=True)
        plain["shopping_response_saved_at"] = quote.shopping_response_saved_at
        if not content:
            return cls.model_validate(plain)
        found = {
            "claude_payload_json": quote.claude_payload_json,
            "google_shopping_response_json": quote.google_shopping_response_json,
            "step_details": quote.step_details,
            "resume_data": quote.resume_data,
            "valuation": ValuationShown.seen(worth),
            "sources": [SourceShown.seen(each) for each in tested if each.is_valid],
            "failures": [SourceFailure.seen(each) for each in tested if not each.is_valid],
        }
        return cls.model_validate(plain | found)


class IntegrationLog(Schema):
    """One request to a provider that was made for a quote; *activity* is the step that made it."""

    id: int
    provider: str
    model: str
    activity: str | None
    kind: Literal["first", "again", "repair"]
    state: Literal["open", "answered", "failed", "doubtful"]
    status: int | None
    input_tokens: int
    output_tokens: int
    units: int
    cost: Decimal | None
    cost_basis: str | None
    reserved: Decimal
    asked_at: Time
    answered_at: Time | None
    request: Opened = None
    answer: str | None = None
    error: str | None = None

    @classmethod
    def seen(cls, call: Call, *, content: bool) -> IntegrationLog:
        names = cls.model_fields.keys() - {"activity", "request", "answer", "error"}
        told: dict[str, Any] = {name: getattr(call, name) for name in names}
        if content:
            told |= {"request": call.request or None, "answer": call.answer, "error": call.error}
        return cls.model_validate({**told, "activity": call.step})


class IntegrationLogs(Schema):
    """A page of requests to providers, the newest first; *next* is the cursor of the page that follows."""

    logs: list[IntegrationLog]
    next: str | None


class Screenshot(Schema):
    """The evidence of one price: where its picture is, or why there is none."""

    id: int
    url: str | None
    domain: str | None
    captured_at: Time | None
    evidence_sha256: str | None
    screenshot_sha256: str | None
    screenshot_url: str | None
    without_screenshot: str | None

    @classmethod
    def seen(cls, each: Source, place: str) -> Screenshot:
        told = {name: getattr(each, name) for name in cls.model_fields.keys() - {"screenshot_url"}}
        return cls.model_validate({**told, "screenshot_url": f"{place}/{each.id}" if each.screenshot_file_id else None})


class Screenshots(Schema):
    """The pictures of the pages on which prices were read, in the order in which they were tested."""

    screenshots: list[Screenshot]


class QuotePdf(Schema):
    """The report of a quote: where it is, and whether it is final."""

    quote_id: int
    closed: bool
    sha256: str | None
    pdf_url: str


class ScreenshotRetried(Schema):
    """A picture that a worker takes."""

    quote_id: int
    source_id: int
    job_id: int
    status_url: str
    screenshot_url: str

"""Lists of items on the wire: what is asked, and what is answered, in the fields that their users know."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from typing import Annotated, Literal

from pydantic import Field

from retoma.pipelines.quotes.http.quote_schemas import Place, QuoteFilter, body_of
from retoma.pipelines.quotes.lists import NAMES
from retoma.pipelines.quotes.model import BatchItem, BatchStanding, Cost, QuoteBatch
from retoma.pipelines.quotes.report_jobs import ReportJob
from retoma.web.api.schemas import requests as asked
from retoma.web.api.schemas.responses import Schema, Time

COLUMN = "coluna_"
BatchStatus = Literal["PENDING", "PROCESSING", "COMPLETED", "PARTIALLY_COMPLETED", "ERROR", "CANCELLED"]
BatchInput = Literal["TEXT_BATCH", "IMAGE_BATCH", "FILE_BATCH"]
Column = Annotated[str, Field(max_length=200)]

# — questions —


class ListOrder(asked.Wanted):
    """Whose terms a list is quoted with, and what it is called."""

    name: Annotated[Place | None, Field(description="What the batch is called; else as the file or the project.")] = (
        None
    )
    pesquisador: Annotated[Place | None, Field(description="Who researches the prices.")] = None
    project_id: Annotated[asked.Id | None, Field(description="The project whose terms are used.")] = None


class TextListOrder(ListOrder):
    """Items whose prices are wanted, in one text."""

    input_text: Annotated[
        str,
        Field(
            alias="inputText",
            description="The items, parted by semicolons or lines.",
            max_length=500_000,
            pattern=r"[^;\s]",
        ),
    ]


class ReportWanted(asked.Asked):
    """A report that a worker is to write."""

    close: bool = False


class TemplateWanted(asked.Wanted):
    """In which language a list is to be filled in; else as the Accept-Language says."""

    lang: Annotated[
        Literal["pt", "en"] | None, Field(description="The language of the columns; else as the Accept-Language says.")
    ] = None


class ImageGroups(asked.Wanted):
    """Which photographs show one item."""

    group: Literal["name"] | None = None


class FileListOrder(ListOrder):
    """What stands beside the file of a list: which of its columns is what, where their names do not say."""

    coluna_description: Annotated[Column | None, Field(description="The column of descriptions.")] = None
    coluna_code: Annotated[Column | None, Field(description="The column of codes.")] = None
    coluna_place: Annotated[Column | None, Field(description="The column of places.")] = None
    coluna_unit: Annotated[Column | None, Field(description="The column of units.")] = None
    coluna_quantity: Annotated[Column | None, Field(description="The column of quantities.")] = None
    coluna_conservation: Annotated[Column | None, Field(description="The column of states of conservation.")] = None
    coluna_years_used: Annotated[Column | None, Field(description="The column of years of use.")] = None
    coluna_years_left: Annotated[Column | None, Field(description="The column of remaining years.")] = None
    coluna_book_value: Annotated[Column | None, Field(description="The column of book values.")] = None

    def columns(self) -> dict[str, str] | None:
        """Which header is what, where somebody has said so."""
        chosen = {part: getattr(self, COLUMN + part, None) for part in NAMES}
        return {part: header for part, header in chosen.items() if header} or None


TEXT = body_of(TextListOrder, "Items in one text, as a form or as JSON.")
IMAGES = body_of(
    ListOrder, "Photographs, one for each item.", images="PNG, JPEG or WebP; up to 500, each of at most 5 MB."
)
FILE = body_of(
    FileListOrder, "A list, and how it is to be read.", file="CSV or XLSX, of at most 10 MB and 10,000 items."
)


class BatchQuoteFilter(asked.Wanted):
    """Which batches, and how many of them at a time."""

    project_id: asked.Id | None = None
    cursor: asked.Text | None = None
    limit: Annotated[int, Field(ge=1, le=50), asked.WHOLE] = 20


class QuotesOfBatchFilter(QuoteFilter):
    """Which quotes of a batch, and which page of them."""


# — answers —


class RowProblem(Schema):
    """A row of a list that is no quote, and why."""

    line: int
    problem: str
    message: str

    @classmethod
    def seen(cls, each: BatchItem) -> RowProblem:
        return cls(line=each.line, problem=each.problem or "", message=each.message or "")


class BatchMade(Schema):
    """A list whose items workers will quote; *new* is false when the same one was at work already."""

    id: int
    new: bool
    status: BatchStatus
    total_items: int
    problem_rows: int
    problems: list[RowProblem]
    status_url: str


class BatchQuote(Schema):
    """A batch of quotes as it stands, every figure of one moment."""

    content = ("filename", "columns")

    id: int
    status: BatchStatus
    input_type: BatchInput
    project_id: int
    config_version_id: int
    name: str | None
    total_items: int
    completed_items: int
    failed_items: int
    progress_percentage: float
    status_distribution: dict[str, int]
    checkpoint_distribution: dict[str, int]
    stuck_quotes: int
    problem_rows: int
    created_at: Time
    created_by: str
    filename: str | None = None
    columns: dict[str, str] | None = None

    @classmethod
    def seen(cls, batch: QuoteBatch, standing: BatchStanding, *, content: bool) -> BatchQuote:
        own = cls.model_fields.keys() - {"status", "problem_rows"} - set(() if content else cls.content)
        told = {name: getattr(batch if hasattr(batch, name) else standing, name) for name in own}
        return cls.model_validate({**told, "status": standing.batch_status, "problem_rows": batch.problems})


class BatchWhole(BatchQuote):
    """A batch of quotes with the rows of its list that were not taken, the first thousand of them."""

    problems: list[RowProblem]

    @classmethod
    def whole(
        cls, batch: QuoteBatch, standing: BatchStanding, problems: Sequence[BatchItem], *, content: bool
    ) -> BatchWhole:
        plain = BatchQuote.seen(batch, standing, content=content).model_dump(exclude_unset=True)
        return cls.model_validate({**plain, "problems": [RowProblem.seen(each) for each in problems]})


class BatchQuotes(Schema):
    """A page of batches, the newest first; *next* is the cursor of the page that follows."""

    batches: list[BatchQuote]
    next: str | None


class ProviderCost(Schema):
    """What was paid to a provider, and what may have been."""

    provider: str
    calls: int
    dollars: Decimal
    in_doubt: Decimal
    reais: Decimal | None


class BatchCosts(Schema):
    """What a batch cost, the dearest provider first; in reais where the terms of its project have a rate."""

    batch_id: int
    total_dollars: Decimal
    total_in_doubt: Decimal
    total_reais: Decimal | None
    providers: list[ProviderCost]

    @classmethod
    def seen(cls, id: int, costs: Sequence[Cost]) -> BatchCosts:
        reais = [each.reais for each in costs if each.reais is not None]
        return cls(
            batch_id=id,
            total_dollars=sum((each.dollars for each in costs), Decimal(0)),
            total_in_doubt=sum((each.in_doubt for each in costs), Decimal(0)),
            total_reais=sum(reais, Decimal(0)) if reais else None,
            providers=[ProviderCost.of(each) for each in costs],
        )


class ReportMaking(Schema):
    """A report of a batch that a worker writes: how far it is, and where its files are once it is ready."""

    job_id: int
    status: Literal["QUEUED", "MAKING", "READY", "FAILED"]
    closing: bool
    progress_percentage: int
    asked_by: str
    asked_at: Time
    ready_at: Time | None
    sha256: str | None
    pdf_url: str | None
    excel_url: str | None

    @classmethod
    def seen(cls, made: ReportJob, place: str) -> ReportMaking:
        ready = made.ready_at is not None
        return cls(
            job_id=made.job_id,
            status=made.state,
            closing=made.closing,
            progress_percentage=made.percent,
            asked_by=made.asked_by,
            asked_at=made.asked_at,
            ready_at=made.ready_at,
            sha256=made.sha256,
            pdf_url=f"{place}/pdf" if ready else None,
            excel_url=f"{place}/excel" if ready else None,
        )


class ReportsMaking(Schema):
    """The reports of a batch, the newest first."""

    results: list[ReportMaking]


class BatchCancelled(Schema):
    """A batch that goes on no more; what is done stays done."""

    message: str
    id: int
    status: BatchStatus
    cancelled_quotes: int

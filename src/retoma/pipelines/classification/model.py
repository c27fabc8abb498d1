"""The nouns of classification: prompts, projects, documents, executions, results."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import orjson

from retoma.model.batch import BatchState
from retoma.model.ids import BatchId, JobId
from retoma.model.job import JobState

if TYPE_CHECKING:
    from retoma.app.access.audit import Entry


@dataclass(frozen=True, slots=True)
class SavedPrompt:
    """What a model is told, under a name; *sha256* is the version of its text."""

    id: int
    name: str
    description: str | None
    document_codes: str | None
    content: str
    sha256: str
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None


@dataclass(frozen=True, slots=True)
class Project:
    """A lot of documents, and how they are classified; *model* None is the provider's own, "local" is offline."""

    id: int
    name: str
    description: str | None
    prompt_id: int | None
    prompt: str | None
    model: str | None
    mode: str
    position: str
    chunk_tokens: int
    at_once: int
    max_resumes: int
    max_retries: int
    documents: int
    created_at: datetime
    updated_at: datetime
    archived_at: datetime | None


@dataclass(frozen=True, slots=True)
class ProjectDocument:
    """A document of a project; without *blob* its file is still to come."""

    id: int
    project_id: int
    code: str
    case_number: str | None
    description: str | None
    filename: str | None
    kind: str | None
    sha256: str | None
    size: int | None
    blob: str | None
    source: str
    created_at: datetime
    archived_at: datetime | None


@dataclass(frozen=True, slots=True)
class Added:
    """What became of a file: its document, and whether it is *new*; the same content was there when it is not."""

    id: int
    code: str
    new: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Announced:
    """The code of a document whose file is still to come."""

    code: str
    case_number: str | None = None
    description: str | None = None


@dataclass(frozen=True, slots=True)
class Refused:
    """A file that was not taken, and why; *code* never changes."""

    filename: str
    code: str
    why: str


@dataclass(slots=True)
class Intake:
    """What became of many files."""

    added: list[Added] = field(default_factory=list)
    known: list[tuple[str, Added]] = field(default_factory=list)
    """Files whose content was there already, each with the document that has it."""
    refused: list[Refused] = field(default_factory=list)
    pay: Callable[[int, int], Awaitable[None]] | None = None
    """Told how many bytes and files a ZIP unpacks to, before it is unpacked; raises when that is too much."""
    entry: Entry | None = None
    """What the audit says of each document that is new, in the transaction that adds it."""

    @property
    def seen(self) -> int:
        """How many files there were."""
        return len(self.added) + len(self.known) + len(self.refused)


@dataclass(frozen=True, slots=True)
class Execution:
    """A batch that classifies a project, every figure from one snapshot."""

    id: BatchId
    project_id: int
    project: str
    name: str
    route: str | None
    state: BatchState
    reason: str | None
    cause: dict[str, Any] | None
    configuration: dict[str, Any]
    total: int
    queued: int
    running: int
    completed: int
    skipped: int
    failed: int
    cancelled: int
    review: int
    resumes: int
    max_resumes: int
    spent: Decimal
    budget: Decimal | None
    stall_seconds: float
    last_progress_at: datetime | None
    last_key: str | None
    event_seq: int
    created_at: datetime
    started_at: datetime | None
    stalled_at: datetime | None
    finished_at: datetime | None
    archived_at: datetime | None
    now: datetime
    unpriced: int = 0
    """Calls whose cost nobody knows; what is *spent* does not count them."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", BatchState(self.state))
        for name in ("cause", "configuration"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, orjson.loads(value))

    @property
    def cost(self) -> Decimal | None:
        """What is known of its cost; None when nothing is."""
        return None if self.unpriced and not self.spent else self.spent

    @property
    def done(self) -> int:
        """Documents that have ended, however."""
        return self.completed + self.skipped + self.failed + self.cancelled + self.review

    @property
    def well(self) -> int:
        """Documents that have a category."""
        return self.completed + self.skipped + self.review

    @property
    def all_failed(self) -> bool:
        """Whether it is over and nothing came of it."""
        return self.state is BatchState.COMPLETED and self.failed > 0 and self.well == 0

    @property
    def percent(self) -> float:
        """Of all documents, how many have ended; 100 only when all have."""
        return math.floor(1000 * self.done / self.total) / 10 if self.total else 0.0

    @property
    def resumable(self) -> bool:
        """Whether a resume would move it."""
        if self.state is BatchState.PAUSED:
            return True
        return self.state in (BatchState.STALLED, BatchState.FAILED) and self.resumes < self.max_resumes


@dataclass(frozen=True, slots=True)
class Result:
    """A document in an execution: how its job stands, and what was found."""

    id: int
    batch_id: int
    document_id: int
    job_id: JobId
    code: str
    case_number: str | None
    filename: str | None
    source: str
    sha256: str | None
    state: JobState
    reason: str | None
    attempts: int
    max_attempts: int
    category: str | None
    subcategory: str | None
    confidence: str | None
    score: float | None
    margin: float | None
    justification: str | None
    quote: str | None
    text_source: str | None
    text_tokens: int | None
    tokens: int | None
    cost: Decimal | None
    chunk_used: str | None
    answer: dict[str, Any] | None
    copied_from: int | None
    error: str | None
    failed_at: datetime | None
    created_at: datetime
    processed_at: datetime | None
    decided_by: str | None = None
    decided_at: datetime | None = None
    """When a person confirmed or corrected it."""
    was: dict[str, Any] | None = None
    """What it was before its batch was judged as a whole, when that changed it."""
    why: dict[str, Any] | None = None
    """Why that changed it."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", JobState(self.state))
        for name in ("answer", "was", "why"):
            if isinstance(value := getattr(self, name), str):
                object.__setattr__(self, name, orjson.loads(value))

    @property
    def to_review(self) -> bool:
        """Whether a person should look: the verdict is not sure."""
        return self.confidence == "baixa" and self.decided_at is None

    @property
    def was_label(self) -> str | None:
        """The label it had before its batch was judged as a whole, when that gave it another."""
        if self.was is None:
            return None
        before, now = (
            " > ".join(part for part in parts if part)
            for parts in ((self.was["category"], self.was["subcategory"]), (self.category, self.subcategory))
        )
        return before if before != now and self.decided_at is None else None

    @property
    def said(self) -> str | None:
        """What went wrong, in one line."""
        return self.error.strip().partition("\n")[0] if self.error else None

    @property
    def stack(self) -> str | None:
        """Where it went wrong, when that is known."""
        return self.error.strip().partition("\n")[2].strip() or None if self.error else None

"""The nouns of documents: what was sent, how far it is, what was read, what was found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING
from uuid import UUID

if TYPE_CHECKING:
    from retoma.app.access.audit import Entry
from retoma.model.ids import JobId
from retoma.pipelines.files.ingest import File

KINDS = ("pdf", "docx", "xlsx", "pptx", "odt", "rtf", "eml", "html", "csv", "txt", "png", "jpg", "tiff")
"""What may be sent, by content."""

STATUSES = ("PENDING", "PROCESSING", "COMPLETED", "FAILED")


@dataclass(frozen=True, slots=True)
class Arrival:
    """A file that was taken and is to become a document."""

    file: File
    uploaded_by: str | None
    correlation_id: str | None
    entry: Entry | None = None
    """What the audit says of it, written with the document."""


@dataclass(frozen=True, slots=True)
class NewDocument:
    """What a job of the pipeline is given."""

    id: UUID
    filename: str
    kind: str
    sha256: str
    blob: str


@dataclass(frozen=True, slots=True)
class Document:
    """A file that somebody sent, with the state of its processing."""

    id: UUID
    number: int
    """In the order of their coming; a page goes on below one."""
    filename: str
    kind: str
    mime_type: str
    size: int
    sha256: str
    blob: str
    page_count: int | None
    reader: str | None
    job_id: JobId | None
    uploaded_by: str | None
    correlation_id: str | None
    status: str
    attempts: int
    error: str | None
    """What the last attempt failed with, for people."""
    created_at: datetime
    processed_at: datetime | None
    """When what was read was last stored."""
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class Processing:
    """How far a document is, in the words that programs outside know."""

    id: UUID
    document_id: UUID
    status: str
    attempts: int
    error_log: str | None
    created_at: datetime
    started_at: datetime | None
    completed_at: datetime | None
    updated_at: datetime
    job_id: JobId | None

    @property
    def ended(self) -> bool:
        """Whether nothing happens any more unless somebody asks."""
        return self.status in ("COMPLETED", "FAILED")


@dataclass(frozen=True, slots=True)
class Received:
    """A document that was taken in; *duplicate_of* when the same content was there before."""

    document: Document
    duplicate_of: UUID | None = None


@dataclass(frozen=True, slots=True)
class Chunk:
    """A piece of a document's text, small enough to be embedded, and where it stands."""

    place: int
    content: str
    section_type: str
    title: str | None
    page_start: int
    page_end: int
    token_count: int


@dataclass(frozen=True, slots=True)
class Found:
    """A piece that answers a search."""

    document_id: UUID
    place: int
    filename: str
    page_start: int
    page_end: int
    section_type: str
    title: str | None
    snippet: str
    score: float
    how: str
    """By its "meaning", by its "words", or by "both"."""

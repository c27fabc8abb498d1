"""Documents on the wire, out and in."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal
from uuid import UUID

from pydantic import BeforeValidator, Field

from retoma.web.api.schemas.requests import Flag, Text, Wanted
from retoma.web.api.schemas.responses import Schema, Time

Status = Literal["PENDING", "PROCESSING", "COMPLETED", "FAILED"]

LOW = 0.8
"""A field that is less sure than this should be looked at by a person."""


def _separate(given: Any) -> Any:
    """``ids=a,b`` and ``ids=a&ids=b`` are the same."""
    return [part for each in given for part in str(each).split(",") if part] if isinstance(given, list) else given


class DocumentFilter(Wanted):
    """Which documents, and how many of them at a time; *search* looks in their names."""

    search: Annotated[str, Field(max_length=200)] = ""
    status: Status | Literal[""] = ""
    cursor: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 20


class StatusFilter(Wanted):
    """Whose status: ids, with commas between them or one by one."""

    ids: Annotated[list[UUID], BeforeValidator(_separate), Field(min_length=1, max_length=200)]


class Question(Wanted):
    """What is looked for, in anybody's words."""

    q: Annotated[str, Field(min_length=1, max_length=1000)]
    limit: Annotated[int, Field(ge=1, le=50)] = 10


class ChunkFilter(Wanted):
    """How many chunks at a time."""

    cursor: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class FileChoice(Wanted):
    """*inline* lets a browser show a PDF, PNG or JPEG instead of saving it."""

    inline: Flag = False


class FileProblem(Schema):
    """Why a file was not taken; *code* never changes, *detail* follows Accept-Language."""

    code: str
    detail: str


class SentFile(Schema):
    """What became of one file: a document with its status, or an error. *duplicate_of* is there when the same content
    had been sent before: it is the document that this one would have become.
    """

    filename: str
    id: UUID | None = None
    status: Status | None = None
    status_url: str | None = None
    duplicate_of: UUID | None = None
    error: FileProblem | None = None


class Sent(Schema):
    """What became of each file, in the order they were sent."""

    documents: list[SentFile]


class Processing(Schema):
    """How far a document is."""

    content = ("error_log",)

    id: UUID
    document_id: UUID
    status: Status
    attempts: int
    created_at: Time
    started_at: Time | None
    completed_at: Time | None
    updated_at: Time
    job_id: int | None
    error_log: str | None = None


class Processings(Schema):
    """How far several documents are, in the order asked for; those that are not there are left out."""

    documents: list[Processing]


class Document(Schema):
    """A file that somebody sent, with the state of its processing."""

    content: ClassVar[tuple[str, ...]] = ("error",)

    id: UUID
    filename: str
    kind: str
    mime_type: str
    size: int
    sha256: str
    page_count: int | None
    reader: str | None
    job_id: int | None
    uploaded_by: str | None
    correlation_id: str | None
    status: Status
    attempts: int
    created_at: Time
    processed_at: Time | None
    updated_at: Time
    error: str | None = None


class Documents(Schema):
    """A page of documents, the newest first; *next* is the cursor of the page that follows."""

    documents: list[Document]
    next: str | None


class DocumentField(Schema):
    """Something a document says under a name, and how sure that is, from 0 to 1. *kind* and *exact* are there when the
    value is one that can be verified.
    """

    name: str
    value: str
    confidence: float
    page: int | None
    kind: Literal["cnpj", "cpf", "process", "access_key", "cep", "plate", "date", "money"] | None = None
    exact: str | None = None


class DocumentTable(Schema):
    """A table of a document, row by row."""

    rows: list[list[str]]
    page: int | None


class Chunk(Schema):
    """A piece of a document's text, and where it stands."""

    place: int
    text: str
    section_type: str
    title: str | None
    page_start: int
    page_end: int
    token_count: int


class DocumentStep(Schema):
    """A step that is done, and how long it took."""

    name: str
    seconds: float | None
    saved_at: Time


class WholeDocument(Document):
    """A document with what was read from it: fields, tables and chunks are there with the scope content:read."""

    content = ("error", "fields", "tables", "chunks")

    steps: list[DocumentStep]
    fields: list[DocumentField] = Field(default_factory=list)
    tables: list[DocumentTable] = Field(default_factory=list)
    chunks: list[Chunk] = Field(default_factory=list)
    chunks_next: str | None = None


class Chunks(Schema):
    """A page of the pieces of a document's text, in order; *next* is the cursor of the page that follows."""

    chunks: list[Chunk]
    next: str | None


class Found(Schema):
    """A piece that answers a search: found by its meaning, by its words, or by both."""

    document_id: UUID
    place: int
    filename: str
    page_start: int
    page_end: int
    section_type: str
    title: str | None
    snippet: str
    score: float
    how: Literal["meaning", "words", "both"]


class Findings(Schema):
    """What was found, best first."""

    found: list[Found]

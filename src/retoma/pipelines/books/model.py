"""The nouns of books: what was sent, how far it is, its chapters, their checkpoints, what readers say."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any, Literal

from retoma.model.ids import JobId
from retoma.pipelines.books.ports import Chapter, Editor

KINDS = ("pdf", "epub", "docx", "txt")
"""What may be sent, by content; Markdown is text."""

STATES = ("in_progress", "paused", "done", "failed")
FEEDBACK = ("question", "error", "suggestion", "praise")

Origin = Literal["run", "import", "reuse"]


@dataclass(frozen=True, slots=True)
class NewBook:
    """What a job of the pipeline is given."""

    session_id: str
    filename: str
    kind: str
    sha256: str
    blob: str
    configuration_hash: str


@dataclass(frozen=True, slots=True)
class Input:
    """What was sent."""

    sha256: str
    filename: str
    kind: str
    size: int
    blob: str


@dataclass(frozen=True, slots=True)
class Held:
    """A session whose row is locked."""

    id: str
    number: int
    """Another one when a session was removed and comes again under its id."""
    input_sha256: str | None
    configuration: str
    configuration_hash: str
    job_id: int | None
    runs: int
    planned_at: datetime | None
    approved_at: datetime | None
    doubts: str
    started_at: datetime
    finished_at: datetime | None
    title: str

    @property
    def doubtful(self) -> bool:
        """Whether a person must look at the chapters before anything is paid."""
        return self.approved_at is None and self.doubts != "[]"


@dataclass(frozen=True, slots=True)
class Session:
    """One book in one configuration, and how far it is."""

    id: str
    number: int
    title: str
    filename: str | None
    kind: str | None
    size: int | None
    input_sha256: str | None
    configuration: str
    configuration_hash: str
    job_id: JobId | None
    runs: int
    detector: str | None
    left_out: str
    """JSON: the parts of the book that are no chapters."""
    doubts: str
    """JSON: why a person should look at the list of chapters."""
    pages: int | None
    reader: str | None
    state: str
    reason: str | None
    """Why it is paused or failed."""
    chapters: int
    words: int
    done: int
    """Chapters with a valid checkpoint."""
    passed: int
    summary_words: int
    invalid: int
    """Checkpoints that were set aside."""
    started_at: datetime
    planned_at: datetime | None
    approved_at: datetime | None
    finished_at: datetime | None
    created_by: str | None
    created_at: datetime
    updated_at: datetime


@dataclass(frozen=True, slots=True)
class StoredChapter:
    """A chapter as it is kept."""

    place: int
    number: str
    title: str
    content: str
    words: int
    pages: Sequence[int]
    page_starts: str
    sha256: str

    def as_chapter(self) -> Chapter:
        """For the text side."""
        starts = tuple((int(at), int(page)) for at, page in json.loads(self.page_starts))
        return Chapter(
            number=self.number, title=self.title, text=self.content, pages=tuple(self.pages), page_starts=starts
        )


@dataclass(frozen=True, slots=True)
class Standing:
    """A chapter and what is there of it."""

    place: int
    number: str
    title: str
    words: int
    pages: Sequence[int]
    passed: bool | None
    """PASS or FAIL; None when it is not done."""
    origin: str | None
    total_chunks: int | None
    processed_chunks: int | None
    summary_words: int | None
    saved_at: datetime | None
    attempts: int
    """Checkpoints that were ever made of it."""
    reason: str | None
    """What was wrong with the last that was set aside."""

    @property
    def done(self) -> bool:
        """Whether it has a valid checkpoint."""
        return self.saved_at is not None


@dataclass(frozen=True, slots=True)
class Row:
    """A checkpoint as it is kept."""

    id: int
    session_id: str
    chapter_number: str
    version: int
    body: bytes
    origin: str
    source: str | None
    verdict: str
    reason: str | None
    message: str | None
    total_chunks: int
    processed_chunks: int
    passed: bool | None
    saved_at: datetime | None
    created_at: datetime
    judged_at: datetime


@dataclass(frozen=True, slots=True)
class Feedback:
    """What a reader said, and was answered."""

    id: int
    session_id: str
    kind: str
    message: str
    chapter_number: str | None
    created_by: str | None
    created_at: datetime
    answer: str | None
    answered_by: str | None
    answered_at: datetime | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Started:
    """What came of a book that was sent: its session, and whether that was there before."""

    session: Session
    found: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedChapter:
    """What another configuration would mean for a chapter."""

    number: str
    title: str
    words: int
    reused_from: str | None
    """The session whose checkpoint holds still; None when the chapter is done again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a changed configuration reuses, what it does again, and what that costs."""

    configuration: dict[str, Any]
    session_id: str | None
    """The session that is there already in that configuration."""
    chapters: tuple[PlannedChapter, ...]
    cost: Decimal | None
    """In dollars, by what words have cost so far, else by the price of the model; None when nobody knows it, and 0 for
    what costs nothing."""

    @property
    def reused(self) -> int:
        """Chapters that are not done again."""
        return sum(each.reused_from is not None for each in self.chapters)

    @property
    def redone_words(self) -> int:
        """Words of the chapters that are."""
        return sum(each.words for each in self.chapters if each.reused_from is None)


def configuration_of(editor: Editor) -> dict[str, Any]:
    """What tells one summary of a text from another."""
    return {"provider": editor.provider, "model": editor.model, "parameters": dict(editor.parameters)}


def stored(place: int, chapter: Chapter) -> StoredChapter:
    """A chapter as it is kept."""
    clean = chapter.text.replace("\0", "\ufffd")
    return StoredChapter(
        place=place,
        number=chapter.number.replace("\0", ""),
        title=chapter.title.replace("\0", ""),
        content=clean,
        words=chapter.words,
        pages=list(chapter.pages),
        page_starts=json.dumps([list(pair) for pair in chapter.page_starts]),
        sha256=chapter_hash(chapter.number, clean),
    )


def chapter_hash(number: str, text: str) -> str:
    """The name of a chapter's text."""
    return hashlib.sha256(f"{number}\0{text}".encode()).hexdigest()

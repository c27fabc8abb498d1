"""Books on the wire, out and in."""

from __future__ import annotations

from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from retoma.pipelines.books.model import Plan, Session, Standing
from retoma.pipelines.books.remarks import all_said, of_values
from retoma.web.api.schemas.requests import Asked, Cursor, Text, Wanted
from retoma.web.api.schemas.responses import Opened, Schema, Time

State = Literal["in_progress", "paused", "done", "failed"]
Verdict = Literal["PASS", "FAIL"]
Kind = Literal["question", "error", "suggestion", "praise"]


class BookFilter(Wanted):
    """How many books at a time."""

    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class SentBook(Schema):
    """The session of a book that was sent, and whether it was there before."""

    session_id: str
    found: bool
    state: State
    status_url: str
    progress_url: str
    result_url: str


class Book(Schema):
    """A book in one configuration, and how far it is."""

    content: ClassVar[tuple[str, ...]] = ("reason", "left_out", "doubts")

    id: str
    title: str
    filename: str | None
    kind: str | None
    size: int | None
    input_sha256: str | None
    configuration: Opened
    state: State
    chapters: int
    words: int
    done: int
    passed: int
    summary_words: int
    invalid: int
    pages: int | None
    reader: str | None
    detector: str | None
    job_id: int | None
    runs: int
    started_at: Time
    planned_at: Time | None
    approved_at: Time | None
    finished_at: Time | None
    created_by: str | None
    created_at: Time
    updated_at: Time
    reason: str | None = None
    left_out: Opened = None
    doubts: Opened = None

    @classmethod
    def told(cls, session: Session, *, content: bool, language: str) -> Book:
        """A session as it goes over the wire, with its doubts in *language*."""
        shown = cls.of(session, content=content)
        if content:
            shown.doubts = all_said(of_values(shown.doubts), language)
        return shown


class BookChapter(Schema):
    """A chapter and what is there of it: done and saved, reusable, or open."""

    place: int
    number: str
    title: str
    words: int
    pages: list[int]
    done: bool
    passed: bool | None
    origin: str | None
    total_chunks: int | None
    processed_chunks: int | None
    summary_words: int | None
    saved_at: Time | None
    attempts: int
    reason: str | None


class WholeBook(Book):
    """A book with its chapters, the chapter at which the work goes on, and the verdict once all are done."""

    verdict: Verdict | None
    resume_at: str | None
    chapter_list: list[BookChapter]

    @classmethod
    def seen(cls, session: Session, chapters: list[Standing], *, content: bool, language: str) -> WholeBook:
        """A session and its chapters as they go over the wire."""
        passed = all(each.passed for each in chapters)
        return cls(
            **Book.told(session, content=content, language=language).model_dump(exclude_unset=True),
            verdict=("PASS" if passed else "FAIL") if session.state == "done" else None,
            resume_at=next((each.number for each in chapters if not each.done), None),
            chapter_list=[BookChapter.of(each) for each in chapters],
        )


class Books(Schema):
    """Books, the newest first."""

    books: list[Book]
    next: str | None


class ChapterResult(Schema):
    """What was made of a chapter: the verdict with its reasons, and the checkpoint in the shape of the contract."""

    number: str
    verdict: Verdict
    reasons: list[str]
    checkpoint: dict[str, Any]


class PlannedChapter(Schema):
    """What the configuration of now would mean for a chapter."""

    number: str
    title: str
    words: int
    reused_from: str | None


class BookPlan(Schema):
    """What the configuration of now reuses of a book, what it does again, and what that costs."""

    configuration: dict[str, Any]
    session_id: str | None
    chapters: list[PlannedChapter]
    reused: int
    redone_words: int
    cost: str | None

    @classmethod
    def seen(cls, plan: Plan) -> BookPlan:
        """A plan as it goes over the wire."""
        return cls(
            configuration=plan.configuration,
            session_id=plan.session_id,
            chapters=[PlannedChapter.of(each) for each in plan.chapters],
            reused=plan.reused,
            redone_words=plan.redone_words,
            cost=None if plan.cost is None else f"{plan.cost:f}",
        )


class ChapterEdit(Asked):
    """One change to a list of chapters."""

    action: Literal["merge", "split", "rename", "leave_out"]
    number: Text
    last: Annotated[str, Field(max_length=200)] = ""
    begins: Annotated[str, Field(max_length=500)] = ""
    title: Annotated[str, Field(max_length=200)] = ""


class ChapterEdits(Asked):
    """Changes to a list of chapters, one after the other; all of them or none."""

    edits: Annotated[list[ChapterEdit], Field(min_length=1, max_length=500)]


class NewFeedback(Asked):
    """What a reader says of a summary."""

    kind: Kind
    message: Annotated[str, Field(min_length=1, max_length=5000, pattern=r"\S")]
    chapter: Annotated[str, Field(min_length=1, max_length=200)] | None = None


class NewAnswer(Asked):
    """What a reader is answered."""

    answer: Annotated[str, Field(min_length=1, max_length=5000)]


class BookFeedback(Schema):
    """What a reader said, and was answered."""

    content = ("message", "answer")

    id: int
    session_id: str
    kind: Kind
    chapter_number: str | None
    created_by: str | None
    created_at: Time
    answered_by: str | None
    answered_at: Time | None
    message: str | None = None
    answer: str | None = None


class FeedbackList(Schema):
    """What readers said, in order."""

    feedback: list[BookFeedback]


class BookResult(Schema):
    """What came of a book: PASS, or FAIL with errors; PROCESSING or PAUSED while chapters are open. Chapters that are
    saved are there at any time.
    """

    session_id: str
    status: Literal["PROCESSING", "PAUSED", "PASS", "FAIL"]
    stage: str
    percentage: int
    message: str
    errors: list[str]
    exported_files: dict[str, str]
    coverage_report: dict[str, Any]
    addendum_metrics: dict[str, Any]
    summaries: list[dict[str, Any]]
    summary: str

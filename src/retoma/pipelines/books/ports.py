"""What the pipeline of books asks of the side that reads and writes text, and the values between the two.

The text side is pure: it opens no file, writes no row, and reaches a model only through the *ask* that it is given, so
that each answer is recorded before anybody reads it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from retoma.pipelines.books.remarks import Remark
from retoma.providers import Extraction, Prompt

T = TypeVar("T")


# — the plan of a book —


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A chapter as it was found; *text* is its body without the heading."""

    number: str
    """As it stands there ("3", "IV"); counted where the book does not say. Unique in its book."""
    title: str
    text: str
    pages: tuple[int, ...] = ()
    page_starts: tuple[tuple[int, int], ...] = ()
    """Pairs of (character of *text*, page that begins there), so that a quotation is found on its page."""

    @property
    def words(self) -> int:
        """Words of the body."""
        return len(self.text.split())


@dataclass(frozen=True, slots=True, kw_only=True)
class LeftOut:
    """A part of the book that is no chapter, and what it is, such as "contents", "front matter" or "notes"."""

    kind: str
    title: str
    pages: tuple[int, ...] = ()
    words: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class ChapterPlan:
    """The chapters of a book in their order, and what is no chapter."""

    chapters: tuple[Chapter, ...]
    left_out: tuple[LeftOut, ...] = ()
    doubts: tuple[Remark, ...] = ()
    """Why a person should look before anything is paid; empty when the list can be trusted."""
    detector: str = ""
    """Which way of looking found them: "navigation", "outline", "headings", "whole"…"""


# — what comes of a chapter —


@dataclass(frozen=True, slots=True, kw_only=True)
class Quotation:
    """Words of the chapter, as they stand there, and their page where that is known."""

    text: str
    page: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class RecallItem:
    """Something a summary should say, and must when it is *critical*."""

    id: str
    text: str
    critical: bool
    reason: str
    chunks: tuple[int, ...]
    """Where it stands; the first chunk is 1."""
    covered: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """What a check that uses no model found in the summary."""

    passed: bool
    regenerations: int = 0
    """At most 5."""
    addendums: int = 0
    """At most 2."""
    missing_markers: tuple[str, ...] = ()
    """Ids of critical items that the summary does not mark."""
    invalid_chunks: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Ids, and chunks named with them that are not theirs."""
    errors: tuple[Remark, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What matters of a chapter: 300 to 500 words, 5 to 8 key points, 2 to 4 quotations, 2 to 5 examples."""

    text: str
    key_points: tuple[str, ...]
    quotations: tuple[Quotation, ...]
    examples: tuple[str, ...]
    """Empty when the chapter gives none; the checkpoint says so in a sentence."""
    shortfalls: Mapping[str, str] = field(default_factory=dict)
    """Why there is less than the contract asks, by field: ``resumo``, ``pontos_chave``, ``citacoes``, ``exemplos``."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """How much of a chapter was read, and what of it the summary says."""

    total_chunks: int
    processed_chunks: int
    sentences: int
    """Of the whole chapter."""
    read_sentences: int
    """Those that belong to a span that was read."""
    unread: tuple[tuple[int, int], ...] = ()
    """Spans of characters that nobody read."""
    items: tuple[RecallItem, ...] = ()

    @property
    def percentage(self) -> float:
        """Share of the chunks that were read."""
        return 100.0 * self.processed_chunks / self.total_chunks if self.total_chunks else 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A chapter, summed up, checked and measured."""

    summary: Summary
    coverage: Coverage
    audit: Audit

    @property
    def passed(self) -> bool:
        """PASS or FAIL: the audit holds, all of it was read, and no critical item is missing."""
        coverage = self.coverage
        return (
            self.audit.passed
            and coverage.processed_chunks == coverage.total_chunks
            and coverage.read_sentences == coverage.sentences
            and not coverage.unread
            and all(item.covered for item in coverage.items if item.critical)
        )


# — who does it —


class Ask(Protocol):
    """One recorded request to a model: *name* is unique in its chapter and the same on every run."""

    async def __call__(self, name: str, prompt: Prompt, into: type[T]) -> T:
        """The answer, asked and paid once whatever dies."""
        ...


class Editor(Protocol):
    """The text side. The same document, chapter and answers always give the same values."""

    provider: str
    model: str
    """With *provider* and *parameters*, what tells one summary of a chapter from another."""
    parameters: Mapping[str, Any]
    """Versions of detector, prompts, chunking: whatever changes what is said."""
    bills: bool
    """Whether a chapter costs money; then *ask* is given."""

    def detect(self, document: Extraction) -> ChapterPlan:
        """The chapters of a document; all of it as chapter "1" when it has none."""
        ...

    async def summarise(self, chapter: Chapter, *, ask: Ask | None, timeout: float) -> Digest:
        """What comes of one chapter."""
        ...

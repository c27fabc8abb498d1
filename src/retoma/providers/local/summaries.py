"""What is said of a book: its chapters, and of each chapter what matters and how much of it was covered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A chapter as it was found; *text* is its body without the heading."""

    number: str
    """As it stands there ("3", "IV", "Anexo I"); counted where the book does not say. Unique in its book."""

    title: str
    text: str
    pages: tuple[int, ...]
    found_by: str
    """"outline", "named", "markdown", "numbered", or "whole" when there are no chapters."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a chapter of about a thousand words; it repeats the last hundred of the one before."""

    id: str
    text: str
    start_word: int
    end_word: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Point:
    """A sentence that a summary should cover, and must when it is *critical*."""

    id: str
    """The chapter and six digits of a hash of the sentence: the same on every run."""

    text: str
    critical: bool
    reason: str
    """"definition", "rule", "repeated", "title" or "central"."""

    chunks: tuple[int, ...]
    """Where it stands or is said again; the first chunk is 1."""

    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """How much of the chapter the summary says: a sentence is covered when one of it is as near as *threshold*."""

    threshold: float
    sentences: int
    covered: int
    points: tuple[Point, ...]
    missing: tuple[str, ...]
    """The ids of critical points that the summary does not cover."""

    @property
    def share(self) -> float:
        """The share of sentences that are covered."""
        return self.covered / self.sentences if self.sentences else 1.0

    @property
    def critical(self) -> int:
        """How many points are critical."""
        return sum(point.critical for point in self.points)


@dataclass(frozen=True, slots=True, kw_only=True)
class Audit:
    """Whether the summary keeps what it promises, counted again from the text."""

    passed: bool
    addenda: int
    """Sentences that came in only because a critical point was missing."""

    problems: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Coverage:
    """What was read of a chapter, and what of it is in the summary."""

    number: str
    title: str
    total_chunks: int
    processed_chunks: int
    percentage: float
    recall: Recall
    audit: Audit


@dataclass(frozen=True, slots=True, kw_only=True)
class Summary:
    """What matters of a chapter, in its own sentences.

    300 to 500 words, 5 to 8 key points, 2 to 4 quotes, up to 5 examples. A text of fewer than 300 words is given whole,
    and of what it has too little there is less; *notes* says so. It also says so when a chapter gives no example.
    """

    number: str
    title: str
    words: int
    summary_words: int
    pages: tuple[int, ...]
    text: str
    key_points: tuple[str, ...]
    quotes: tuple[str, ...]
    """Verbatim, but for the line ends."""

    examples: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A chapter, summed up and checked."""

    summary: Summary
    coverage: Coverage

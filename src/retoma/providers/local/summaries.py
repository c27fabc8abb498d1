"""The values of summaries: chapters, what matters in each, and how much of it is covered."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Chapter:
    """A chapter as it was found; *text* is its body without the heading."""

    number: str
    """As in the text ("3", "IV", "Anexo I"); counted where the book has none. Unique in its book."""

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
    """The chunks that contain or repeat it; the first chunk is 1."""

    times: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Recall:
    """How much of the chapter the summary covers: a sentence is covered when one of the summary is
    as near as *threshold*.
    """

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
    """Whether the summary keeps its promises, counted again from the text."""

    passed: bool
    addenda: int
    """Sentences that were added only because a critical point was missing."""

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
    """What matters in a chapter, in its own sentences.

    300 to 500 words, 5 to 8 key points, 2 to 4 quotes, up to 5 examples. A text of fewer than 300 words is
    returned whole, and a chapter with too few candidates has fewer of each; *notes* says so. It also says so when
    a chapter has no example.
    """

    number: str
    title: str
    words: int
    summary_words: int
    pages: tuple[int, ...]
    text: str
    key_points: tuple[str, ...]
    quotes: tuple[str, ...]
    """Verbatim, except for the line ends."""

    examples: tuple[str, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Digest:
    """A chapter, summarised and checked."""

    summary: Summary
    coverage: Coverage

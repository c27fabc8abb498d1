"""The whole book on one page, from the summaries of its chapters."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from retoma.pipelines.books.ports import Summary

WORDS = 500


@dataclass(frozen=True, slots=True, kw_only=True)
class Entry:
    """What the page says of one chapter: key points of its summary, as they stand there."""

    number: str
    title: str
    points: tuple[str, ...]


def executive(chapters: Sequence[tuple[str, str, Summary]], *, words: int = WORDS) -> tuple[Entry, ...]:
    """For each chapter (number, title, summary) its first key point, then further ones in turn while there is room.

    Every chapter has a say, however many they are; only what goes beyond one sentence each is bound by *words*.
    """
    points: list[list[str]] = [list(summary.key_points[:1]) for _, _, summary in chapters]
    total = sum(len(text.split()) for each in points for text in each)
    for turn in range(1, max((len(summary.key_points) for _, _, summary in chapters), default=0)):
        for place, (_, _, summary) in enumerate(chapters):
            text = summary.key_points[turn] if turn < len(summary.key_points) else ""
            if text and total + len(text.split()) <= words:
                points[place].append(text)
                total += len(text.split())
    return tuple(
        Entry(number=number, title=title, points=tuple(points[place]))
        for place, (number, title, _) in enumerate(chapters)
    )


def as_text(entries: Sequence[Entry]) -> str:
    """One paragraph per chapter."""
    return "\n\n".join(f"{_name(entry)}: {' '.join(entry.points)}" for entry in entries if entry.points)


def _name(entry: Entry) -> str:
    return entry.number if entry.title in {"", entry.number} else f"{entry.number} – {entry.title}"

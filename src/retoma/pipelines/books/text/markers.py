"""Marks in a summary that name the item they speak of and the chunks it comes from: ``⟦3-a1b2c3d4e5f6:1,2⟧``."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from retoma.pipelines.books.ports import RecallItem
from retoma.pipelines.books.text.numerals import fold

_MARK = re.compile(r"[ ]?⟦([^⟦⟧:]{1,200}):([\d, ]{0,200})⟧")
_WORDS = re.compile(r"\w{4,}")
_STEM = 5
_SHARED = 0.25


@dataclass(frozen=True, slots=True)
class Marker:
    """A mark, and the sentence before it."""

    id: str
    chunks: tuple[int, ...]
    said: str


def mark(item: RecallItem) -> str:
    """The mark of *item*."""
    return f"⟦{item.id}:{','.join(map(str, item.chunks))}⟧"


def read(marked: str) -> list[Marker]:
    """The marks of a text; marks in a row share what stands before the first."""
    found, place, said = [], 0, ""
    for each in _MARK.finditer(marked):
        said = marked[place : each.start()].strip() or said
        place = each.end()
        numbers = (part.strip() for part in each[2].split(","))
        found.append(Marker(each[1].strip(), tuple(int(part) for part in numbers if part.isdigit()), said))
    return found


def unmarked(marked: str) -> str:
    """The text without its marks."""
    return _MARK.sub("", marked).strip()


def speaks_of(said: str, item: RecallItem) -> bool:
    """Whether *said* has words of *item*: a mark alone proves nothing."""
    own = _stems(item.text)
    return not own or len(own & _stems(said)) >= max(1, _SHARED * len(own))


def _stems(text: str) -> set[str]:
    return {word[:_STEM] for word in _WORDS.findall(fold(text))}


def missing(marked: str, items: Sequence[RecallItem]) -> tuple[str, ...]:
    """The ids of critical *items* that no mark names."""
    named = {marker.id for marker in read(marked)}
    return tuple(item.id for item in items if item.critical and item.id not in named)

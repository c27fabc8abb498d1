"""A chapter in pieces of about a thousand words; each repeats the last hundred of the one before."""

from __future__ import annotations

import re
from dataclasses import dataclass

WORDS, OVERLAP = 1_000, 100
_WORD = re.compile(r"\S+")


@dataclass(frozen=True, slots=True, kw_only=True)
class Chunk:
    """A piece of a text and its place in it; the first has the index 1."""

    index: int
    text: str
    start: int
    """The first character; *end* is after the last."""
    end: int
    start_word: int
    end_word: int


def cut(text: str) -> list[Chunk]:
    """The chunks of *text*: every word is in one, or in two where they overlap. A text without a word has none."""
    words = [found.span() for found in _WORD.finditer(text)]
    found = []
    for index, start in enumerate(range(0, max(1, len(words) - OVERLAP), WORDS - OVERLAP), start=1):
        piece = words[start : start + WORDS]
        if not piece:
            break
        first, last = piece[0][0], piece[-1][1]
        found.append(
            Chunk(
                index=index,
                text=text[first:last],
                start=first,
                end=last,
                start_word=start,
                end_word=start + len(piece),
            )
        )
    return found

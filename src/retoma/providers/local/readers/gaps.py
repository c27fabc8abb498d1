"""Blanks between words that a PDF leaves room for and pdfium does not see.

Typesetters such as TeX and groff often write no blank: the next word stands farther to the right. pdfium guesses where
a word ends by the width of its letters and joins some, above all short ones: *Odiário*. So the room between letters is
measured here.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from pypdfium2 import raw  # type: ignore[import-untyped]  # it has no types

_ROOM = 0.17
"""The room between two words, in heights of their letters: a fifth at the least. Letters are moved by a tenth at the
most to look better beside each other.
"""

_FAR = 3.0
_SAME_LINE = 0.3


def with_blanks(text_page: Any, text: str) -> str:
    """*text*, which is that of *text_page*, with the blanks that pdfium has missed."""
    units = text.encode("utf-16-le", "surrogatepass")  # pdfium counts so
    parts, done = [], 0
    for index in _missing(text_page):
        at = 2 * raw.FPDFText_GetTextIndexFromCharIndex(text_page, index)
        if done < at < len(units):
            parts += [units[done:at], b" \0"]
            done = at
    return b"".join([*parts, units[done:]]).decode("utf-16-le", "surrogatepass")


def _missing(text_page: Any) -> Iterator[int]:
    """The letters before which a blank is missing. Two boxes are used by turns: making them takes most of the time."""
    before, here = raw.FS_RECTF(), raw.FS_RECTF()
    known = False
    for index in range(text_page.count_chars()):
        is_there = bool(raw.FPDFText_GetLooseCharBox(text_page, index, here))
        if is_there and known and _is_room(before, here) and _are_letters(text_page, index):
            yield index
        before, here, known = here, before, is_there


def _is_room(before: Any, here: Any) -> bool:
    size = min(before.top - before.bottom, here.top - here.bottom)
    room = here.left - before.right
    return bool(size * _ROOM < room < size * _FAR and abs(before.bottom - here.bottom) <= size * _SAME_LINE)


def _are_letters(text_page: Any, index: int) -> bool:
    """Whether neither the letter at *index* nor the one before it is a blank."""
    return not any(chr(raw.FPDFText_GetUnicode(text_page, place)).isspace() for place in (index - 1, index))

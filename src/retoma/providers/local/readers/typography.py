"""Headings of a PDF that only their letters give away: larger than those of the text, or bolder.

The text is set in the size and the weight that most of its letters have. A heading is one to three lines in a row that
are larger, or as large and bold. The same words on several pages run along them and are no heading, and neither are
four lines or more: that is a paragraph.
"""

from __future__ import annotations

import ctypes
import math
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from pypdfium2 import raw  # type: ignore[import-untyped]  # it has no types

from retoma.providers.local import limits, markup

_LARGER = 1.15
_LINES = 3
_LONGEST = 160
"""Characters of a heading."""

_RUNNING = 3
_BOLD_FROM, _FORCED = 600, 1 << 18
_BOLD_NAMES = (b"bold", b"black", b"heavy", b"demi")
_NAME_BYTES = 200
_NUMERALS = "IVXLC"


class Style(NamedTuple):
    """How a line is set; of two the larger comes first, then the bolder."""

    size: float
    """In points, to the half."""
    bold: bool


class SetLine(NamedTuple):
    """A line of a page, and how it is set; *style* is None where its letters differ."""

    text: str
    page: int
    style: Style | None


def lines_of(text_page: Any, text: str, page: int) -> list[SetLine]:
    """The lines of *text*, which is that of *text_page*, with their letters."""
    found, at, letters = [], 0, _Letters(text_page)
    for line in text.splitlines(keepends=True):
        told = line.strip()
        if told:
            start = at + len(line) - len(line.lstrip())
            found.append(SetLine(told, page, letters.of(start, len(told))))
        at += len(line.encode("utf-16-le", "surrogatepass")) // 2  # pdfium counts so
    return found


class _Letters:
    """The letters of a page. What pdfium writes into is made once: most of the time would go into that."""

    def __init__(self, text_page: Any) -> None:
        self._page = text_page
        self._matrix, self._flags = raw.FS_MATRIX(), ctypes.c_int()
        self._name = ctypes.create_string_buffer(_NAME_BYTES)

    def of(self, start: int, length: int) -> Style | None:
        """The style of three letters of a line, if it is one: asking for each would take longer than reading."""
        sizes = {self._size(self._index(place)) for place in (start, start + length // 2, start + length - 1)}
        sizes.discard(0.0)  # a blank between words has no letters
        if len(sizes) != 1:
            return None
        ends = {self._bold(self._index(place)) for place in (start, start + length - 1)}
        return Style(sizes.pop(), ends.pop()) if len(ends) == 1 else None

    def _index(self, place: int) -> int:
        return int(raw.FPDFText_GetCharIndexFromTextIndex(self._page, place))

    def _size(self, index: int) -> float:
        size = raw.FPDFText_GetFontSize(self._page, index) if index >= 0 else 0.0
        if not size > 0 or not raw.FPDFText_GetMatrix(self._page, index, self._matrix):
            return 0.0
        points = size * math.hypot(self._matrix.c, self._matrix.d)
        return round(points * 2) / 2 if math.isfinite(points) else 0.0

    def _bold(self, index: int) -> bool:
        if raw.FPDFText_GetFontWeight(self._page, index) >= _BOLD_FROM:
            return True
        self._name.value = b""
        raw.FPDFText_GetFontInfo(self._page, index, self._name, _NAME_BYTES, self._flags)
        called = self._name.value.lower()
        return bool(self._flags.value & _FORCED) or any(each in called for each in _BOLD_NAMES)


def headings_of(lines: Sequence[SetLine]) -> tuple[tuple[int, str, int], ...]:
    """Depth, title and page of each heading; the largest letters are the top."""
    letters: Counter[Style] = Counter()
    for line in lines:
        if line.style is not None:
            letters[line.style] += len(line.text)
    if not letters:
        return ()
    text = letters.most_common(1)[0][0]
    found = list(_titles(lines, text))
    times = Counter((style, title) for style, title, _ in found)
    found = [each for each in found if times[each[:2]] < _RUNNING]
    depths = {style: depth for depth, style in enumerate(sorted({style for style, _, _ in found}, reverse=True))}
    return tuple((depths[style], title, page) for style, title, page in found)[: limits.OUTLINE]


def _titles(lines: Sequence[SetLine], text: Style) -> Iterator[tuple[Style, str, int]]:
    for (page, style), group in groupby(lines, key=lambda line: (line.page, line.style)):
        set_alike = [line.text for line in group]
        if style is None or len(set_alike) > _LINES or not _stands_out(style, text):
            continue
        title = " ".join(markup.clean(" ".join(set_alike)).split())
        if title and len(title) <= _LONGEST and _says_something(title):
            yield style, title, page


def _stands_out(style: Style, text: Style) -> bool:
    return style.size >= text.size * _LARGER or (style.size == text.size and style.bold and not text.bold)


def _says_something(title: str) -> bool:
    """A large letter alone begins a paragraph, unless it is a numeral."""
    signs = [each for each in title if each.isalnum()]
    return len(signs) > 1 or (bool(signs) and (signs[0].isdigit() or signs[0] in _NUMERALS))

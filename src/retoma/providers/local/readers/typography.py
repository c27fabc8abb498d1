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
_BOLD_NAMES = ("bold", "black", "heavy", "demi")
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
    found, at = [], 0
    for line in text.splitlines(keepends=True):
        told = line.strip()
        if told:
            start = at + len(line) - len(line.lstrip())
            found.append(SetLine(told, page, _style(text_page, start, len(told))))
        at += len(line.encode("utf-16-le", "surrogatepass")) // 2  # pdfium counts so
    return found


def _style(text_page: Any, start: int, length: int) -> Style | None:
    """The style of three letters of a line, if it is one: asking for each would take longer than reading."""
    places = sorted({start, start + length // 2, start + length - 1})
    styles = {_letter(text_page, raw.FPDFText_GetCharIndexFromTextIndex(text_page, place)) for place in places}
    styles.discard(None)  # a blank between words has no letters
    return styles.pop() if len(styles) == 1 else None


def _letter(text_page: Any, index: int) -> Style | None:
    size = raw.FPDFText_GetFontSize(text_page, index) if index >= 0 else 0.0
    matrix = raw.FS_MATRIX()
    if not size > 0 or not raw.FPDFText_GetMatrix(text_page, index, matrix):
        return None
    name, flags = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int()
    raw.FPDFText_GetFontInfo(text_page, index, name, _NAME_BYTES, flags)
    called = name.value.decode("utf-8", "replace").lower()
    bold = (
        raw.FPDFText_GetFontWeight(text_page, index) >= _BOLD_FROM
        or bool(flags.value & _FORCED)
        or any(each in called for each in _BOLD_NAMES)
    )
    points = size * math.hypot(matrix.c, matrix.d)
    return Style(round(points * 2) / 2, bold) if math.isfinite(points) else None


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

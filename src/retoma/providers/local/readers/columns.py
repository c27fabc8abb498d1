"""Columns of a PDF with text, where the file sets them line by line across the page: pdfium then mixes them."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from retoma.providers.local import markup
from retoma.providers.local.readers import order
from retoma.providers.local.readers.order import Box

_MOST_BOXES = 1_000
_MIXED = 6
"""So many times a page goes on beside a line, across a blank, before its columns are looked for."""

_BLANK = 0.8
"""The width of that blank, in heights of the line."""

_KEPT = 0.995


def text_by_columns(text_page: Any, text: str) -> str | None:
    """*text*, which is that of *text_page*, column by column; None when it has none, or they are not mixed."""
    count = text_page.count_rects()
    if not 2 * _MIXED <= count <= _MOST_BOXES:
        return None
    frames = [text_page.get_rect(index) for index in range(count)]
    if sum(_beside(one, other) for one, other in pairwise(frames)) < _MIXED:
        return None
    boxes = [
        Box(left, -top, right, -bottom, " ".join(text_page.get_text_bounded(left, bottom, right, top).split()))
        for left, bottom, right, top in frames
    ]
    rows = order.rows_in_order(boxes)
    if len(rows) == len(order.rows([box for box in boxes if box.text])):
        return None  # no row was parted: there are no columns
    told = markup.undivided(
        "\n".join(" ".join(box.text for box in row) for row in rows).replace(markup.SOFT_HYPHEN, "-")
    )
    return told if _letters(told) >= _KEPT * _letters(text) else None


def _beside(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether *other* goes on in the line of *one*, to the right of a blank."""
    height = one[3] - one[1]
    return abs(one[1] + one[3] - other[1] - other[3]) < height and other[0] - one[2] > height * _BLANK


def _letters(text: str) -> int:
    return sum(map(str.isalnum, text))

"""Columns of a PDF with text, where the file sets them line by line across the page: pdfium then mixes them."""

from __future__ import annotations

import re
from collections.abc import Sequence
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

_TOUCHING = 0.15
"""Boxes that are nearer to each other than this, in heights of the line, belong to one word: an index, bold letters."""

_KEPT = 0.99
_BLANKS = re.compile(r"\s+")


def text_by_columns(text_page: Any, text: str) -> str | None:
    """*text*, which is that of *text_page*, column by column; None when it has none, or they are not mixed."""
    count = text_page.count_rects()
    if not 2 * _MIXED <= count <= _MOST_BOXES:
        return None
    frames = [text_page.get_rect(index) for index in range(count)]
    if sum(_beside(one, other) for one, other in pairwise(frames)) < _MIXED:
        return None
    boxes = [
        Box(left, -top, right, -bottom, _BLANKS.sub(" ", text_page.get_text_bounded(left, bottom, right, top)))
        for left, bottom, right, top in frames
    ]
    rows = order.rows_in_order(boxes)
    if len(rows) == len(order.rows([box for box in boxes if box.text.strip()])):
        return None  # no row was parted: there are no columns
    told = markup.undivided("\n".join(map(_line, rows)).replace(markup.SOFT_HYPHEN, "-"))
    return told if markup.words_kept(text.replace(markup.SOFT_HYPHEN, ""), told) >= _KEPT else None


def _line(row: Sequence[Box]) -> str:
    """The text of *row*: a blank stands where the file has one, or leaves room for one."""
    told = row[0].text
    for before, box in pairwise(row):
        apart = box.left - before.right > (box.bottom - box.top) * _TOUCHING
        told += f" {box.text}" if apart else box.text
    return " ".join(told.split())


def _beside(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """Whether *other* goes on in the line of *one*, to the right of a blank."""
    height = one[3] - one[1]
    return abs(one[1] + one[3] - other[1] - other[3]) < height and other[0] - one[2] > height * _BLANK

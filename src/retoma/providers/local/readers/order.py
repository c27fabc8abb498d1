"""The reading order of boxes of text on a page: columns one after the other, and rows where it is no column.

A column is a stretch of prose beside another one: its lines are long and fill it. The cells of a table and the fields
of a form are short, and stay in the row in which they stand.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import groupby
from statistics import median
from typing import NamedTuple

_STRIPS = 300
"""Into so many strips the width of a page is divided to find the blank between two columns."""

_CROSSED = 0.5
"""A strip that boxes cross for less than this share of the densest one may be a blank: headings run across it."""

_ROWS = 3
_LETTERS = 16
_FILLED = 0.6
_DEPTH = 6
_SAME_ROW = 0.5


class Box(NamedTuple):
    """Text and its place; y grows downwards."""

    left: float
    top: float
    right: float
    bottom: float
    text: str

    @property
    def middle(self) -> float:
        return (self.top + self.bottom) / 2


def lines(boxes: Sequence[Box]) -> list[str]:
    """The text of *boxes*, line by line, as a person reads it."""
    return ["  ".join(box.text for box in row) for row in rows_in_order(boxes)]


def rows_in_order(boxes: Sequence[Box]) -> list[list[Box]]:
    """Rows of boxes from left to right, in reading order."""
    return list(_ordered([box for box in boxes if box.text.strip()], _DEPTH))


def rows(boxes: Sequence[Box]) -> list[list[Box]]:
    """Boxes at the same height are one row, from left to right."""
    found: list[list[Box]] = []
    level = -math.inf
    for box in sorted(boxes, key=lambda each: each.middle):
        if not found or box.middle - level > (box.bottom - box.top) * _SAME_ROW:
            found.append([])
            level = box.middle
        found[-1].append(box)
    return [sorted(row) for row in found]


def _ordered(boxes: Sequence[Box], depth: int) -> Iterator[list[Box]]:
    gutter = _gutter(boxes) if depth else None
    if gutter is None:
        yield from rows(boxes)
        return
    for across, left, right in _bands(boxes, gutter):
        if _is_prose(left) and _is_prose(right):
            yield from _ordered(left, depth - 1)
            yield from _ordered(right, depth - 1)
        else:
            yield from rows([*left, *right])
        yield from rows(across)


def _gutter(boxes: Sequence[Box]) -> float | None:
    """The middle of the blank that parts the most prose into two columns; None when there is none."""
    if len(boxes) < 2 * _ROWS:
        return None
    start, end = min(box.left for box in boxes), max(box.right for box in boxes)
    best, most = None, 0
    for place in _blanks(boxes, start, end):
        parted = sum(
            len(left) + len(right) for _, left, right in _bands(boxes, place) if _is_prose(left) and _is_prose(right)
        )
        if parted > most:
            best, most = place, parted
    return best


def _blanks(boxes: Sequence[Box], start: float, end: float) -> Iterator[float]:
    """The middles of the strips that few boxes cross."""
    step = (end - start) / _STRIPS
    if step <= 0:
        return
    crossed = [0.0] * (_STRIPS + 1)
    for box in boxes:
        for strip in range(int((box.left - start) / step), min(_STRIPS, int((box.right - start) / step)) + 1):
            crossed[strip] += box.bottom - box.top
    limit = max(crossed) * _CROSSED
    for blank, run in groupby(range(1, _STRIPS), key=lambda strip: crossed[strip] < limit):
        if blank:
            strips = list(run)
            low = min(crossed[strip] for strip in strips)
            lowest = [strip for strip in strips if math.isclose(crossed[strip], low)]
            yield start + (lowest[0] + lowest[-1] + 1) / 2 * step


def _bands(boxes: Sequence[Box], gutter: float) -> Iterator[tuple[list[Box], list[Box], list[Box]]]:
    """From the top: a box that crosses *gutter* with the boxes that stand above it, left and right."""
    left: list[Box] = []
    right: list[Box] = []
    for box in sorted(boxes, key=lambda each: each.middle):
        if box.right <= gutter:
            left.append(box)
        elif box.left >= gutter:
            right.append(box)
        else:
            yield [box], left, right
            left, right = [], []
    yield [], left, right


def _is_prose(boxes: Sequence[Box]) -> bool:
    """Whether the rows of a column are long, and fill it."""
    made = rows(boxes)
    if len(made) < _ROWS:
        return False
    width = max(box.right for box in boxes) - min(box.left for box in boxes)
    filled = median(sum(box.right - box.left for box in row) / max(1e-6, width) for row in made)
    letters = median(sum(sum(map(str.isalpha, box.text)) for box in row) for row in made)
    return filled >= _FILLED and letters >= _LETTERS

"""Ruled tables of a PDF page: the lines that are drawn say where the cells are, and the cells hold the text.

A table is a set of horizontal and vertical lines that touch each other. Where the line between two cells is missing
they are one cell. Text that the cells would not hold whole, or whose words they would cut, is left as pdfium reads it.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from pypdfium2 import raw  # type: ignore[import-untyped]  # it has no types

from retoma.providers.local import markup

_NEAR = 2.5
"""Points by which two lines may miss each other."""

_SHORTEST = 6.0
_MOST_LINES = 4_000
_MOST_CELLS = 4_000
_FEWEST_CELLS = 4
_FILLED = 0.3
_HELD = 0.98
_WHOLE = 0.9
"""The share of the words in a frame that its cells hold whole. Underlines and highlights cut them, and are no table."""

_DEPTH = 3
_GENERATED = 1


class Rule(NamedTuple):
    """A line along one axis: where it lies on the other one, and from where to where it goes."""

    at: float
    start: float
    end: float


class Frame(NamedTuple):
    """The edges of a table or a cell; y grows upwards, as in a PDF."""

    left: float
    bottom: float
    right: float
    top: float

    def holds(self, x: float, y: float) -> bool:
        return self.left <= x <= self.right and self.bottom <= y <= self.top


class Ruled(NamedTuple):
    """A table: its frame, and its cells row by row."""

    frame: Frame
    rows: tuple[tuple[str, ...], ...]


def tables_of(page: Any, text_page: Any) -> list[Ruled]:
    """The ruled tables of *page*, from the top."""
    across, down = _rules(page)
    if len(across) < 2 or len(down) < 2:  # noqa: PLR2004  # a cell has two edges each way
        return []
    found = []
    for rows, columns in _joined(across, down):
        table = _table(rows, columns, text_page)
        if table is not None:
            found.append(table)
    return sorted(found, key=lambda each: -each.frame.top)


def text_with(text_page: Any, tables: Sequence[Ruled]) -> tuple[str, list[Ruled]]:
    """The text of *text_page* with the rows of *tables* in their places, and the tables that hold all that stands in
    their frames; the others are left out.
    """
    letters = list(_letters(text_page))
    kept = []
    for table in tables:
        inside = "".join(sign for sign, x, y in letters if table.frame.holds(x, y)).replace(markup.SOFT_HYPHEN, "")
        held = "\n".join(cell for row in table.rows for cell in row)
        letters_held = sum(map(str.isalnum, held)) >= _HELD * sum(map(str.isalnum, inside))
        if letters_held and markup.words_kept(inside, held) >= _WHOLE:
            kept.append(table)
    written: list[str] = []
    told: set[int] = set()
    for sign, x, y in letters:
        place = next((number for number, table in enumerate(kept) if table.frame.holds(x, y)), None)
        if place is None:
            written.append(sign)
        elif place not in told:
            told.add(place)
            begun = not written or written[-1] == "\n"
            written += ["" if begun else "\n", *(f"{markup.row_line(row)}\n" for row in kept[place].rows)]
    return "".join(written), kept


def _letters(text_page: Any) -> Iterator[tuple[str, float, float]]:
    """Each letter and its middle; a blank or a line end that pdfium added is where the letter before it is."""
    left, right, bottom, top = (ctypes.c_double() for _ in range(4))
    x = y = -1.0
    for index in range(text_page.count_chars()):
        sign = chr(raw.FPDFText_GetUnicode(text_page, index))
        if raw.FPDFText_IsHyphen(text_page, index) == 1:
            sign = markup.SOFT_HYPHEN
        if raw.FPDFText_IsGenerated(text_page, index) != _GENERATED and raw.FPDFText_GetCharBox(
            text_page, index, left, right, bottom, top
        ):
            x, y = (left.value + right.value) / 2, (bottom.value + top.value) / 2
        yield sign, x, y


# — lines —


def _rules(page: Any) -> tuple[list[Rule], list[Rule]]:
    """The horizontal and the vertical lines of *page*; none where there are so many that it is a drawing."""
    across: list[Rule] = []
    down: list[Rule] = []
    for each in page.get_objects(filter=(raw.FPDF_PAGEOBJ_PATH,), max_depth=_DEPTH):
        for (x, y), (to_x, to_y) in _segments(each.raw):
            if abs(y - to_y) <= _NEAR / 2 and abs(x - to_x) >= _SHORTEST:
                across.append(Rule((y + to_y) / 2, min(x, to_x), max(x, to_x)))
            elif abs(x - to_x) <= _NEAR / 2 and abs(y - to_y) >= _SHORTEST:
                down.append(Rule((x + to_x) / 2, min(y, to_y), max(y, to_y)))
        if len(across) + len(down) > _MOST_LINES:
            return [], []
    return _merged(across), _merged(down)


def _segments(path: Any) -> Iterator[tuple[tuple[float, float], tuple[float, float]]]:
    matrix = raw.FS_MATRIX()
    raw.FPDFPageObj_GetMatrix(path, matrix)
    x, y = ctypes.c_float(), ctypes.c_float()
    first: tuple[float, float] | None = None
    last: tuple[float, float] | None = None
    for index in range(min(_MOST_LINES, raw.FPDFPath_CountSegments(path))):
        segment = raw.FPDFPath_GetPathSegment(path, index)
        if not segment or not raw.FPDFPathSegment_GetPoint(segment, x, y):
            return
        here = (
            matrix.a * x.value + matrix.c * y.value + matrix.e,
            matrix.b * x.value + matrix.d * y.value + matrix.f,
        )
        kind = raw.FPDFPathSegment_GetType(segment)
        if kind == raw.FPDF_SEGMENT_MOVETO or last is None:
            first = here
        elif kind == raw.FPDF_SEGMENT_LINETO:
            yield last, here
        if raw.FPDFPathSegment_GetClose(segment) and first is not None:
            yield here, first
        last = here


def _merged(rules: Iterable[Rule]) -> list[Rule]:
    """*rules* with those joined that continue each other, or lie on each other."""
    levels: list[list[Rule]] = []
    for rule in sorted(rules):
        if levels and rule.at - levels[-1][0].at <= _NEAR:
            levels[-1].append(rule)
        else:
            levels.append([rule])
    found = []
    for level in levels:
        at = sum(rule.at for rule in level) / len(level)
        start, end = level[0].start, level[0].end
        for rule in sorted(level, key=lambda each: each.start):
            if rule.start > end + _NEAR:
                found.append(Rule(at, start, end))
                start = rule.start
            end = max(end, rule.end) if rule.start <= end + _NEAR else rule.end
            start = min(start, rule.start)
        found.append(Rule(at, start, end))
    return found


def _joined(across: Sequence[Rule], down: Sequence[Rule]) -> Iterator[tuple[list[Rule], list[Rule]]]:
    """Lines that touch each other, together."""
    waiting_across, waiting_down = set(across), set(down)
    while waiting_across:
        rows, columns, fresh = [waiting_across.pop()], [], True
        while fresh:
            met = [rule for rule in waiting_down if any(_touch(row, rule) for row in rows)]
            waiting_down.difference_update(met)
            columns += met
            more = [rule for rule in waiting_across if any(_touch(rule, column) for column in columns)]
            waiting_across.difference_update(more)
            rows += more
            fresh = bool(met or more)
        yield rows, columns


def _touch(row: Rule, column: Rule) -> bool:
    return row.start - _NEAR <= column.at <= row.end + _NEAR and column.start - _NEAR <= row.at <= column.end + _NEAR


# — cells —


def _table(rows: Sequence[Rule], columns: Sequence[Rule], text_page: Any) -> Ruled | None:
    ys = _distinct((rule.at for rule in rows), reverse=True)
    xs = _distinct(rule.at for rule in columns)
    high, wide = len(ys) - 1, len(xs) - 1
    if high < 1 or wide < 2 or not _FEWEST_CELLS <= high * wide <= _MOST_CELLS:  # noqa: PLR2004  # a box is no table
        return None
    cells = [[""] * wide for _ in range(high)]
    taken: set[tuple[int, int]] = set()
    for row in range(high):
        for column in range(wide):
            if (row, column) in taken:
                continue
            right = column + 1
            while right < wide and not _parted(columns, xs[right], (ys[row] + ys[row + 1]) / 2):
                right += 1
            low = row + 1
            while low < high and not _parted(rows, ys[low], (xs[column] + xs[right]) / 2):
                low += 1
            taken |= {(y, x) for y in range(row, low) for x in range(column, right)}
            cells[row][column] = _inside(text_page, Frame(xs[column], ys[low], xs[right], ys[row]))
    filled = [row for row in cells if any(row)]
    count = sum(bool(cell) for row in filled for cell in row)
    if len(filled) < 2 or count < max(_FEWEST_CELLS, _FILLED * len(filled) * wide):  # noqa: PLR2004  # one row is no table
        return None
    return Ruled(Frame(xs[0], ys[-1], xs[-1], ys[0]), tuple(tuple(row) for row in filled))


def _distinct(values: Iterable[float], *, reverse: bool = False) -> list[float]:
    found: list[float] = []
    for value in sorted(values, reverse=reverse):
        if not found or abs(value - found[-1]) > _NEAR:
            found.append(value)
    return found


def _parted(rules: Iterable[Rule], at: float, along: float) -> bool:
    """Whether a line lies at *at* where it passes *along*."""
    return any(abs(rule.at - at) <= _NEAR and rule.start <= along <= rule.end for rule in rules)


def _inside(text_page: Any, frame: Frame) -> str:
    told = text_page.get_text_bounded(*frame).replace(markup.SOFT_HYPHEN, "")
    return "\n".join(" ".join(line.split()) for line in markup.clean(told).splitlines() if line.strip())

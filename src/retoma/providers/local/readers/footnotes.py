"""Footnotes of a PDF page, apart from the text: no sentence that goes on over the page is cut by them.

A note stands at the foot of its column in smaller letters and begins with a mark, a number or an asterisk, that is
raised or in brackets in the text above. What is read has each note in brackets, as those of a DOCX are: at the foot of
the page where a sentence ends there, and before the sentence that goes on where none does. No word is lost, and what
cannot be told for sure is left as it was.
"""

from __future__ import annotations

import ctypes
import math
import re
from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from pypdfium2 import raw  # type: ignore[import-untyped]  # it has no types

from retoma.providers.local import markup

_SMALLER = 0.92
"""Letters of this size or less, measured by those of the text above, may be those of a note."""

_RAISED, _SMALL = 0.12, 0.8
"""A mark in the text is higher than the letter before it by this share of its size, or as small as this."""

_FURNITURE, _FURNITURE_LINES = 90, 2
"""Characters and lines of what may stand below the notes: a page number, a running foot."""

_APART = 1.7
"""A line below the notes is none of theirs when it is so much farther off than they are from each other."""

_MOST_LINES = 250
_SAMPLES = 5

_EDGES = re.compile(f"(\r?\n|{markup.SOFT_HYPHEN})")
_SUPERSCRIPTS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_MARK = re.compile(r"\s{0,9}[\[(]?(\d{1,3}|[*†‡]{1,3}|[⁰¹²³⁴-⁹]{1,3})[\])]?[.):–-]?\s{0,4}(?=[^\W\d_]|[\"“«‘(\[])")
_NUMBER = re.compile(  # bounded everywhere: a line of signs alone may be long
    r"\W{0,9}(?:p[áa]g(?:ina|\.)?|page|p\.)?\W{0,9}\d{1,4}(?:\W{0,3}(?:/|de|of)\W{0,3}\d{1,4})?\W{0,9}",
    re.IGNORECASE,
)
_ENDED = re.compile(r"[.!?…:;][\"”»’)\]]*[\d*†‡\s]{0,4}\Z")
_ENDS = re.compile(r"[.!?…][\"”»’)\]]*(?:\s?[\d*†‡]{1,3})?(?=\s+[\"“«‘(—–-]?\s?[A-ZÀ-Ý])")
_SHORT = re.compile(r"(?<!\w)\w{1,3}\.\Z")
"""What looks like an abbreviation ends no sentence: "art. 5", "Sr. Silva"."""


class Line(NamedTuple):
    """A line as it is set; *y* is that of its letters' feet and grows upwards."""

    text: str
    left: float
    right: float
    y: float
    size: float

    def beside(self, other: Line) -> bool:
        """Whether they stand in one column."""
        return self.left < other.right and other.left < self.right


class Apart(NamedTuple):
    """The text of a page with its notes apart, and whether the last of them goes on at the foot of the next page."""

    text: str
    open: bool


def apart(text_page: Any, found: str, text: str, *, going_on: bool) -> Apart:
    """*text* with the notes apart; *found* is that of *text_page* as pdfium tells it. *going_on* tells that the last
    note of the page before has no end.
    """
    pieces = _EDGES.split(found)[::2]
    if len(pieces) > _MOST_LINES or not (going_on or any(map(_MARK.match, pieces))):
        return Apart(text, open=False)
    page = _Page(text_page, found)
    blocks = list(page.notes(going_on=going_on))
    if not blocks:
        return Apart(text, open=False)
    told = _told(text, [[page.lines[place].text for place in block] for block in blocks], page.below)
    last = page.lines[blocks[-1][-1]].text
    return Apart(told, open=told is not text and not _ENDED.search(last.strip()))


class _Page:
    """The lines of a page in the order of the file, with their places."""

    def __init__(self, text_page: Any, found: str) -> None:
        self._page, self._found = text_page, found
        self._x, self._y, self._matrix = ctypes.c_double(), ctypes.c_double(), raw.FS_MATRIX()
        self.lines: list[Line] = []
        self._starts: list[int] = []
        self.below: set[str] = set()
        """What stands below the notes."""
        at = 0
        for place, piece in enumerate(_EDGES.split(found)):
            if place % 2 == 0 and piece.strip() and (line := self._line(piece, at)):
                self.lines.append(line)
                self._starts.append(at)
            at += _units(piece)

    def notes(self, *, going_on: bool) -> Iterator[list[int]]:
        """The places of the lines of each block of notes: one at the foot of each column."""
        done = -1
        for place, line in enumerate(self.lines):
            if place <= done:
                continue
            mark = _MARK.match(line.text)
            if mark is None and not going_on:
                continue
            size = self._size_of_text(place)
            if not size or line.size > size * _SMALLER:
                continue
            block = self._block(place, size)
            if block and (self._is_called(mark[1], place, size) if mark else self._room_above(place)):
                done, going_on = block[-1], False
                yield block

    def _size_of_text(self, place: int) -> float:
        """The size of most letters before *place*; 0 where nothing stands above it in its column."""
        own, sizes = self.lines[place], Counter[float]()
        for line in self.lines[:place]:
            sizes[line.size] += len(line.text)
        if not any(line.y > own.y and line.beside(own) for line in self.lines[:place]):
            return 0.0
        return sizes.most_common(1)[0][0] if sizes else 0.0

    def _block(self, place: int, size: float) -> list[int]:
        """The lines from *place* to the foot of its column; none where the text goes on below them."""
        block = [place]
        for each in range(place + 1, len(self.lines)):
            line, last = self.lines[each], self.lines[block[-1]]
            if line.size > size * _SMALLER or line.y > last.y or not line.beside(self.lines[place]):
                break
            block.append(each)
        steps = sorted(self.lines[one].y - self.lines[two].y for one, two in pairwise(block))
        usual = steps[0] if steps else self.lines[place].size * 1.25
        while len(block) > 1:
            last, before = self.lines[block[-1]], self.lines[block[-2]]
            far = before.y - last.y > max(usual, last.size) * _APART and not _MARK.match(last.text)
            if not far and not _NUMBER.fullmatch(last.text):
                break
            block.pop()
        foot = min(self.lines[each].y for each in block)
        under = [
            line
            for each, line in enumerate(self.lines)
            if each not in block and line.y < foot and (line.beside(self.lines[place]) or _NUMBER.fullmatch(line.text))
        ]
        if len(under) > _FURNITURE_LINES or any(len(line.text) > _FURNITURE for line in under):
            return []
        self.below |= {_squashed(line.text) for line in under}
        return block

    def _is_called(self, mark: str, place: int, size: float) -> bool:
        """Whether *mark* stands in the text before *place*, in brackets, raised or small."""
        plain, most = mark.translate(_SUPERSCRIPTS), self._starts[place]
        told = self._found.encode("utf-16-le", "surrogatepass")[: 2 * most].decode("utf-16-le", "surrogatepass")
        sign = re.escape(plain)
        if re.search(rf"\S\s?\[{sign}\]|\w\({sign}\)", told):
            return True
        if not plain.isdigit():
            return re.search(rf"[^\s*†‡]\s?{sign}(?![*†‡])", told) is not None
        for one in re.finditer(rf"(?<=[^\s\d])\s?({sign})(?![\dºª°%]|[.,]\d)", told.translate(_SUPERSCRIPTS)):
            at = one.start(1)
            if told[at] in "⁰¹²³⁴⁵⁶⁷⁸⁹":
                return True
            index, before = (self._index(_units(told[:each])) for each in (at, one.start() - 1))
            low, high = self._origin(before), self._origin(index)
            raised = low is not None and high is not None and size * _RAISED < high[1] - low[1] < size
            if raised or 0 < self._size(index) <= size * _SMALL:
                return True
        return False

    def _room_above(self, place: int) -> bool:
        """Whether the line at *place* is farther from the one above than lines of its size are."""
        own = self.lines[place]
        above = [line.y for line in self.lines[:place] if line.y > own.y and line.beside(own)]
        return bool(above) and min(above) - own.y > own.size * _APART

    def _line(self, piece: str, at: int) -> Line | None:
        start, length = at + len(piece) - len(piece.lstrip()), len(piece.strip())
        first, last = self._index(start), self._index(start + length - 1)
        left, right = self._origin(first), self._origin(last)
        if left is None or right is None:
            return None
        places = {start + length * part // (_SAMPLES + 1) for part in range(1, _SAMPLES + 1)}
        sizes = Counter(size for place in sorted(places) if (size := self._size(self._index(place))))
        if not sizes:
            return None
        middle = self._origin(self._index(start + length // 2))
        y = middle[1] if middle else right[1]  # a raised mark may begin the line
        return Line(piece, left[0], max(right[0], left[0] + 1), y, sizes.most_common(1)[0][0])

    def _index(self, place: int) -> int:
        return int(raw.FPDFText_GetCharIndexFromTextIndex(self._page, place))

    def _origin(self, index: int) -> tuple[float, float] | None:
        if index < 0 or not raw.FPDFText_GetCharOrigin(self._page, index, self._x, self._y):
            return None
        return self._x.value, self._y.value

    def _size(self, index: int) -> float:
        size = raw.FPDFText_GetFontSize(self._page, index) if index >= 0 else 0.0
        if not size > 0 or not raw.FPDFText_GetMatrix(self._page, index, self._matrix):
            return 0.0
        points = size * math.hypot(self._matrix.c, self._matrix.d)
        return round(points * 4) / 4 if math.isfinite(points) else 0.0


def _told(text: str, blocks: Sequence[Sequence[str]], below: set[str]) -> str:
    """*text* with *blocks* of notes apart; *text* itself where one of them is not found in it line by line."""
    parts = _EDGES.split(text)
    lines, edges = parts[::2], [*parts[1::2], ""]
    notes: list[str] = []
    for block in blocks:
        place = _place_of(block, lines)
        if place is None:
            return text
        end = place + len(block)
        notes += _bracketed(lines[place:end], edges[place : end - 1])
        del lines[place:end]
        del edges[place:end]
    end = len(lines)
    while end and (not lines[end - 1].strip() or _squashed(lines[end - 1]) in below):
        end -= 1
    if not end:
        return text
    body = "".join(line + edge for line, edge in zip(lines[:end], edges[:end], strict=True)).rstrip("\r\n")
    if body.endswith(markup.SOFT_HYPHEN):  # its word goes on over the page
        body = f"{body[:-1]}-"
    rest = "".join(line + edge for line, edge in zip(lines[end:], edges[end:], strict=True))
    cut = len(body) if _ENDED.search(body) else _last_end(body)
    if cut is None:
        cut = len(body)
    ways = (body[:cut].rstrip(), *notes, body[cut:].lstrip(), rest)
    return "\n".join(each for each in ways if each)


def _place_of(block: Sequence[str], lines: Sequence[str]) -> int | None:
    """Where *block* stands in *lines*, which may have other blanks; the last place if there are several."""
    sought, known = [_squashed(each) for each in block], [_squashed(each) for each in lines]
    for place in range(len(known) - len(sought), -1, -1):
        if known[place : place + len(sought)] == sought:
            return place
    return None


def _bracketed(lines: Sequence[str], edges: Sequence[str]) -> Iterator[str]:
    """Each note in brackets; what has no mark goes on from the page before."""
    note = ""
    for line, edge in zip(lines, ["\n", *edges], strict=True):
        if note and edge != markup.SOFT_HYPHEN and _MARK.match(line):
            yield f"[{note.strip()}]"
            note = line
        else:
            note = f"{note}{edge}{line}" if note else line
    yield f"[{note.strip()}]"


def _last_end(body: str) -> int | None:
    """Where the last whole sentence of *body* ends; None where none does."""
    ends = [found.end() for found in _ENDS.finditer(body) if not _SHORT.search(body[: found.start() + 1])]
    return ends[-1] if ends else None


def _squashed(text: str) -> str:
    return "".join(text.split())


def _units(text: str) -> int:
    return len(text.encode("utf-16-le", "surrogatepass")) // 2  # pdfium counts so

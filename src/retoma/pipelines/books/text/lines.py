"""The lines of a document with their pages, without page numbers and running heads."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from statistics import median

from retoma.pipelines.books.text import headings
from retoma.pipelines.books.text.numerals import fold
from retoma.providers import Extraction, Page

_RUNNING, _RUNNING_PAGES = 120, 4
_NUMBERS = re.compile(r"\d+")
_ENDS = tuple(".!?…:\"”»')]—")
_DENSE = 0.02
_DIVIDED = re.compile(r"[^\W\d_]{2}-$")
_REST = re.compile(r"([a-zß-öø-ÿ]{2,40}[^\w\s]{0,3})(?:\s|$)")
_DIGITS = "0123456789"
_FAR = 3
_STACKED = 3
_DEFAULT_WIDTH = 70


@dataclass(frozen=True, slots=True)
class Line:
    """A line and its page."""

    text: str
    page: int


class Lines:
    """All lines of a document in order; words are counted once."""

    def __init__(self, found: Sequence[Line]) -> None:
        self.all = list(found)
        self._words = [0]
        for line in self.all:
            self._words.append(self._words[-1] + len(line.text.split()))
        filled = [line.text for line in self.all if line.text.strip()]
        self.dense = len(self.all) - len(filled) < _DENSE * max(1, len(self.all))
        """Whether paragraphs follow each other without a blank line."""
        self.width = median([len(text) for text in filled]) if filled else _DEFAULT_WIDTH

    def __len__(self) -> int:
        return len(self.all)

    def __getitem__(self, place: int) -> Line:
        return self.all[place]

    def words(self, start: int, end: int) -> int:
        """How many words the lines from *start* to before *end* have."""
        return self._words[max(start, end)] - self._words[start]

    def blank(self, place: int) -> bool:
        """Whether there is nothing at *place*: an empty line, or an edge of the document."""
        return not 0 <= place < len(self.all) or not self.all[place].text.strip()

    def opens(self, place: int) -> bool:
        """Whether a heading may stand at *place*: nothing before it on its page, or a sentence that has ended."""
        if self.blank(place - 1) or self.all[place - 1].page != self.all[place].page:
            return True
        if self.dense:
            return self.all[place - 1].text.rstrip().endswith(_ENDS)
        # Headings may stand on top of each other: a part above its first chapter.
        for above in range(place - 1, max(-1, place - 1 - _STACKED), -1):
            if self.blank(above):
                return True
            if headings.read(self.all[above].text) is None:
                return False
        return False

    def alone(self, place: int) -> bool:
        """Whether the line at *place* stands by itself."""
        return self.opens(place) and (self.closes(place) or self.dense)

    def closes(self, place: int) -> bool:
        """Whether nothing stands below the line at *place*: a blank line, or the end of its page."""
        return self.blank(place + 1) or self.all[place + 1].page != self.all[place].page

    def next_filled(self, place: int, within: int) -> int | None:
        """The first line from *place* on with something in it, no further than *within* lines."""
        return next((at for at in range(place, min(place + within, len(self.all))) if not self.blank(at)), None)


def read(document: Extraction) -> Lines:
    """The lines of *document* but for page numbers and what runs along the edges of its pages."""
    pages = document.pages
    edges = Counter(pattern for page in pages for pattern in {_pattern(line) for line in _edge_lines(page)})
    often = max(_RUNNING_PAGES, len(pages) // 3)
    running = {line for line, times in edges.items() if times >= often and len(line) <= _RUNNING}
    found: list[Line] = []
    seen: set[str] = set()
    for page in pages:
        lines = page.text.split("\n")
        at_edge = _edges(lines)
        kept: list[Line] = []
        for place, line in enumerate(lines):
            if place in at_edge and len(pages) > 1:
                if _page_number(line, page.number):
                    continue
                if _pattern(line) in running:
                    # The heading of a chapter runs along too, and the first time it is a heading.
                    heading = fold(without_number(line)[0])
                    told = headings.read(without_number(line)[0])
                    if heading in seen or told is None or told.style not in {"named", "lone"}:
                        continue
                    seen.add(heading)
            kept.append(Line(line, page.number))
        # What is blank at the edges of a page parts nothing: a sentence may go on over the page.
        filled = [place for place, line in enumerate(kept) if line.text.strip()]
        fresh = kept[filled[0] : filled[-1] + 1] if filled else []
        if found and fresh:
            found[-1], fresh[0] = _undivided(found[-1], fresh[0])
        found += fresh
    return Lines(found)


def _undivided(last: Line, first: Line) -> tuple[Line, Line]:
    """The last line of a page and the first of the next; a word that was divided between them is whole in the first."""
    rest = _REST.match(first.text)
    if rest is None or not _DIVIDED.search(last.text.rstrip()[-3:]):
        return last, first
    return replace(last, text=last.text.rstrip()[:-1] + rest[1]), replace(first, text=first.text[rest.end() :])


def without_number(line: str) -> tuple[str, bool]:
    """*line* without the number at its end, and whether it looks like a line of a table of contents: "Title ... 12"."""
    whole = line.rstrip()
    before = whole.rstrip(_DIGITS)
    if before == whole:
        return line, whole.endswith(("....", ". . ."))
    title = before.rstrip()
    dotted = title.endswith(("...", "…", ". .", "··"))
    return title.rstrip(" .…·"), dotted or len(before) - len(title) >= _FAR


def _edge_lines(page: Page) -> list[str]:
    lines = page.text.split("\n")
    return [lines[place] for place in _edges(lines)]


def _edges(lines: Sequence[str]) -> set[int]:
    """The places of the first and the last line that is not empty."""
    first = next((place for place, line in enumerate(lines) if line.strip()), None)
    if first is None:
        return set()
    last = next(place for place in range(len(lines) - 1, -1, -1) if lines[place].strip())
    return {first, last}


def _pattern(line: str) -> str:
    return _NUMBERS.sub("#", line.strip())


def _page_number(line: str, page: int) -> bool:
    """Whether *line* is nothing but a number of a page: larger than that of a chapter, or near the page's."""
    bare = line.strip(" –—-[]()\t")
    return bare.isdigit() and (abs(int(bare) - page) <= 40 or int(bare) > 400)  # noqa: PLR2004  # front pages; no chapter

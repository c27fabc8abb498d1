"""A way of looking, carried through: which lines are chapters, and which are left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from retoma.pipelines.books.text import cuts as cutting
from retoma.pipelines.books.text import matter
from retoma.pipelines.books.text.cuts import TINY, Cut
from retoma.pipelines.books.text.detectors import Found, Seen
from retoma.pipelines.books.text.lines import Lines

MOST_SHARE = 0.6
FEW_CHAPTERS, MANY_WORDS = 3, 60_000
_OPENING_WORDS, _OPENING_PARAGRAPH = 300, 20
_PART_WORDS = 100
_COVER_WORDS = 100
_EDGE = 3
_TITLE_WORDS = 8


@dataclass(frozen=True, slots=True)
class Span:
    """Lines from *start* to before *end*, under the heading *cut*."""

    cut: Cut
    start: int
    end: int
    words: int
    part: str = ""


@dataclass(frozen=True, slots=True)
class Layout:
    """Chapters and what is left out, as lines."""

    seen: Seen
    chapters: tuple[Span, ...]
    left_out: tuple[Span, ...]

    @property
    def words(self) -> int:
        """Words of all chapters."""
        return sum(span.words for span in self.chapters)

    @property
    def largest(self) -> Span | None:
        return max(self.chapters, key=lambda span: span.words, default=None)

    @property
    def share(self) -> float:
        """The share of the words that the largest chapter has."""
        return self.largest.words / max(1, self.words) if self.largest else 1.0

    @property
    def trusted(self) -> bool:
        """Whether no chapter is most of the book, and a long book has more than two."""
        return self.share <= MOST_SHARE and not (len(self.chapters) < FEW_CHAPTERS and self.words > MANY_WORDS)

    @property
    def counted(self) -> float:
        """The share of the chapters whose numbers follow each other."""
        cuts = [span.cut for span in self.chapters]
        return len(cutting.in_sequence([cut for cut in cuts if cut.value])) / len(cuts) if cuts else 0.0

    @property
    def restarts(self) -> int:
        """How often the count of chapters begins at 1."""
        return sum(span.cut.value == 1 for span in self.chapters)


@dataclass(frozen=True, slots=True)
class Ground:
    """What every way of looking shares: the lines of the work, headings without a number, what is no chapter."""

    lines: Lines
    start: int
    end: int
    lone: tuple[Cut, ...]
    matters: tuple[Cut, ...]

    @classmethod
    def of(cls, lines: Lines, found: Found) -> Ground:
        """Look for them in *lines*; *found* are all lines that may be headings."""
        start, end = 0, len(lines)
        for place, line in enumerate(lines.all):
            if place < len(lines) // 2 and matter.is_start_of_work(line.text):
                start = place + 1
            elif end == len(lines) and place > len(lines) // 3 and matter.is_end_of_work(line.text):
                end = place
        matters = tuple(
            Cut(place, place + 1, "", 0, line.text.strip("#*_ .:"), kind)
            for place, line in enumerate(lines.all)
            if start <= place < end and (kind := matter.kind_of(line.text)) and lines.opens(place)
        )
        edges = sorted({*(place for place, _ in found), *(cut.line for cut in matters), end, len(lines)})
        below = dict(pairwise(edges))
        lone = [
            cutting.with_title(lines, place, told)
            for place, told in found
            if told.style == "lone"
            and start <= place < end
            and lines.alone(place)
            and lines.words(place + 1, below.get(place, end)) >= TINY
        ]
        times = Counter(cut.key for cut in lone)
        return cls(lines, start, end, tuple(cut for cut in lone if times[cut.key] == 1), matters)

    def arrange(self, seen: Seen) -> Layout:
        """What the book looks like when *seen* are its chapters."""
        cuts = [cut for cut in seen.cuts if self.start <= cut.line < self.end]
        own = [cut.line for cut in cuts if cut.kind == "chapter"]
        first, last = min(own, default=self.end), max(own, default=self.start)
        taken = {line for cut in cuts for line in range(cut.line, cut.body)}
        for cut in (*self.lone, *self.matters):
            inside = first < cut.line < last
            if cut.line in taken or (inside and cut.kind in {"chapter", "front matter"}):
                continue
            cuts.append(cut)
            taken |= {*range(cut.line, cut.body)}
        return self._spans(seen, sorted(cuts, key=lambda cut: cut.line))

    def _spans(self, seen: Seen, cuts: Sequence[Cut]) -> Layout:
        edges = [*(cut.line for cut in cuts), self.end]
        chapters: list[Span] = []
        left: list[Span] = []
        part = ""
        self._edge(left, "licence", 0, self.start)
        self._opening(chapters, left, self.start, edges[0])
        for place, (cut, following) in enumerate(zip(cuts, edges[1:], strict=True)):
            body = min(cut.body, following)
            # Where chapters are counted anew, the title of the next work or part stands above.
            anew = place + 1 < len(cuts) and cuts[place + 1].value == 1 and cut.value > 1
            end = self._above_title(body, following) if anew else following
            self._edge(left, "part title", end, following)
            span = Span(cut, body, end, self.lines.words(body, end), part)
            if cut.kind == "part":
                part = cut.title or cut.number
                kind = "" if span.words >= _PART_WORDS else "part title"
            else:
                kind = cut.kind if cut.kind != "chapter" else self._doubtful(span, cut, chapters)
            if not kind:
                chapters.append(replace(span, cut=replace(cut, kind="chapter")))
            elif span.words:
                left.append(replace(span, cut=replace(cut, kind=kind)))
        self._edge(left, "licence", self.end, len(self.lines))
        self._licences(chapters, left)
        left.sort(key=lambda span: span.start)
        return Layout(seen, tuple(chapters), tuple(left))

    def _above_title(self, start: int, end: int) -> int:
        """Where the body ends when the last lines before *end* are a title page: short, alone, and no sentence."""
        while end > start:
            last = end - 1
            while last > start and self.lines.blank(last):
                last -= 1
            text = self.lines[last].text.strip()
            is_title = len(text.split()) <= _TITLE_WORDS and text[-1:].isalnum() and text[0].isupper()
            if last <= start or not is_title or not self.lines.alone(last):
                break
            end = last
        return end

    def _doubtful(self, span: Span, cut: Cut, before: Sequence[Span]) -> str:
        """Why the body of a heading is no chapter: nothing, or next to nothing that carries no number."""
        if not span.words:
            return "part title"
        if cut.value or span.words >= _COVER_WORDS:
            return ""
        if not before:
            return "front matter"
        return "part title" if span.words < TINY else ""

    def _edge(self, left: list[Span], kind: str, start: int, end: int) -> None:
        if words := self.lines.words(start, end):
            left.append(Span(Cut(start, start, "", 0, "", kind), start, end, words))

    def _opening(self, chapters: list[Span], left: list[Span], start: int, end: int) -> None:
        """What stands before the first heading: prose is a chapter, a cover is not."""
        words = self.lines.words(start, end)
        if words >= _OPENING_WORDS and self._is_prose(start, end) and not matter.is_licence(self.lines, start, end):
            place = self.lines.next_filled(start, end - start)
            title = self.lines[place if place is not None else start].text.strip()[:80]
            chapters.append(Span(Cut(start, start, "0", 0, title), start, end, words))
        else:
            self._edge(left, "front matter", start, end)

    def _is_prose(self, start: int, end: int) -> bool:
        """Whether paragraphs are long enough to be read, and end as sentences do."""
        paragraphs: list[list[str]] = [[]]
        for place in range(start, end):
            if self.lines.blank(place):
                paragraphs.append([])
            else:
                paragraphs[-1].append(self.lines[place].text.strip())
        long = [each for each in paragraphs if sum(len(line.split()) for line in each) >= _OPENING_PARAGRAPH]
        words = sum(len(line.split()) for each in long if each[-1][-1] in '.!?…"”»' for line in each)
        return words * 2 > self.lines.words(start, end)

    def _licences(self, chapters: list[Span], left: list[Span]) -> None:
        """Take licence texts from the edges of the book: no numbered chapter, and of rights alone."""
        edges = {*range(min(_EDGE, len(chapters))), *range(max(0, len(chapters) - _EDGE), len(chapters))}
        for place in sorted(edges, reverse=True):
            span = chapters[place]
            if not span.cut.value and matter.is_licence(self.lines, span.start, span.end):
                left.append(replace(span, cut=replace(span.cut, kind="licence")))
                del chapters[place]

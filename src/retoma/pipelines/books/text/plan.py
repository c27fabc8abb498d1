"""Which chapters a book has.

Every way of looking is tried: the document's own navigation or outline, headings by name, by marks, by numerals, by
typography. A list is not trusted when one chapter has more than 60 % of the words, or when a book of more than 60,000
words has fewer than three: another way of looking is tried, then the largest chapter alone is looked at. If that does
not help, the plan says its doubts and a person decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from statistics import median

from retoma.pipelines.books.ports import Chapter, ChapterPlan, LeftOut
from retoma.pipelines.books.text import cuts as cutting
from retoma.pipelines.books.text import detectors, doubts
from retoma.pipelines.books.text.cuts import Cut
from retoma.pipelines.books.text.detectors import Found, Seen
from retoma.pipelines.books.text.layout import Ground, Layout, Span
from retoma.pipelines.books.text.lines import Line, Lines, read
from retoma.providers import Extraction
from retoma.providers.local.outlines import Heading, chapters

VERSION = "books-1"
"""Of the detector; another one may find other chapters."""

WHOLE_WITHOUT_DOUBT = 3_000
"""Words: a text of fewer has nothing to be parted, and is one chapter without anybody being asked."""

_LEAST = {"outline": 2, "navigation": 2, "styled": 2, "named": 2, "markdown": 2}
_LEAST_NUMERALS = 3
_MORE = 1.5
_LESS = 0.05
"""By how much the largest chapter must shrink before a way of looking that is trusted less is believed."""
_COUNTED = 0.9
_LONG_CHAPTER, _SHORT_CHAPTER = 8_000, 300


def detect(document: Extraction) -> ChapterPlan:
    """The chapters of *document* in order, what is left out, and why a person should look at it first."""
    lines = read(document)
    found = cutting.candidates(lines)
    ground = Ground.of(lines, found)
    best = _best(ground, found, document)
    if best is not None and not best.trusted:
        best = _refined(ground, best)
    if best is None:
        return _whole(ground)
    return _plan(ground, best)


def needs_review(plan: ChapterPlan) -> bool:
    """Whether a person must look at *plan* before anything is paid."""
    return bool(plan.doubts)


# — choosing —


def _best(ground: Ground, found: Found, document: Extraction | None) -> Layout | None:
    """The most trusted layout; one that nobody trusts when there is no other."""
    best: Layout | None = None
    for seen in _looks(ground, found, document):
        layout = ground.arrange(seen)
        if len(layout.chapters) < _LEAST.get(seen.detector, _LEAST_NUMERALS) or seen.count < 2:  # noqa: PLR2004  # no list
            continue
        if best is None or _better(layout, best):
            best = _below(ground, layout, best)
    return best


def _looks(ground: Ground, found: Found, document: Extraction | None) -> Iterator[Seen]:
    lines = ground.lines
    ends = [cut.line for cut in ground.matters]
    inside = [(place, told) for place, told in found if ground.start <= place < ground.end]
    if document is not None:
        detector = "navigation" if document.reader == "epub" else "outline"
        yield detectors.by_outline(lines, document.outline, detector)
    yield detectors.by_name(lines, inside, ends)
    if document is not None and document.headings:
        styled = chapters([Heading(*each) for each in document.headings])
        yield detectors.by_outline(lines, styled, "styled")
    yield detectors.by_marks(lines, inside)
    for style in ("roman", "word", "digit", "roman title", "numbered"):
        yield detectors.by_numeral(lines, inside, ends, style)
    for style in ("capitals", "titles"):
        yield detectors.by_typography(lines, ends, style)


def _better(one: Layout, best: Layout) -> bool:
    """Whether *one*, seen by a way that is trusted less, is still the better list."""
    if not (one.trusted and best.trusted):
        return one.trusted or (not best.trusted and one.share < best.share - _LESS)
    if one.counted < _COUNTED or len(one.chapters) < _MORE * len(best.chapters):
        return False
    if best.seen.parts or (one.seen.detector == "named" and not one.seen.parts):
        return True
    if best.counted >= _COUNTED and best.seen.detector == "named":
        return False
    # Numbers that begin anew in every chapter are those of its sections, unless the chapters are as long as books.
    sections = one.restarts * 2 >= len(best.chapters) and one.restarts > 1
    return not sections or (
        best.words > _LONG_CHAPTER * len(best.chapters)
        and median(span.words for span in one.chapters) >= _SHORT_CHAPTER
    )


def _below(ground: Ground, layout: Layout, above: Layout | None) -> Layout:
    """*layout* with the parts that stand above its chapters, where the list before it named them."""
    if above is None or not above.seen.parts:
        return layout
    lines = {cut.line for cut in layout.seen.cuts}
    parts = [replace(cut, kind="part") for cut in above.seen.cuts if cut.line not in lines and cut.kind == "chapter"]
    cuts = sorted([*layout.seen.cuts, *parts], key=lambda cut: cut.line)
    return ground.arrange(replace(layout.seen, cuts=tuple(cuts)))


def _refined(ground: Ground, layout: Layout) -> Layout:
    """*layout* with its largest chapter parted by a second look at that chapter alone, when it helps."""
    span = layout.largest
    if span is None:
        return layout
    inner = Lines(ground.lines.all[span.start : span.end])
    found = cutting.candidates(inner)
    second = _best(Ground.of(inner, found), found, None)
    if second is None or not second.trusted:
        return layout
    moved = [
        _moved(each.cut, span.start) for each in (*second.chapters, *second.left_out) if each.cut.body > each.cut.line
    ]
    kept = [cut for cut in layout.seen.cuts if cut.line != span.cut.line]
    cuts = sorted([replace(span.cut, kind="part"), *kept, *moved], key=lambda cut: cut.line)
    detector = f"{layout.seen.detector}+{second.seen.detector}"
    refined = ground.arrange(Seen(detector, tuple(cuts)))
    return refined if refined.trusted else layout


def _moved(cut: Cut, lines: int) -> Cut:
    return replace(cut, line=cut.line + lines, body=cut.body + lines)


# — saying it —


def _whole(ground: Ground) -> ChapterPlan:
    """All of it as chapter "1"."""
    layout = ground.arrange(Seen("whole", ()))
    kept = [span for span in layout.left_out if span.cut.kind not in {"front matter", "part title", "contents"}]
    edges = {line for span in kept for line in range(span.cut.line, span.end)}
    body = [line for place, line in enumerate(ground.lines.all) if place not in edges]
    first = next((line.text.strip() for line in body if line.text.strip()), "")
    text, starts = joined(body)
    chapter = Chapter(
        number="1", title=first.strip("#*_ ")[:80] or "1", text=text, pages=_pages(body), page_starts=starts
    )
    told = (doubts.whole(chapter.text),) if chapter.words >= WHOLE_WITHOUT_DOUBT else ()
    return ChapterPlan(chapters=(chapter,), left_out=_left(ground, kept), doubts=told, detector="whole")


def _plan(ground: Ground, layout: Layout) -> ChapterPlan:
    taken: set[str] = set()
    said: list[Chapter] = []
    for span in layout.chapters:
        body = ground.lines.all[span.start : span.end]
        text, starts = joined(body)
        number = span.cut.number or _count(layout, span, said)
        title = span.cut.title or (f"{span.part}, {number}" if span.part else number)
        said.append(
            Chapter(number=_unique(number, taken), title=title, text=text, pages=_pages(body), page_starts=starts)
        )
    return ChapterPlan(
        chapters=tuple(said),
        left_out=_left(ground, layout.left_out),
        doubts=doubts.of(layout, said, ground.lines.words(ground.start, ground.end)),
        detector=layout.seen.detector,
    )


def _count(layout: Layout, span: Span, said: Sequence[Chapter]) -> str:
    """The number of a chapter that has none: counted where no chapter has one, and else its title."""
    numbered = any(each.cut.value for each in layout.chapters)
    return (span.cut.title if numbered and span.cut.title else "") or str(
        len([each for each in said if each.number != "0"]) + 1
    )


def _unique(number: str, taken: set[str]) -> str:
    name, again = number, 1
    while name.casefold() in taken:
        again += 1
        name = f"{number} ({again})"
    taken.add(name.casefold())
    return name


def _left(ground: Ground, spans: Sequence[Span]) -> tuple[LeftOut, ...]:
    return tuple(
        LeftOut(
            kind=span.cut.kind,
            title=span.cut.title,
            pages=_pages(ground.lines.all[span.start : span.end]),
            words=span.words,
        )
        for span in spans
    )


def _pages(lines: Sequence[Line]) -> tuple[int, ...]:
    return tuple(sorted({line.page for line in lines if line.text.strip()}))


def joined(lines: Sequence[Line]) -> tuple[str, tuple[tuple[int, int], ...]]:
    """The text of *lines* without blank lines in a row, and at which character each page begins."""
    parts: list[str] = []
    starts: list[tuple[int, int]] = []
    length, blank = 0, True
    for line in lines:
        text = line.text.rstrip()
        if not text and blank:
            continue
        if text and (not starts or starts[-1][1] != line.page):
            starts.append((length, line.page))
        parts.append(text)
        length += len(text) + 1
        blank = not text
    return "\n".join(parts).rstrip(), tuple(starts)

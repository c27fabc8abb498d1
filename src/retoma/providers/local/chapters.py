"""Where the chapters of a document begin and end."""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace

from retoma.providers import Extraction, Page
from retoma.providers.local.headings import Title, is_chapter_title, read_title
from retoma.providers.local.summaries import Chapter, Chunk

CHUNK_WORDS, OVERLAP_WORDS = 1_000, 100

_TINY = 30
"""Words: less than this below a heading is a table of contents, or the heading of a part."""

_OPENING_WORDS = 100
_RUNNING, _RUNNING_PAGES = 120, 4
_LEADING = re.compile(r"(?:(\d{1,3})[.)]?\s+)?(.*)", re.DOTALL)
_DIGITS = "0123456789"
_FAR = 3  # blanks between a title and the number of its page
_NUMBER_ONLY = re.compile(r"^[\s\d–—-]*$")
_CHAPTER = {"capítulo", "capitulo", "chapter"}
_EXTRA = {"anexo", "apêndice", "apendice", "annex", "appendix"}


@dataclass(frozen=True, slots=True)
class _Line:
    """A line of the document and its page."""

    text: str
    page: int


@dataclass(frozen=True, slots=True)
class _Cut:
    """A line where something begins."""

    line: int
    number: str
    title: str
    body: int
    """The line after the heading."""

    is_chapter: bool = True


def find_chapters(extraction: Extraction) -> tuple[Chapter, ...]:
    """The chapters in order; the whole document as one when it has none.

    Nothing is left out except headings, running heads, page numbers, and an opening of fewer than 100 words, which is a
    cover or a table of contents.

    The outline of the document is tried first; then lines that name themselves ("Capítulo 3", "Anexo I"),
    Markdown headings, numbered titles. A kind of heading needs at least two chapters; numbered titles need three,
    because lists look the same.
    """
    lines = _lines(extraction.pages)
    for found_by, cuts in (
        ("outline", _by_outline(lines, extraction.outline)),
        ("named", _by_name(lines)),
        ("markdown", _by_marks(lines)),
        ("numbered", _by_number(lines)),
    ):
        if sum(cut.is_chapter for cut in cuts) >= (3 if found_by == "numbered" else 2):
            return tuple(_chapters(lines, cuts, found_by))
    return (_whole(lines),)


def chunks_of(chapter: Chapter) -> tuple[Chunk, ...]:
    """The pieces of a chapter: about a thousand words each, a hundred of them repeated from the piece before."""
    words = list(re.finditer(r"\S+", chapter.text))
    step = CHUNK_WORDS - OVERLAP_WORDS
    starts = range(0, max(1, len(words) - OVERLAP_WORDS), step)
    return tuple(
        Chunk(
            id=f"{chapter.number}-{index}",
            text=chapter.text[words[start].start() : words[min(start + CHUNK_WORDS, len(words)) - 1].end()],
            start_word=start,
            end_word=min(start + CHUNK_WORDS, len(words)),
        )
        for index, start in enumerate(starts, start=1)
        if words
    )


# — lines —


def _lines(pages: Sequence[Page]) -> list[_Line]:
    """All lines except page numbers, and running heads and feet."""
    edges = Counter(line for page in pages for line in {_pattern(page.text.split("\n")[at]) for at in _edges(page)})
    often = max(_RUNNING_PAGES, len(pages) // 3)
    running = {line for line, times in edges.items() if times >= often and len(line) <= _RUNNING}
    found: list[_Line] = []
    headings: set[str] = set()
    for page in pages:
        at_edge = _edges(page)
        for at, line in enumerate(page.text.split("\n")):
            if at in at_edge:
                if _NUMBER_ONLY.match(line):
                    continue
                if _pattern(line) in running:
                    # The heading of a chapter is also a running head; its first occurrence is the heading.
                    heading, _ = _without_number(line)
                    if heading in headings or not is_chapter_title(heading):
                        continue
                    headings.add(heading)
            found.append(_Line(line, page.number))
    return found


def _edges(page: Page) -> set[int]:
    """The indexes of the first and the last line that is not empty."""
    filled = [at for at, line in enumerate(page.text.split("\n")) if line.strip()]
    return {*filled[:1], *filled[-1:]}


def _pattern(line: str) -> str:
    return re.sub(r"\d+", "#", line.strip())


def _without_number(line: str) -> tuple[str, bool]:
    """*line* without the number at its end, and whether it looks like a line of a table of contents: "Title ... 12"."""
    whole = line.rstrip()
    before = whole.rstrip(_DIGITS)
    if before == whole:
        return line, False
    title = before.rstrip()
    return title, title.endswith(("...", "…")) or len(before) - len(title) >= _FAR


def _joined(lines: Iterable[_Line]) -> str:
    return re.sub(r"\n{3,}", "\n\n", "\n".join(line.text for line in lines)).strip()


def _words(lines: Sequence[_Line]) -> int:
    return sum(len(line.text.split()) for line in lines)


# — kinds of heading —


def _by_outline(lines: Sequence[_Line], outline: Sequence[tuple[str, int]]) -> list[_Cut]:
    """Where the titles of the outline stand: on their page and after the one before."""
    cuts: list[_Cut] = []
    said: dict[tuple[int, str], list[int]] = {}  # a dictionary, because an outline may be as long as the text
    for at, line in enumerate(lines):
        said.setdefault((line.page, _plain(line.text)), []).append(at)
    pages = [line.page for line in lines]
    for title, page in outline:
        start = cuts[-1].line + 1 if cuts else 0
        places = said.get((page, _plain(title)), [])
        found = bisect_left(places, start)
        place = places[found] if found < len(places) else None
        if place is None:  # a title that is a picture: it begins with its page
            at = bisect_left(pages, page, start)
            place = at if at < len(pages) else None
            body = place
        else:
            body = place + 1
        if place is not None and body is not None:
            told = read_title(title) or _counted(title)
            cuts.append(_Cut(place, told.number, told.title, body))
    return cuts


def _counted(title: str) -> Title:
    """A title of an outline, with its number if it begins with one: "3 Utilities"."""
    number, name = _LEADING.fullmatch(title).groups()  # type: ignore[union-attr]  # it matches every text
    return Title("", number or "", name)


def _plain(text: str) -> str:
    return re.sub(r"\W+", " ", text).strip().lower()


def _by_name(lines: Sequence[_Line]) -> list[_Cut]:
    found = [
        (place, told)
        for place, line in enumerate(lines)
        if not _without_number(line.text)[1]
        and (told := read_title(line.text))
        and told.pattern.startswith(("named", "lone"))
    ]
    nouns = Counter(told.pattern.removeprefix("named ") for _, told in found if told.pattern.startswith("named"))
    main = max(nouns, key=lambda noun: (noun in _CHAPTER, noun not in _EXTRA, nouns[noun]), default="")
    cuts = []
    for place, told in found:
        noun = told.pattern.removeprefix("named ")
        number = told.number if noun == main else f"{noun.capitalize()} {told.number}".strip()
        body, title = _title_below(lines, place, told)
        is_chapter = noun == main or noun in _EXTRA or noun == "lone"
        cuts.append(_Cut(place, told.title if noun == "lone" else number, title, body, is_chapter))
    return _without_contents(lines, cuts)


def _title_below(lines: Sequence[_Line], place: int, told: Title) -> tuple[int, str]:
    """Where the body begins, and the title: on the line below when the heading has only a number."""
    if told.title != lines[place].text.strip() or told.pattern == "lone":
        return place + 1, told.title
    for below in range(place + 1, min(place + 3, len(lines))):
        text = lines[below].text.strip()
        if text:
            if len(text) <= 80 and text[-1] not in ".,;:!?" and not read_title(text):  # noqa: PLR2004  # a title's length
                return below + 1, text
            break
    return place + 1, told.title


def _without_contents(lines: Sequence[_Line], cuts: Sequence[_Cut]) -> list[_Cut]:
    """*cuts* without tables of contents and without headings that are repeated on later pages."""
    long = {_key(cut) for cut, body in _bodies(lines, cuts) if _words(body) >= _TINY}
    kept: list[_Cut] = []
    seen: set[str] = set()
    for cut, body in _bodies(lines, cuts):
        words = _words(body)
        if not cut.is_chapter:
            seen.clear()  # each part may count its chapters from 1
            kept.append(replace(cut, is_chapter=words >= _TINY))
        elif cut.number.lower() not in seen and (words >= _TINY or _key(cut) not in long):
            seen.add(cut.number.lower())
            kept.append(cut)
    return kept


def _key(cut: _Cut) -> tuple[str, str]:
    return cut.number.lower(), cut.title.lower()


def _bodies(lines: Sequence[_Line], cuts: Sequence[_Cut]) -> Iterator[tuple[_Cut, Sequence[_Line]]]:
    """Each cut with the lines below it, up to the next."""
    for place, cut in enumerate(cuts):
        end = cuts[place + 1].line if place + 1 < len(cuts) else len(lines)
        yield cut, lines[cut.body : end]


def _by_marks(lines: Sequence[_Line]) -> list[_Cut]:
    """The highest level of Markdown heading that occurs at least twice."""
    fences = 0
    found = []
    for place, line in enumerate(lines):
        fences += line.text.lstrip().startswith("```")
        if not fences % 2 and (told := read_title(line.text)) and told.pattern.startswith("markdown"):
            found.append((place, told))
    levels = Counter(told.pattern for _, told in found)
    level = next((level for level in sorted(levels) if levels[level] > 1), None)
    return [_Cut(place, told.number, told.title, place + 1) for place, told in found if told.pattern == level]


def _by_number(lines: Sequence[_Line]) -> list[_Cut]:
    """Titles that count 1, 2, 3; each with a body, because the points of a list have none."""
    found = [
        _Cut(place, told.number, told.title, place + 1)
        for place, line in enumerate(lines)
        if (told := read_title(line.text)) and told.pattern == "numbered"
    ]
    cuts: list[_Cut] = []
    for cut, body in _bodies(lines, found):
        if int(cut.number) == len(cuts) + 1 and _words(body) >= _TINY:
            cuts.append(cut)
    return cuts


# — chapters —


def _whole(lines: Sequence[_Line]) -> Chapter:
    """The whole document; its first line is the title, and is left out of the text when it is a heading."""
    first = next((place for place, line in enumerate(lines) if line.text.strip()), 0)
    told = read_title(lines[first].text) if lines else None
    if told is None:
        return _chapter(lines, "1", lines[first].text.strip()[:80] if lines else "", "whole")
    return _chapter(lines[first + 1 :] or lines, told.number or "1", told.title, "whole")


def _chapters(lines: Sequence[_Line], cuts: Sequence[_Cut], found_by: str) -> Iterator[Chapter]:
    taken: Counter[str] = Counter()
    if _words(opening := lines[: cuts[0].line]) >= _OPENING_WORDS:
        first = next(line.text.strip() for line in opening if line.text.strip())
        yield _chapter(opening, "0", first[:80], found_by)
    told = [(cut, body) for cut, body in _bodies(lines, cuts) if cut.is_chapter]
    for count, (cut, body) in enumerate(told, start=1):
        number = cut.number or str(count)
        taken[number] += 1
        if taken[number] > 1:
            number = f"{number} ({taken[number]})"
        # The heading of a chapter may be repeated at the tops of its pages.
        heading = _plain(lines[cut.line].text)
        yield _chapter(
            [line for line in body if _plain(line.text) != heading] or [lines[cut.line]], number, cut.title, found_by
        )


def _chapter(body: Sequence[_Line], number: str, title: str, found_by: str) -> Chapter:
    pages = tuple(sorted({line.page for line in body}))
    return Chapter(number=number, title=title, text=_joined(body), pages=pages, found_by=found_by)

"""Ways to see where chapters begin: navigation or outline, names, marks, numerals, typography."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from statistics import median, pstdev

from retoma.pipelines.books.text import headings, matter
from retoma.pipelines.books.text.cuts import Cut, in_sequence, with_title, without_lists
from retoma.pipelines.books.text.headings import BELOW, CHAPTER, EXTRA, PART, Heading
from retoma.pipelines.books.text.lines import Lines
from retoma.pipelines.books.text.numerals import fold

Found = Sequence[tuple[int, Heading]]

_LEAST_BODY = 60
_EVEN, _EVEN_FROM = 0.25, 8
_SHOUTED, _TITLED = 80, 60
_BROKEN_TITLE = 170


@dataclass(frozen=True, slots=True)
class Seen:
    """What one way of looking saw."""

    detector: str
    cuts: tuple[Cut, ...]
    parts: bool = False
    """Whether the cuts call themselves parts or books, so that chapters may stand below them."""

    @property
    def count(self) -> int:
        return sum(cut.kind == "chapter" for cut in self.cuts)


def by_outline(lines: Lines, outline: Sequence[tuple[str, int]], detector: str) -> Seen:
    """Where the titles of *outline* stand: on their page and after the one before; else where their page begins."""
    said: dict[tuple[int, str], list[int]] = {}
    for place, line in enumerate(lines.all):
        if line.text.strip():
            said.setdefault((line.page, plain(line.text)), []).append(place)
    pages = [line.page for line in lines.all]
    broken = _broken(lines)
    cuts: list[Cut] = []
    parts = 0
    for title, page in outline:
        start = cuts[-1].line + 1 if cuts else 0
        told = headings.read(title)
        places = _places(said, page, title, told)
        at = next((each for each in places if each >= start), None)
        body = None if at is None else at + 1
        if at is None:
            at, body = next((each for each in broken.get((page, plain(title)), ()) if each[0] >= start), (None, None))
        if at is None:
            first = bisect_left(pages, page, start)
            at = body = first if first < len(pages) else None
        if at is None or body is None:
            continue
        kind = matter.kind_of(title) or "chapter"
        parts += told is not None and told.noun in PART
        cut = _outlined(at, body, title, told)
        if told and not told.title and told.style != "lone" and body > at:
            cut = replace(with_title(lines, at, told), number=told.number)
        cuts.append(replace(cut, kind=kind))
    return Seen(detector, tuple(cuts), parts=parts * 2 > len(cuts))


def _broken(lines: Lines) -> dict[tuple[int, str], list[tuple[int, int]]]:
    """Two and three lines in a row of one page, as titles that are broken over them: where they begin and end."""
    found: dict[tuple[int, str], list[tuple[int, int]]] = {}
    filled = [(place, line) for place, line in enumerate(lines.all) if line.text.strip()]
    for count in (2, 3):
        for first in range(len(filled) - count + 1):
            group = filled[first : first + count]
            if group[0][1].page == group[-1][1].page and sum(len(line.text) for _, line in group) <= _BROKEN_TITLE:
                key = (group[0][1].page, plain(" ".join(line.text for _, line in group)))
                found.setdefault(key, []).append((group[0][0], group[-1][0] + 1))
    return found


def _places(said: dict[tuple[int, str], list[int]], page: int, title: str, told: Heading | None) -> list[int]:
    """The lines of *page* that say *title*, or its two halves one below the other."""
    if whole := said.get((page, plain(title)), []):
        return whole
    if told and told.title:
        half = plain(title)[: -len(plain(told.title))].strip()
        return said.get((page, half), []) or said.get((page, plain(told.title)), [])
    return []


def _outlined(at: int, body: int, title: str, told: Heading | None) -> Cut:
    if told is None or told.style == "plain":
        return Cut(at, body, "", 0, " ".join(title.split()))
    if told.style == "lone":
        return Cut(at, body, told.title, 0, told.title)
    noun = told.noun.capitalize() if told.noun in EXTRA | PART else ""
    return Cut(at, body, f"{noun} {told.number}".strip(), told.value, told.title)


def plain(text: str) -> str:
    """Words alone, without accents and marks."""
    return " ".join("".join(each if each.isalnum() else " " for each in fold(text)).split())


def by_name(lines: Lines, found: Found, ends: Sequence[int]) -> Seen:
    """Lines that name themselves: "Capítulo 3", "Parte II", "Anexo A"."""
    named = [(place, told) for place, told in found if told.style == "named"]
    nouns = Counter(told.noun for _, told in named)
    main = max(nouns, key=lambda noun: (noun in CHAPTER, noun in PART, noun not in EXTRA, nouns[noun]), default="")
    if main in PART and len({noun for noun in nouns if noun in PART}) > 1:
        # "Livro" above "Parte": the one there is more of divides the book.
        main = max((noun for noun in nouns if noun in PART), key=lambda noun: nouns[noun])
    alike = CHAPTER if main in CHAPTER else {main}
    cuts = []
    for place, told in named:
        cut = with_title(lines, place, told)
        if told.noun in alike or told.noun in EXTRA:
            cuts.append(cut)
        elif told.noun in PART and main not in PART:
            cuts.append(replace(cut, kind="part", number=f"{told.noun.capitalize()} {told.number}"))
        elif told.noun not in BELOW | PART:
            cuts.append(cut)
    chapters = without_lists(lines, [cut for cut in cuts if cut.kind == "chapter"], ends)
    chapters = _once(chapters)
    parts = [cut for cut in cuts if cut.kind == "part"]
    return Seen("named", tuple(sorted([*chapters, *parts], key=lambda cut: cut.line)), parts=main in PART)


def _once(cuts: Sequence[Cut]) -> list[Cut]:
    """*cuts* without those that say again what the one before said: headings that run along the pages."""
    kept: list[Cut] = []
    for cut in cuts:
        if not kept or cut.key != kept[-1].key:
            kept.append(cut)
    return kept


def by_marks(lines: Lines, found: Found) -> Seen:
    """Markdown: the level that says "Capítulo", or the highest that stands there more than once."""
    marked = [(place, told) for place, told in found if told.level]
    levels = Counter(told.level for _, told in marked)
    named = Counter(told.level for _, told in marked if told.noun in CHAPTER)
    level = max(named, key=lambda each: named[each]) if named and max(named.values()) > 1 else 0
    if not level:
        level = next((each for each in sorted(levels) if levels[each] > 1), 0)
    cuts = []
    for place, told in marked:
        if told.level > level or (told.level < level and told.noun not in PART):
            continue
        kind = "part" if told.level < level else matter.kind_of(told.title) or "chapter"
        cut = with_title(lines, place, told) if told.style != "plain" else Cut(place, place + 1, "", 0, told.title)
        cuts.append(replace(cut, kind=kind))
    return Seen("markdown", tuple(cuts))


def by_numeral(lines: Lines, found: Found, ends: Sequence[int], style: str) -> Seen:
    """Numerals of one *style* that count 1, 2, 3, each with a body."""
    cuts = []
    for place, told in found:
        if told.style != style or (style in {"roman", "digit", "word"} and not _stands(lines, place)):
            continue
        cuts.append(with_title(lines, place, told))
    cuts = in_sequence(without_lists(lines, cuts, ends))
    if style == "digit" and _even(lines, cuts):
        cuts = []
    return Seen(style, tuple(cuts))


def _stands(lines: Lines, place: int) -> bool:
    """A numeral that is a heading has nothing beside it but its own title."""
    return lines.dense or lines.closes(place) or len(lines[place + 1].text) < lines.width


def _even(lines: Lines, cuts: Sequence[Cut]) -> bool:
    """Whether numbers stand as far from each other as those of pages do."""
    if len(cuts) < _EVEN_FROM:
        return False
    sizes = [lines.words(one.body, other.line) for one, other in pairwise(cuts)]
    return pstdev(sizes) < _EVEN * max(1.0, sum(sizes) / len(sizes))


def by_typography(lines: Lines, ends: Sequence[int], style: str) -> Seen:
    """Lines that stand alone and look like titles: "capitals", or "titles" in ordinary letters."""
    cuts = []
    for place, line in enumerate(lines.all):
        text = line.text.strip()
        if not text or len(text) > _SHOUTED or not lines.alone(place) or matter.kind_of(text):
            continue
        letters = [each for each in text if each.isalpha()]
        if len(letters) < 3 or text[-1] in ",;:" or text[0] in "-–—“«\"'([*|>":  # noqa: PLR2004  # a word
            continue
        shouted = text.isupper()
        if shouted is (style == "titles") or (style == "titles" and not _like_title(text)):
            continue
        cuts.append(Cut(place, place + 1, "", 0, text.strip("*_ ")))
    times = Counter(cut.key for cut in cuts)
    cuts = without_lists(lines, [cut for cut in cuts if times[cut.key] <= 2], ends)  # noqa: PLR2004  # contents and heading
    sizes = [lines.words(one.body, other.line) for one, other in pairwise(cuts)]
    if len(cuts) < 3 or median(sizes) < _LEAST_BODY:  # noqa: PLR2004  # two lines alone mean nothing
        cuts = []
    return Seen(style, tuple(cuts))


def _like_title(text: str) -> bool:
    first = next(each for each in text if each.isalnum())
    return len(text) <= _TITLED and text[-1] not in '.!?…”"' and (first.isupper() or first.isdigit())

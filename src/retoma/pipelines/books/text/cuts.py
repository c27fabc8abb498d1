"""Places where something begins, and which of them are a table of contents or a list."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from retoma.pipelines.books.text import headings, matter
from retoma.pipelines.books.text.headings import Heading
from retoma.pipelines.books.text.lines import Lines, without_number
from retoma.pipelines.books.text.numerals import fold

TINY = 30
"""Words: less than this below a heading is a table of contents, or the heading of a part."""

_RUN = 3
_TITLE = 80
_NARROW = 0.7
_NEAR = 4
_BROKEN = 3


@dataclass(frozen=True, slots=True)
class Cut:
    """A line where something begins; its body begins at *body*."""

    line: int
    body: int
    number: str
    value: int
    title: str
    kind: str = "chapter"
    """"chapter", "part", or what is left out: "contents", "notes"…"""

    @property
    def key(self) -> tuple[int, str]:
        return self.value, fold(self.title)


def candidates(lines: Lines) -> list[tuple[int, Heading]]:
    """Every line that may be a heading, with what it says."""
    found = []
    fenced = False
    for place, line in enumerate(lines.all):
        text = line.text.strip()
        if text.startswith("```"):
            fenced = not fenced
        if fenced or not text or len(text) > _TITLE * 2 or without_number(text)[1]:
            continue
        if (broken := _broken(lines, place)) is not None:
            found.append((place, broken))
            continue
        if (told := headings.read(text)) and (told.level or lines.opens(place)):
            if told.loose and not lines.alone(place):
                continue
            found.append((place, told))
    return found


def _broken(lines: Lines, place: int) -> Heading | None:
    """A heading by name that is broken over two or three lines, with nothing above and below them."""
    first = fold(lines[place].text.split()[0]).strip(".:,")
    if first not in headings.CHAPTER | headings.PART or lines.blank(place + 1) or not lines.opens(place):
        return None
    end = place + 1
    while end - place < _BROKEN and not lines.closes(end - 1):
        end += 1
    if not lines.closes(end - 1):
        return None
    told = headings.read(" ".join(lines[at].text.strip() for at in range(place, end)))
    # Without a sign between number and title these may be the title and the text.
    return replace(told, lines=end - place) if told and told.style == "named" and not told.loose else None


def with_title(lines: Lines, place: int, told: Heading) -> Cut:
    """The cut of a heading; its title may stand on the line below."""
    noun = told.noun.capitalize() if told.noun in headings.EXTRA else ""
    number = f"{noun} {told.number}".strip()
    if told.style == "lone":
        return Cut(place, place + 1, told.title, 0, told.title)
    if told.title:
        return Cut(place, place + told.lines, number, told.value, told.title)
    below = lines.next_filled(place + told.lines, _NEAR)
    if below is not None and _is_title(lines, below):
        last = below
        # A title may be broken over two lines.
        if not lines.blank(below + 1) and lines[below + 1].text.isupper() and lines[below].text.isupper():
            last = below + 1
        title = " ".join(lines[at].text.strip() for at in range(below, last + 1))
        return Cut(place, last + 1, number, told.value, title.strip("*_# ").rstrip("."))
    return Cut(place, place + told.lines, number, told.value, "")


def _is_title(lines: Lines, place: int) -> bool:
    text = lines[place].text.strip()
    if not text or len(text) > _TITLE or not any(map(str.isalpha, text)) or matter.kind_of(text):
        return False
    told = headings.read(text)
    if text[0] in "-–—“«\"'(*[" or text[-1] in ",;:-–—" or (told is not None and told.style not in {"plain", "lone"}):
        return False
    first = next(each for each in text if each.isalpha())
    if text.isupper() or not first.isupper():
        return text.isupper()
    if lines.dense:
        return len(text) <= _NARROW * lines.width and text[-1] not in ".!?…"
    # A verse or a first line goes on; a title stands by itself.
    following = lines.next_filled(place + 1, 3)
    short = text[-1] not in ".!?…" or len(text.split()) <= _NEAR + 1
    return short and lines.closes(place) and following is not None and len(lines[following].text) > len(text) * 0.8


def without_lists(lines: Lines, cuts: Sequence[Cut], ends: Sequence[int] = ()) -> list[Cut]:
    """*cuts* without those of a table of contents: three in a row with next to nothing below.

    The last one of such a row has the rest of the book below it until the next cut, and goes as well when it is said
    again elsewhere. A heading that is said again with nothing below goes too. *ends* are lines where something else
    begins.
    """
    sizes = _sizes(lines, cuts, ends)
    tiny = [size < TINY for size in sizes]
    long = {cut.key for cut, small in zip(cuts, tiny, strict=True) if not small}
    dropped: set[int] = set()
    start = 0
    while start < len(cuts):
        end = start
        while end < len(cuts) and tiny[end]:
            end += 1
        if end - start >= _RUN:
            dropped |= set(range(start, end))
            again = {cut.key for place, cut in enumerate(cuts) if place > end or place < start}
            if end < len(cuts) and cuts[end].key in again and cuts[end].value > cuts[end - 1].value:
                dropped.add(end)
        start = end + 1
    said: set[tuple[int, str]] = set()
    for place, cut in enumerate(cuts):
        if tiny[place] and cut.key in long:
            dropped.add(place)
        if place not in dropped:
            said.add(cut.key)
    return [cut for place, cut in enumerate(cuts) if place not in dropped]


def _sizes(lines: Lines, cuts: Sequence[Cut], ends: Sequence[int]) -> list[int]:
    edges = sorted({*(cut.line for cut in cuts), *ends, len(lines)})
    following = dict(pairwise(edges))
    return [lines.words(cut.body, max(cut.body, following[cut.line])) for cut in cuts]


def in_sequence(cuts: Sequence[Cut]) -> list[Cut]:
    """Those of *cuts* that count 1, 2, 3; they may begin anew, and a number may be missing."""
    kept: list[Cut] = []
    expected = 1
    for place, cut in enumerate(cuts):
        ahead = [each.value for each in cuts[place + 1 : place + 4]]
        gap = expected < cut.value <= expected + 2 and kept and expected not in ahead and cut.value + 1 in ahead
        if cut.value == expected or gap or (cut.value == 1 and 2 in ahead and expected > 2):  # noqa: PLR2004  # 1, 2
            kept.append(cut)
            expected = cut.value + 1
    return kept


def gaps(cuts: Sequence[Cut]) -> list[int]:
    """Numbers that are missing between two of *cuts*."""
    values = [cut.value for cut in cuts if cut.value]
    return [
        missing
        for before, after in pairwise(values)
        if before < after <= before + 3
        for missing in range(before + 1, after)
    ]


def as_kind(cut: Cut, kind: str) -> Cut:
    """*cut*, as something else."""
    return replace(cut, kind=kind)

"""What a person may change in a list of chapters: merge, split, rename, leave out. Each gives a new plan."""

from __future__ import annotations

from dataclasses import replace

from retoma.errors import ConfigurationError
from retoma.pipelines.books.ports import Chapter, ChapterPlan, LeftOut

BY_HAND = "by hand"


def rename(plan: ChapterPlan, number: str, title: str) -> ChapterPlan:
    """*plan* with another title for chapter *number*."""
    place = _place(plan, number)
    title = " ".join(title.split())
    if not title:
        raise ConfigurationError("A chapter needs a title.", next="Give it one, or leave it as it is.")
    return _with(plan, place, 1, replace(plan.chapters[place], title=title))


def merge(plan: ChapterPlan, first: str, last: str) -> ChapterPlan:
    """*plan* with the chapters from *first* to *last* as one, under the number and title of the first."""
    start, end = _place(plan, first), _place(plan, last)
    if end <= start:
        raise ConfigurationError(
            f"Chapter {last} does not come after chapter {first}.", next="Name two chapters in their order."
        )
    merged = plan.chapters[start]
    for chapter in plan.chapters[start + 1 : end + 1]:
        merged = _joined(merged, chapter)
    return _with(plan, start, end - start + 1, merged)


def split(plan: ChapterPlan, number: str, at: int, *, title: str = "") -> ChapterPlan:
    """*plan* with chapter *number* parted before character *at* of its text, which begins a line."""
    place = _place(plan, number)
    chapter = plan.chapters[place]
    before, after = chapter.text[:at].rstrip(), chapter.text[max(0, at) :].lstrip()
    if not 0 < at < len(chapter.text) or not before or not after:
        raise ConfigurationError(
            f"Chapter {number} cannot be parted at {at}: one side would be empty.",
            next=f"Choose a place between 1 and {len(chapter.text) - 1}.",
        )
    begins = len(chapter.text) - len(after)
    taken = {each.number.casefold() for each in plan.chapters}
    line = after.split("\n", 1)[0].strip()
    second = Chapter(
        number=_free(number, taken),
        title=" ".join(title.split()) or line[:80],
        text=after,
        page_starts=_moved(chapter, begins),
        pages=_pages(chapter, _moved(chapter, begins)),
    )
    kept = tuple(each for each in chapter.page_starts if each[0] < len(before))
    first = replace(chapter, text=before, page_starts=kept, pages=_pages(chapter, kept))
    return _with(plan, place, 1, first, second)


def leave_out(plan: ChapterPlan, number: str) -> ChapterPlan:
    """*plan* without chapter *number*, which it says is left out."""
    place = _place(plan, number)
    if len(plan.chapters) == 1:
        raise ConfigurationError("A book needs a chapter.", next="Keep at least one.")
    chapter = plan.chapters[place]
    left = LeftOut(kind=BY_HAND, title=chapter.title, pages=chapter.pages, words=chapter.words)
    return replace(_with(plan, place, 1), left_out=(*plan.left_out, left))


def accept(plan: ChapterPlan) -> ChapterPlan:
    """*plan* without its doubts: a person has looked at it."""
    return replace(plan, doubts=())


def _place(plan: ChapterPlan, number: str) -> int:
    for place, chapter in enumerate(plan.chapters):
        if chapter.number == number:
            return place
    known = ", ".join(each.number for each in plan.chapters[:20])
    raise ConfigurationError(f"There is no chapter {number!r}.", next=f"The chapters are: {known}.")


def _with(plan: ChapterPlan, start: int, count: int, *chapters: Chapter) -> ChapterPlan:
    detector = plan.detector if plan.detector.endswith(BY_HAND) else f"{plan.detector}, {BY_HAND}"
    return replace(
        plan, chapters=(*plan.chapters[:start], *chapters, *plan.chapters[start + count :]), detector=detector
    )


def _joined(one: Chapter, other: Chapter) -> Chapter:
    heading = f"{one.text}\n\n{other.title}\n\n"
    starts = tuple((len(heading) + at, page) for at, page in other.page_starts)
    if starts and one.page_starts and starts[0][1] == one.page_starts[-1][1]:
        starts = starts[1:]
    return replace(
        one,
        text=heading + other.text,
        pages=tuple(sorted({*one.pages, *other.pages})),
        page_starts=(*one.page_starts, *starts),
    )


def _moved(chapter: Chapter, begins: int) -> tuple[tuple[int, int], ...]:
    """Where pages begin in the part of *chapter* from character *begins* on."""
    before = [page for at, page in chapter.page_starts if at <= begins]
    later = tuple((at - begins, page) for at, page in chapter.page_starts if at > begins)
    return ((0, before[-1]), *later) if before else later


def _pages(chapter: Chapter, starts: tuple[tuple[int, int], ...]) -> tuple[int, ...]:
    known = {page for _, page in starts}
    return tuple(page for page in chapter.pages if page in known) or chapter.pages


def _free(number: str, taken: set[str]) -> str:
    """A number for the second half of chapter *number*: "3b", or "3c" when that is taken."""
    for letter in "bcdefghijklmnopqrstuvwxyz":
        if f"{number}{letter}".casefold() not in taken:
            return f"{number}{letter}"
    again = 2
    while f"{number} ({again})".casefold() in taken:
        again += 1
    return f"{number} ({again})"

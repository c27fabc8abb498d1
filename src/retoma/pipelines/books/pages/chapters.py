"""One chapter: what is said of it, whether that holds, and its own text with the quotations marked in it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from fastapi import APIRouter, Request, Response

from retoma.errors import NotFound
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.model import FEEDBACK, Standing, StoredChapter
from retoma.pipelines.books.pages import view
from retoma.pipelines.books.pages.context import Id, Library, Number, Told, place_of
from retoma.pipelines.books.reading import reasons, summary_of
from retoma.pipelines.books.remarks import all_said
from retoma.web.http.auth import needs
from retoma.web.pages.languages import language_for
from retoma.web.pages.render import page
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/{id}", route_class=PageRoute)


@router.get("/chapters/{number:path}")
@needs("content:read", limited=True)
async def show_chapter(id: Id, number: Number, library: Library, request: Request, told: Told = "") -> Response:
    """What was made of a chapter; one that is not done says so."""
    session, chapters = await library.get(id), await library.chapters(id)
    standing = _one(chapters, number)
    made = (await library.results(id)).get(number)
    before, after = _beside(chapters, standing)
    text = await _text(library, id, number)
    return page(
        request,
        "books/chapter.html",
        session=session,
        chapter=standing,
        made=made,
        summary=None if made is None else summary_of(made),
        reasons=[] if made is None else all_said(reasons(made), language_for(request)),
        unread=[] if made is None else view.spans_of(made, len(text.content)),
        before=before,
        after=after,
        told=told,
        kinds=FEEDBACK,
        place=place_of,
        state_of=view.state_of,
    )


@router.get("/text/{number:path}")
@needs("content:read", limited=True)
async def show_text(id: Id, number: Number, library: Library, request: Request) -> Response:
    """The chapter as the book has it, page by page; its quotations can be jumped to."""
    session, chapters = await library.get(id), await library.chapters(id)
    standing = _one(chapters, number)
    made = (await library.results(id)).get(number)
    quoted = [] if made is None else [each.text for each in summary_of(made).quotations]
    return page(
        request,
        "books/text.html",
        session=session,
        chapter=standing,
        pages=pages_of(await _text(library, id, number), quoted),
        place=place_of,
    )


def _one(chapters: Sequence[Standing], number: str) -> Standing:
    for each in chapters:
        if each.number == number:
            return each
    raise NotFound(f"There is no chapter {number} in this book.")


def _beside(chapters: Sequence[Standing], one: Standing) -> tuple[Standing | None, Standing | None]:
    place = chapters.index(one)
    return chapters[place - 1] if place else None, chapters[place + 1] if place + 1 < len(chapters) else None


async def _text(library: Books, id: str, number: str) -> StoredChapter:
    return next(each for each in await library.texts(id) if each.number == number)


# — the text —


@dataclass(frozen=True, slots=True)
class Piece:
    """Some words of a paragraph; *quoted* is the number of the quotation that they are."""

    text: str
    quoted: int | None = None


@dataclass(slots=True)
class SourcePage:
    """A page of the book, as far as it is of this chapter."""

    number: int | None
    paragraphs: list[list[Piece]] = field(default_factory=list)


def pages_of(chapter: StoredChapter, quoted: Sequence[str]) -> list[SourcePage]:
    """The text cut into pages and paragraphs, with each quotation where it stands first."""
    text, marks = chapter.content, _marks(chapter.content, quoted)
    starts = list(chapter.as_chapter().page_starts)
    if not starts or starts[0][0] > 0:
        starts.insert(0, (0, chapter.pages[0] if chapter.pages and not starts else 0))
    found = []
    for place, (start, number) in enumerate(starts):
        end = starts[place + 1][0] if place + 1 < len(starts) else len(text)
        one = SourcePage(number or None)
        for paragraph in re.finditer(r"[^\n]+(?:\n[^\n]+)*", text[start:end]):
            one.paragraphs.append(_pieces(text, start + paragraph.start(), start + paragraph.end(), marks))
        found.append(one)
    return [each for each in found if each.paragraphs]


def _marks(text: str, quoted: Sequence[str]) -> list[tuple[int, int, int]]:
    """Where each quotation begins and ends, and its number; line ends do not count. None is inside of another."""
    found: list[tuple[int, int, int]] = []
    for number, each in enumerate(quoted, start=1):
        words = [re.escape(word) for word in each.split()]
        place = re.search(r"\s+".join(words), text) if words else None
        if place and all(place.end() <= start or end <= place.start() for start, end, _ in found):
            found.append((place.start(), place.end(), number))
    return sorted(found)


def _pieces(text: str, start: int, end: int, marks: Sequence[tuple[int, int, int]]) -> list[Piece]:
    pieces, at = [], start
    for first, last, number in marks:
        if last <= at or first >= end:
            continue
        if first > at:
            pieces.append(Piece(text[at:first]))
        pieces.append(Piece(text[max(first, at) : min(last, end)], number if first >= start else None))
        at = min(last, end)
    return [*pieces, Piece(text[at:end])] if at < end else pieces

"""A list of chapters in doubt, before anything is paid: merged, split, renamed, left out, and then accepted."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from fastapi import APIRouter, Request, Response
from starlette.responses import RedirectResponse

from retoma.errors import ConfigurationError
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.pages import view
from retoma.pipelines.books.pages.context import Id, Library, Told, back, place_of, speaker
from retoma.pipelines.books.ports import Chapter, ChapterPlan
from retoma.pipelines.books.remarks import all_said
from retoma.pipelines.books.text import edits
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, needs
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of, language_for
from retoma.web.pages.render import page
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/{id}/review", route_class=PageRoute)

_LARGEST_FORM = 20_000
_UNFIT = 422
_BEGINNING = 40  # words of a chapter by which a person knows it
_LONGEST_LINE = 80
_MOST_LINES = 150
_ENDS = (".", ",", ";", "!", "?", "…", "”", '"')

Change = Callable[[ChapterPlan], ChapterPlan]


@dataclass(frozen=True, slots=True)
class Proposed:
    """A chapter as a person is asked about it: how it begins, and lines that look like headings inside of it."""

    number: str
    title: str
    words: int
    share: float
    begins: str
    lines: tuple[str, ...]


@router.get("")
@needs("content:read", limited=True)
async def show_review(id: Id, library: Library, request: Request, told: Told = "") -> Response:
    """The list, and what may be done with it; one that waits for nobody leads to its session."""
    session = await library.get(id)
    if session.planned_at is None or session.done or session.state not in {"paused", "failed"}:
        return RedirectResponse(f"{base_of(request)}{place_of(id)}", 303)
    return await _shown(library, request, id, told=told)


@router.post("")
@needs("operate", limited=True, streamed=True)
async def edit_review(id: Id, library: Library, visit: Here, request: Request) -> Response:
    """One change of the list. What cannot be done is told above it."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    try:
        change = _change(said)

        async def edit(record: Recording) -> ChapterPlan:
            return await library.edit(id, change, also=record)

        await recorded(visit, edit)
    except ConfigurationError:
        visit.unchanged = True
        response = await _shown(library, request, id, wrong=said.get("do", ""))
        response.status_code = _UNFIT
        return response
    return back(request, place_of(id, "review"), "edited")


def _change(said: dict[str, str]) -> Change:
    """What the pressed button asks for."""
    number = said.get("number", "")
    match said.get("do"):
        case "rename":
            return lambda plan: edits.rename(plan, number, said.get("title", ""))
        case "merge":
            return lambda plan: edits.merge(plan, _before(plan, number), number)
        case "split":
            return lambda plan: edits.split(plan, number, _line(plan, number, said.get("line", "")))
        case "drop":
            return lambda plan: edits.leave_out(plan, number)
    raise ConfigurationError("There is no such change.", next="Press a button of the page.")


def _before(plan: ChapterPlan, number: str) -> str:
    numbers = [each.number for each in plan.chapters]
    place = numbers.index(number) if number in numbers else 0
    if not place:
        raise ConfigurationError(f"No chapter stands before {number!r}.", next="Choose a later one.")
    return numbers[place - 1]


def _line(plan: ChapterPlan, number: str, wanted: str) -> int:
    """Where the line begins that begins with *wanted*; not the first one, before which there is nothing."""
    wanted = " ".join(wanted.split()).casefold()
    text = next((each.text for each in plan.chapters if each.number == number), "")
    at = 0
    for line in text.split("\n"):
        if at and wanted and " ".join(line.split()).casefold().startswith(wanted):
            return at
        at += len(line) + 1
    raise ConfigurationError("No line of the chapter begins so.", next="Copy the beginning of a line.")


def _lines(chapter: Chapter) -> tuple[str, ...]:
    """Lines that look like headings: short, alone, and without the end of a sentence."""
    found: dict[str, None] = {}
    before = "x"
    for line in chapter.text.split("\n"):
        short = " ".join(line.split())
        if short and not before and len(short) <= _LONGEST_LINE and not short.endswith(_ENDS):
            found.setdefault(short)
        before = short
    return tuple(found)[:_MOST_LINES]


async def _shown(library: Books, request: Request, id: str, *, told: str = "", wrong: str = "") -> Response:
    session, plan = await library.get(id), await library.proposed(id)
    say = speaker(request)
    words = max(1, sum(each.words for each in plan.chapters))
    return page(
        request,
        "books/review.html",
        session=session,
        doubts=all_said(plan.doubts, language_for(request)),
        left_out=plan.left_out,
        chapters=[
            Proposed(
                each.number,
                each.title,
                each.words,
                each.words / words,
                " ".join(each.text.split()[:_BEGINNING]),
                _lines(each),
            )
            for each in plan.chapters
        ],
        told=told,
        wrong=wrong,
        place=place_of,
        told_as=lambda kind, word: view.told_as(kind, word, say),
    )

"""One session: what is done, saved and reusable, where it goes on, and what the book says in three lengths."""

from __future__ import annotations

from typing import Annotated, Any, Literal

from fastapi import APIRouter, Query, Request, Response

from retoma.errors import ConfigurationError
from retoma.pipelines.books import voice
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.model import FEEDBACK, Feedback, Session
from retoma.pipelines.books.pages import view
from retoma.pipelines.books.pages.context import CONTENT, Id, Library, Told, back, place_of, speaker
from retoma.pipelines.books.pages.source import source_answer
from retoma.pipelines.books.reading import reasons
from retoma.pipelines.books.remarks import all_said
from retoma.pipelines.books.voice import Say
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.errors import Refusal
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import language_for
from retoma.web.pages.render import page, region_of
from retoma.web.pages.route import PageRoute

router = APIRouter(prefix="/{id}", route_class=PageRoute)

_LARGEST_FORM = 100_000
_LONGEST_MESSAGE = 5_000
FORMATS = ("epub", "pdf", "markdown", "json")
"""What the buttons offer, in their order."""

Length = Annotated[Literal["short", "medium", "long"], Query()]


@router.get("")
@needs("read", limited=True)
async def show_book(
    id: Id, library: Library, visit: Here, request: Request, length: Length = "medium", told: Told = ""
) -> Response:
    """A session; a region of it alone where one is asked for, and then only what that region shows."""
    session = await library.get(id)
    say, region = speaker(request), region_of(request)
    content = visit.may(CONTENT)
    values: dict[str, Any] = {}
    for name, gather in _REGIONS.items():
        if region in (None, name) or region not in _REGIONS:
            values |= await gather(library, session, length, content)
    return page(
        request,
        "books/session.html",
        script_words=("books.now", "state.book."),
        session=session,
        content=content,
        told=told,
        length=length,
        lengths=view.LENGTHS,
        formats=FORMATS,
        kinds=FEEDBACK,
        why=voice.why(session, say),
        detectors=view.detectors_of(session, say),
        place=place_of,
        **_looks(say, language_for(request)),
        **values,
    )


def _looks(say: Say, language: str) -> dict[str, Any]:
    """What the template asks about single chapters."""
    return {
        "state_of": view.state_of,
        "cells_of": view.cells_of,
        "told_as": lambda kind, word: view.told_as(kind, word, say),
        "reasons_of": lambda made: all_said(reasons(made), language),
    }


async def _standing(library: Books, session: Session, _: str, _content: bool) -> dict[str, Any]:
    chapters = await library.chapters(session.id)
    return {"figures": view.figures_of(chapters), "verdict": view.verdict_of(session), "blocks": view.map_of(chapters)}


async def _chapters(library: Books, session: Session, _: str, content: bool) -> dict[str, Any]:
    chapters = await library.chapters(session.id)
    failed = content and session.passed < session.done
    return {"chapters": chapters, "results": await library.results(session.id) if failed else {}}


async def _reading(library: Books, session: Session, length: str, content: bool) -> dict[str, Any]:
    results = await library.results(session.id) if content and session.done else {}
    return {"entries": view.entries_of(results, length)}


async def _made(library: Books, session: Session, _: str, _content: bool) -> dict[str, Any]:
    return {"made": view.made_from(session, await library.chapters(session.id))}


async def _voices(library: Books, session: Session, _: str, _content: bool) -> dict[str, Any]:
    return {"voices": await library.feedback(session.id)}


_REGIONS = {"standing": _standing, "chapters": _chapters, "reading": _reading, "made": _made, "voices": _voices}


@router.get("/source")
@needs("content:read", limited=True)
async def show_source(id: Id, library: Library, request: Request) -> Response:
    """The book as it was sent; a browser shows a PDF at the page that the address names."""
    return await source_answer(request, library, await library.get(id))


# — acting: every button is a form, harmless when it is sent twice —


@router.post("/resume")
@needs("operate", limited=True, once=False)
async def resume_book(id: Id, library: Library, visit: Here, request: Request) -> Response:
    """Go on where it stopped."""
    await quotas_of(request).make_room(visit, 1)
    session = await recorded(visit, lambda record: library.resume(id, also=record))
    await _submitted(request, session)
    return back(request, place_of(id), "resumed")


@router.post("/pause")
@needs("operate", limited=True, once=False)
async def pause_book(id: Id, library: Library, visit: Here, request: Request) -> Response:
    """Let it rest; what is saved stays."""
    await recorded(visit, lambda record: library.pause(id, also=record))
    return back(request, place_of(id), "paused")


@router.post("/approve")
@needs("operate", limited=True, once=False)
async def approve_book(id: Id, library: Library, visit: Here, request: Request) -> Response:
    """Accept the list of chapters, and go on."""
    await quotas_of(request).make_room(visit, 1)
    session = await recorded(visit, lambda record: library.approve(id, also=record))
    await _submitted(request, session)
    return back(request, place_of(id), "approved")


async def _submitted(request: Request, session: Session) -> None:
    if session.state == "in_progress" and session.job_id is not None:
        await submitted(request, "job", [session.job_id])


@router.post("/feedback")
@needs("submit", limited=True, streamed=True)
async def tell_book(id: Id, library: Library, visit: Here, request: Request) -> Response:
    """Keep what a reader says."""
    said = await fields_of(request, largest=_LARGEST_FORM)
    message = said.get("message", "").replace("\r\n", "\n").strip()[:_LONGEST_MESSAGE]
    chapter = said.get("chapter", "")
    known = {each.number for each in await library.chapters(id)} if chapter else set()
    if chapter and chapter not in known:
        raise Refusal("validation_failed")
    await _kept(library, visit, id, said.get("kind", ""), message, chapter or None)
    return back(request, place_of(id, "chapters", chapter) if chapter else place_of(id), "thanked")


async def _kept(library: Books, visit: Visit, id: str, kind: str, message: str, chapter: str | None) -> Feedback:
    async def keep(record: Recording) -> Feedback:
        return await library.say(id, kind, message, chapter=chapter, created_by=visit.caller, also=record)

    try:
        return await recorded(visit, keep)
    except ConfigurationError as error:
        raise Refusal("validation_failed", said=error.message) from error

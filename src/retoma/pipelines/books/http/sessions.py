"""Books: sent, followed, looked at, planned, resumed, paused, judged by readers."""

from __future__ import annotations

from typing import Annotated, Any, Literal
from urllib.parse import quote

from fastapi import APIRouter, Path, Query, Request, Response

from retoma.pipelines.books.http import schemas as shapes
from retoma.pipelines.books.http.context import CONTENT, Library, Number, SessionId, language_for, library_of
from retoma.pipelines.books.http.original import sent
from retoma.pipelines.books.http.upload import BODY, received
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.model import Session
from retoma.pipelines.books.reading import reasons
from retoma.pipelines.books.remarks import all_said
from retoma.pipelines.books.review import Edit, edited
from retoma.pipelines.books.text.exports import FORMATS, SUFFIXES
from retoma.pipelines.files.refusals import REFUSED
from retoma.web.api.schemas import requests
from retoma.web.http.audit import recorded
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.cursors import cursor_of, opened, point_to_next
from retoma.web.http.error_codes import headers_of
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.http.route import ApiRoute

router = APIRouter(prefix="/books", tags=["books"], route_class=ApiRoute)

Format = Literal["markdown", "json", "pdf", "epub"]
_EXPORTED: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file.",
        "content": {
            kind: {"schema": {"type": "object"} if "json" in kind else {"type": "string", "format": "binary"}}
            for kind in ("text/markdown", "application/json", "application/pdf", "application/epub+zip")
        },
        "headers": headers_of("Content-Disposition"),
    }
}


async def _whole(library: Books, visit: Visit, request: Request, session: Session) -> shapes.WholeBook:
    chapters = await library.chapters(session.id)
    return shapes.WholeBook.seen(session, chapters, content=visit.may(CONTENT), language=language_for(request))


# — coming in —


@router.post("", status_code=202, response_model=shapes.SentBook, openapi_extra=BODY)
@needs("submit", limited=True, streamed=True, plain=True, refuses=("pipelines_limited", *REFUSED))
async def send_book(request: Request) -> Response:
    """Take a book in, as a file or as text, and come back at once. The same content in the same configuration finds its
    session, which goes on where it stopped.
    """
    visit: Visit = request.state.visit
    started = await received(library_of(visit, request), visit, request)
    return sent(started, request.url.path.removesuffix("/books").removesuffix("/api/v1"))


# — looking —


@router.get("")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_books(
    wanted: Annotated[shapes.BookFilter, Query()], library: Library, visit: Here, request: Request, response: Response
) -> shapes.Books:
    """Books, the newest first, each with its state: in progress, paused, done or failed."""
    before = None if wanted.cursor is None else opened(wanted.cursor)
    found = await library.page(before=before, limit=wanted.limit + 1)
    shown = found[: wanted.limit]
    following = cursor_of(shown[-1].number) if len(found) > wanted.limit else None
    point_to_next(request, response, following)
    content, language = visit.may(CONTENT), language_for(request)
    told = [shapes.Book.told(each, content=content, language=language) for each in shown]
    return shapes.Books(books=told, next=following)


@router.get("/{id}")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def get_book(id: SessionId, library: Library, visit: Here, request: Request) -> shapes.WholeBook:
    """A book: what is done, saved and reusable, where the work goes on, and PASS or FAIL."""
    return await _whole(library, visit, request, await library.get(id))


@router.get("/{id}/plan")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def get_book_plan(id: SessionId, library: Library) -> shapes.BookPlan:
    """What the configuration of now would reuse of a book, what it would do again, and what that costs."""
    return shapes.BookPlan.seen(await library.plan(id))


@router.get("/{id}/feedback")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_book_feedback(id: SessionId, library: Library, visit: Here) -> shapes.FeedbackList:
    """What readers said of a book, and were answered."""
    await library.get(id)
    content = visit.may(CONTENT)
    found = await library.feedback(id)
    return shapes.FeedbackList(feedback=[shapes.BookFeedback.of(each, content=content) for each in found])


@router.get("/{id}/chapters/{number:path}")
@needs(CONTENT, limited=True, refuses=("pipelines_limited",))
async def get_book_chapter(id: SessionId, number: Number, library: Library, request: Request) -> shapes.ChapterResult:
    """What was made of one chapter: its checkpoint, and whether it passed; else why not, in the language that
    ``Accept-Language`` likes best.
    """
    made = await library.result(id, number)
    return shapes.ChapterResult(
        number=number,
        verdict="PASS" if made.passed else "FAIL",
        reasons=all_said(reasons(made), language_for(request)),
        checkpoint=made.model_dump(mode="json"),
    )


@router.get("/{id}/export/{format}", responses=_EXPORTED, response_class=Response)
@needs(CONTENT, limited=True, refuses=("pipelines_limited", "conflict"))
async def export_book(id: SessionId, format: Annotated[Format, Path()], library: Library, request: Request) -> Response:
    """The finished book as one file: executive summary, every chapter, what it was made from. Quotations open their
    page of the source on this site.
    """
    here = f"{request.url.scheme}://{request.url.netloc}{request.url.path.rpartition('/api/v1/')[0]}"
    content = await library.export(id, format, site=here)
    name = f"{(await library.get(id)).title}.{SUFFIXES[format]}"
    plain = "".join(each if each.isascii() and each.isalnum() else "_" for each in name.rpartition(".")[0])
    told = f"attachment; filename=\"{plain}.{SUFFIXES[format]}\"; filename*=UTF-8''{quote(name, safe='')}"
    return Response(content, media_type=FORMATS[format][0], headers={"Content-Disposition": told})


# — acting —


@router.post("/{id}/plan")
@needs("operate", limited=True, once=False, refuses=("pipelines_limited", "conflict"))
async def edit_book_plan(
    id: SessionId, body: shapes.ChapterEdits, library: Library, visit: Here, request: Request
) -> shapes.WholeBook:
    """Merge, split, rename or leave out chapters of a book that stands still and of which none is done. ``approve``
    goes on with it.
    """
    changes = [Edit(**each.model_dump()) for each in body.edits]
    await recorded(visit, lambda record: library.edit(id, lambda plan: edited(plan, changes), also=record))
    return await _whole(library, visit, request, await library.get(id))


async def _going_on(visit: Visit, request: Request, library: Books, session: Session) -> shapes.WholeBook:
    if session.job_id is not None:
        await submitted(request, "job", [session.job_id])
    return await _whole(library, visit, request, session)


@router.post("/{id}/resume", status_code=202)
@needs("operate", limited=True, once=False, refuses=("pipelines_limited", "conflict"))
async def resume_book(
    id: SessionId,
    library: Library,
    visit: Here,
    request: Request,
    response: Response,
    _: requests.Nothing | None = None,
) -> shapes.WholeBook:
    """Go on where it stopped, once however often this is asked. What is done is restored, and nothing is done again."""
    await quotas_of(request).make_room(visit, 1)
    session = await recorded(visit, lambda record: library.resume(id, also=record))
    response.headers["Location"] = request.url.path.removesuffix("/resume")
    return await _going_on(visit, request, library, session)


@router.post("/{id}/approve", status_code=202)
@needs("operate", limited=True, once=False, refuses=("pipelines_limited", "conflict"))
async def approve_book(
    id: SessionId,
    library: Library,
    visit: Here,
    request: Request,
    response: Response,
    _: requests.Nothing | None = None,
) -> shapes.WholeBook:
    """Accept the list of chapters that was in doubt, and go on."""
    await quotas_of(request).make_room(visit, 1)
    session = await recorded(visit, lambda record: library.approve(id, also=record))
    response.headers["Location"] = request.url.path.removesuffix("/approve")
    return await _going_on(visit, request, library, session)


@router.post("/{id}/pause")
@needs("operate", limited=True, once=False, refuses=("pipelines_limited",))
async def pause_book(
    id: SessionId, library: Library, visit: Here, request: Request, _: requests.Nothing | None = None
) -> shapes.WholeBook:
    """Stop the work after the step it is in. What is saved stays, and ``resume`` goes on."""
    return await _whole(library, visit, request, await recorded(visit, lambda record: library.pause(id, also=record)))


@router.post("/{id}/feedback", status_code=201)
@needs("submit", limited=True, refuses=("pipelines_limited",))
async def say_of_book(
    id: SessionId, body: shapes.NewFeedback, library: Library, visit: Here, request: Request, response: Response
) -> shapes.BookFeedback:
    """Say something of a summary: a question, an error, a suggestion, praise."""
    said = await library.say(
        id, body.kind, body.message, chapter=body.chapter, created_by=visit.caller, conn=visit.conn
    )
    response.headers["Location"] = request.url.path
    return shapes.BookFeedback.of(said, content=visit.may(CONTENT))


@router.post("/{id}/feedback/{number}/answer")
@needs("operate", limited=True, refuses=("pipelines_limited",))
async def answer_book_feedback(
    id: SessionId,
    number: Annotated[requests.Id, Path()],
    body: shapes.NewAnswer,
    library: Library,
    visit: Here,
) -> shapes.BookFeedback:
    """Answer a reader."""
    said = await library.answer(id, number, body.answer, answered_by=visit.caller, conn=visit.conn)
    return shapes.BookFeedback.of(said, content=visit.may(CONTENT))

"""The routes that the first users of book summaries have always had: send, follow, get the result."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Header, Query, Request, Response
from fastapi.responses import StreamingResponse

from retoma.pipelines.books.http import schemas as shapes
from retoma.pipelines.books.http.context import CONTENT, Library, SessionId, language_for, library_of
from retoma.pipelines.books.http.result import result_of
from retoma.pipelines.books.http.stream import followed
from retoma.pipelines.books.http.upload import BODY, received
from retoma.pipelines.books.model import Started
from retoma.pipelines.books.progress import reached
from retoma.pipelines.files.refusals import REFUSED
from retoma.web.api.schemas import requests
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.route import ApiRoute
from retoma.web.http.stream import STREAM, counted

router = APIRouter(prefix="/api", tags=["books"], route_class=ApiRoute)

_STREAM: dict[int | str, dict[str, Any]] = {
    200: {"content": {"text/event-stream": STREAM[200]["content"]["text/event-stream"]}},
    204: {"description": "The session stands still, and Last-Event-ID is its last step: do not come again."},
}
_API = "/api/"


@router.post("/summarize", status_code=202, response_model=shapes.SentBook, openapi_extra=BODY)
@needs("submit", limited=True, streamed=True, plain=True, refuses=("pipelines_limited", *REFUSED))
async def send_book_to_summarize(request: Request) -> Response:
    """Take a book in, as a file or as text, and come back at once. The same content in the same configuration finds its
    session, which goes on where it stopped.
    """
    visit: Visit = request.state.visit
    started = await received(library_of(visit, request), visit, request)
    return sent(started, request.url.path.rpartition(_API)[0])


def sent(started: Started, base: str) -> Response:
    """The answer to a book that was sent; *base* is what stands before all paths."""
    id = started.session.id
    told = shapes.SentBook(
        session_id=id,
        found=started.found,
        state=started.session.state,
        status_url=f"{base}/api/v1/books/{id}",
        progress_url=f"{base}/api/progress/{id}",
        result_url=f"{base}/api/result/{id}",
    )
    return Response(told.model_dump_json(), 202, {"Location": told.status_url}, "application/json")


@router.get("/progress/{id}", responses=_STREAM, response_class=StreamingResponse)
@needs("read", limited=True, refuses=("pipelines_limited",))
async def follow_book(
    id: SessionId,
    library: Library,
    visit: Here,
    request: Request,
    after: Annotated[int | None, Query(ge=0, le=requests.HIGHEST)] = None,
    last_event_id: Annotated[str | None, Header()] = None,
) -> Response:
    """The steps of a session, from the first one, as they are taken; they never go back. ``Last-Event-ID`` (or
    ``after``) says where to go on. ``message`` is in the language that ``Accept-Language`` likes best.
    """
    session = await library.get(id)
    seen = requests.event_number(last_event_id, after)
    if session.state != "in_progress" and seen is not None and seen >= reached(session):
        return Response(status_code=204)  # a browser that gets this does not come again
    pieces = followed(request, id, seen or 0, content=visit.may(CONTENT))
    return counted(request, pieces, "text/event-stream")


@router.get("/result/{id}")
@needs(CONTENT, limited=True, refuses=("pipelines_limited",))
async def get_book_result(id: SessionId, library: Library, request: Request) -> shapes.BookResult:
    """What came of a book, at any time: all chapters that are saved, their coverage, and what is wrong, in the language
    that ``Accept-Language`` likes best.
    """
    base = request.url.path.rpartition(f"{_API}result/")[0]
    session, results = await library.get(id), await library.results(id)
    return result_of(session, results, f"{base}/api/v1/books/{id}/export", language_for(request))

"""All books, and a new one: a file, or a text that is pasted."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Annotated, Any

from fastapi import APIRouter, Query, Request, Response
from starlette.responses import RedirectResponse

from retoma.errors import RetomaError
from retoma.pipelines.books import voice
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.model import Started
from retoma.pipelines.books.pages import view
from retoma.pipelines.books.pages.context import Library, place_of, speaker
from retoma.pipelines.files.ingest import LARGEST, FileRefused, StoreDown, StoreFull
from retoma.web.http import errors
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Here, Visit, needs
from retoma.web.http.errors import Refusal
from retoma.web.http.multipart import Upload
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.pages.forms import fields_of
from retoma.web.pages.languages import base_of, language_for
from retoma.web.pages.render import page
from retoma.web.pages.route import PageRoute

router = APIRouter(route_class=PageRoute)

_BOOKS = 25
_LONGEST_TEXT = 20_000_000
"""Bytes of a form with a pasted text; a long novel has one or two million."""
_LONGEST_TITLE = 200
KINDS = ".pdf,.epub,.docx,.txt,.md"


@router.get("")
@needs("read", limited=True)
async def list_books(
    library: Library, request: Request, before: Annotated[int | None, Query(ge=1, lt=2**63)] = None
) -> Response:
    """Books, the newest first."""
    return await _shown(library, request, before=before)


@router.post("")
@needs("submit", limited=True, streamed=True)
async def send_book(library: Library, visit: Here, request: Request) -> Response:
    """Take a book in. What is refused is told above the form."""
    try:
        started = await _received(library, visit, request)
    except Refusal as refusal:
        problem, _ = errors.explained(request, refusal, language_for(request))
        visit.unchanged = True
        response = await _shown(library, request, problem=problem)
        response.status_code = problem.status
        return response
    told = "found" if started.found else "begun"
    return RedirectResponse(f"{base_of(request)}{place_of(started.session.id)}?told={told}", 303)


async def _received(library: Books, visit: Visit, request: Request) -> Started:
    """The book of a form: of one with a file, or of one with a text."""
    await quotas_of(request).make_room(visit, 1)
    if request.headers.get("content-type", "").lower().startswith("multipart/"):
        upload, started = Upload(request), None
        async for filename, content in upload.files():
            if started is None:
                started = await _begun(library, visit, request, filename, content, upload.fields.get("title", ""))
        if started is None:
            raise Refusal("file_missing")
        return started
    said = await fields_of(request, largest=_LONGEST_TEXT)
    # Browsers write the ends of lines with two characters; the text is what it was before.
    text = said.get("text", "").replace("\r\n", "\n")
    if not text.strip():
        raise Refusal("file_empty")
    title = said.get("title", "")
    filename = f"{_clean(title) or speaker(request)('books.send.nameless')}.txt"
    return await _begun(library, visit, request, filename, _pieces(text), title)


async def _begun(
    library: Books, visit: Visit, request: Request, filename: str, content: AsyncIterator[bytes], title: str
) -> Started:
    async def begin(record: Recording) -> Started:
        return await library.summarise(
            filename,
            content,
            title=_clean(title) or None,
            created_by=visit.caller,
            correlation_id=visit.correlation_id,
            also=record,
        )

    try:
        started = await recorded(visit, begin)
    except (FileRefused, StoreDown, StoreFull) as error:
        raise _refusal(error) from error
    if not started.found and started.session.job_id is not None:
        await submitted(request, "job", [started.session.job_id])
    return started


def _clean(title: str) -> str:
    return " ".join(title.split())[:_LONGEST_TITLE]


async def _pieces(text: str) -> AsyncIterator[bytes]:
    yield text.encode()


def _refusal(error: RetomaError) -> Refusal:
    match error:
        case FileRefused(code=code, limit=limit):
            return Refusal(code, said=error.message, next=error.next, limit=limit, megabytes=(limit or 0) // 1_000_000)
        case StoreFull():
            return Refusal("store_full")  # where we keep things is nobody's business outside
        case _:
            return Refusal("store_unavailable")


async def _shown(library: Books, request: Request, *, before: int | None = None, problem: Any = None) -> Response:
    found = await library.page(before=before, limit=_BOOKS + 1)
    say = speaker(request)
    return page(
        request,
        "books/shelf.html",
        script_words=("books.now", "state.book."),
        books=found[:_BOOKS],
        before=before,
        more=found[_BOOKS - 1].number if len(found) > _BOOKS else None,
        moving=any(each.state == "in_progress" for each in found[:_BOOKS]),
        problem=problem,
        largest=LARGEST,
        kinds=KINDS,
        place=place_of,
        why=lambda session: voice.why(session, say),
        verdict=view.verdict_of,
    )

"""Documents: sent, followed, looked at, found, processed again, removed; for programs and, as pages, for people."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Annotated, Any
from urllib.parse import quote
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.responses import RedirectResponse, StreamingResponse

from retoma.app import Retoma
from retoma.errors import NotFound
from retoma.pipelines.documents import nouns
from retoma.pipelines.documents.library import Documents
from retoma.pipelines.files import LARGEST
from retoma.web import asked, receiving
from retoma.web import document_shapes as shapes
from retoma.web.cursors import cursor_of, opened, point_to_next
from retoma.web.jobs import CONTENT
from retoma.web.pages import Entry, PageDoor, page, prefers_page
from retoma.web.pages.languages import base_of
from retoma.web.visits import Here, Place, Visit, needs

PIPELINE = "documents"
ENTRY = Entry("/documents", "nav.documents")
SHOWN = {"pdf": "application/pdf", "png": "image/png", "jpg": "image/jpeg"}
"""What a browser may show by itself: nothing in these runs, whatever is in them."""
_DEFEATING = frozenset({"document_damaged", "archive_limits", "parser_crashed", "parser_timeout", "parser_memory"})
"""Why a document failed that got the better of our reader: a page does not set the browser's reader on it unasked."""

_SCRIPT_WORDS = ("documents.now", "documents.removed", "upload.", "state.document.")

router = APIRouter(prefix="/documents", tags=["documents"], route_class=PageDoor)


def is_for(app: Retoma) -> bool:
    """Whether *app* takes documents."""
    return PIPELINE in app.front.pipelines


async def _library(visit: Here, request: Request) -> Documents:
    visit.only(PIPELINE)
    place: Place = request.state.retoma
    return place.room(Documents)


Library = Annotated[Documents, Depends(_library)]
Id = Annotated[UUID, Path()]


# — coming in —


@router.post(
    "",
    status_code=202,
    response_model=shapes.Sent,
    openapi_extra=receiving.BODY,
    responses={507: {"description": "store_full", "content": receiving.PROBLEM}},
)
@needs("submit", limited=True, streamed=True, plain=True)
async def upload_documents(request: Request) -> Response:
    """Take files in, one or many, each by itself: one that is refused does not keep out the others. The same content
    sent again makes no second document, so a request that broke off may simply be repeated.
    """
    visit: Visit = request.state.visit
    sent = await receiving.received(await _library(visit, request), visit, request)
    if prefers_page(request):
        return page(request, "documents/sent.html", status=202, sent=sent)
    only = sent.documents[0] if len(sent.documents) == 1 else None
    headers = {"Location": f"{request.url.path}/{only.id}"} if only else {}
    return Response(sent.model_dump_json(exclude_unset=True), 202, headers, "application/json")


# — looking —


@router.get("", response_model=shapes.Documents)
@needs("read", limited=True)
async def list_documents(
    wanted: Annotated[shapes.DocumentFilter, Query()],
    library: Library,
    visit: Here,
    request: Request,
    response: Response,
) -> Any:
    """Documents, the newest first. *search* looks in their names; a browser gets the page."""
    found = await library.page(
        search=wanted.search.strip() or None,
        status=wanted.status or None,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit + 1,
    )
    shown = found[: wanted.limit]
    following = cursor_of(shown[-1].number) if len(found) > wanted.limit else None
    if prefers_page(request):
        return _grid(request, wanted, shown, following)
    response.headers["Vary"] = "Accept"
    point_to_next(request, response, following)
    content = visit.may(CONTENT)
    return shapes.Documents(documents=[shapes.Document.of(each, content=content) for each in shown], next=following)


@router.get("/status")
@needs("read", limited=True)
async def list_statuses(
    wanted: Annotated[shapes.StatusFilter, Query()], library: Library, visit: Here
) -> shapes.Processings:
    """How far several documents are: ``ids``, with commas between them."""
    found = await library.statuses(wanted.ids)
    return shapes.Processings(documents=[shapes.Processing.of(each, content=visit.may(CONTENT)) for each in found])


@router.get("/search", response_model=shapes.Findings)
@needs("content:read", limited=True)
async def search_documents(
    wanted: Annotated[shapes.Question, Query()], library: Library, request: Request, response: Response
) -> Any:
    """Pieces of documents that mean what was asked, or hold its words, best first, with page and snippet."""
    found = await library.search(wanted.q, limit=wanted.limit)
    if prefers_page(request):
        return page(request, "documents/search.html", asked=wanted, found=found)
    response.headers["Vary"] = "Accept"
    return shapes.Findings(found=[shapes.Found.of(each) for each in found])


@router.get("/{id}", response_model=shapes.WholeDocument)
@needs("read", limited=True)
async def get_document(id: Id, library: Library, visit: Here, request: Request, response: Response) -> Any:
    """A document with its steps, and with ``content:read`` what was read from it: fields, tables, chunks, error."""
    whole = await _whole(id, library, visit)
    if prefers_page(request):
        return _page_of(request, whole)
    response.headers["Vary"] = "Accept"
    return whole


@router.get("/{id}/status")
@needs("read", limited=True)
async def get_document_status(id: Id, library: Library, visit: Here) -> shapes.Processing:
    """How far a document is. Cheap to ask again with the ETag."""
    return shapes.Processing.of(await library.status(id), content=visit.may(CONTENT))


@router.get("/{id}/file", response_class=Response)
@needs("content:read", limited=True)
async def get_document_file(
    id: Id, wanted: Annotated[shapes.FileChoice, Query()], library: Library, request: Request
) -> Response:
    """The file as it was sent. With ``inline`` a browser may show a PDF or a picture instead of saving it."""
    stack = AsyncExitStack()
    # Opened before the answer begins, so that a store that does not answer is still a problem with a code.
    document, content = await stack.enter_async_context(library.open(id))

    async def pieces() -> AsyncIterator[bytes]:
        async with stack:
            async for piece in content:
                yield piece

    inline = wanted.inline and document.kind in SHOWN
    headers = {
        "Content-Disposition": disposition(document.filename, inline=inline),
        "Content-Length": str(document.size),
        "Content-Encoding": "identity",
        "Content-Security-Policy": _POLICIES.get(document.kind if inline else "", _CLOSED),
        "Cross-Origin-Resource-Policy": "same-origin",
        "ETag": f'"{document.sha256}"',
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        await stack.aclose()
        kept = ("ETag", "Content-Security-Policy", "Cross-Origin-Resource-Policy")
        return Response(status_code=304, headers={name: headers[name] for name in kept})
    kind = SHOWN.get(document.kind, "application/octet-stream") if inline else document.mime_type
    return StreamingResponse(pieces(), media_type=kind, headers=headers)


# — acting —


@router.post("/{id}/reprocess", status_code=202, response_model=shapes.Processing)
@needs("operate", limited=True, once=False)
async def reprocess_document(
    id: Id, library: Library, visit: Here, request: Request, response: Response, _: asked.Nothing | None = None
) -> Any:
    """Process a document again, once however often this is asked. What was read replaces what was there; after a
    failure the steps that are done are not done again.
    """
    processing = await library.reprocess(id)
    place = f"{base_of(request)}/documents/{id}"
    if request.headers.get("hx-request") == "true":
        return _page_of(request, await _whole(id, library, visit))
    if prefers_page(request):
        return RedirectResponse(place, 303)
    response.headers["Location"] = f"{place}/status"
    return shapes.Processing.of(processing, content=visit.may(CONTENT))


@router.delete("/{id}", status_code=204)
@needs("operate", limited=True, once=False)
async def remove_document(id: Id, library: Library, _: asked.Nothing | None = None) -> None:
    """Take a document away for good: the file, and all that was read from it."""
    if not await library.remove(id):
        raise NotFound(f"There is no document {id}.")


def disposition(filename: str, *, inline: bool) -> str:
    """A Content-Disposition that holds for any name (RFC 6266): plain letters for the old, UTF-8 for the others."""
    plain = "".join(each if each.isascii() and each.isprintable() and each not in '"\\%;' else "_" for each in filename)
    how = "inline" if inline else "attachment"
    return f"{how}; filename=\"{plain}\"; filename*=UTF-8''{quote(filename, safe='')}"


# What is opened by itself may load and run nothing; what is shown in our own pages may stand in a frame of ours.
_CLOSED = "default-src 'none'; frame-ancestors 'none'; sandbox"
_PICTURE = "default-src 'none'; img-src 'self'; style-src 'unsafe-inline'; frame-ancestors 'self'; sandbox"
# Browsers show a PDF with a viewer of their own, which is shut off from our pages and does not work in a sandbox.
_PDF = "default-src 'none'; object-src 'self'; plugin-types application/pdf; frame-ancestors 'self'"
_POLICIES = {"pdf": _PDF, "png": _PICTURE, "jpg": _PICTURE}


def _grid(
    request: Request, wanted: shapes.DocumentFilter, shown: list[nouns.Document], following: str | None
) -> Response:
    return page(
        request,
        "documents/grid.html",
        script_words=_SCRIPT_WORDS,
        wanted=wanted,
        documents=shown,
        next=following,
        largest=LARGEST,
        statuses=nouns.STATUSES,
    )


async def _whole(id: UUID, library: Documents, visit: Here) -> shapes.WholeDocument:
    document = await library.get(id)
    content = visit.may(CONTENT)
    made: dict[str, Any] = {"steps": await _steps(document, visit)}
    if content:
        made["fields"] = [shapes.DocumentField.of(each) for each in await library.fields(id)]
        made["tables"] = [
            shapes.DocumentTable(rows=_texts(each.rows), page=each.page) for each in await library.tables(id)
        ]
        made["chunks"] = [_chunk(each) for each in await library.chunks(id)]
    about = shapes.Document.of(document, content=content)
    return shapes.WholeDocument(**about.model_dump(exclude_unset=True), **made)


def _page_of(request: Request, document: shapes.WholeDocument) -> Response:
    stages: dict[str, float] = {}
    for step in document.steps:
        name = step.name.partition("/")[0]
        stages[name] = stages.get(name, 0.0) + (step.seconds or 0.0)
    defeated = document.status == "FAILED" and (document.error or "").partition(":")[0] in _DEFEATING
    return page(
        request,
        "documents/document.html",
        script_words=_SCRIPT_WORDS,
        document=document,
        shown={} if defeated else SHOWN,
        defeated=defeated,
        low=shapes.LOW,
        stages=list(stages.items()),
    )


async def _steps(document: nouns.Document, visit: Here) -> list[shapes.Step]:
    if document.job_id is None:
        return []
    try:
        kept = await visit.app.checkpoints(document.job_id)
    except NotFound:
        return []  # its job was pruned
    return [
        shapes.Step(name=each.step, seconds=each.seconds, saved_at=each.saved_at)
        for each in kept
        if each.set_aside_at is None
    ]


def _texts(rows: Any) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in rows]


def _chunk(chunk: nouns.Chunk) -> shapes.Chunk:
    return shapes.Chunk(
        place=chunk.place,
        text=chunk.content,
        section_type=chunk.section_type,
        title=chunk.title,
        page_start=chunk.page_start,
        page_end=chunk.page_end,
        token_count=chunk.token_count,
    )

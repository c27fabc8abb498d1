"""Documents: sent, followed, looked at, found, processed again, removed; for programs and, as pages, for people."""

from __future__ import annotations

from typing import Annotated, Any, cast
from uuid import UUID

from fastapi import APIRouter, Depends, Path, Query, Request, Response
from starlette.responses import RedirectResponse

from retoma.errors import Conflict, NotFound
from retoma.pipelines.documents import http_upload, model
from retoma.pipelines.documents import schemas as shapes
from retoma.pipelines.documents.http_file import FILE, SHOWN, file_answer
from retoma.pipelines.documents.library import Documents
from retoma.pipelines.files.ingest import LARGEST
from retoma.pipelines.files.refusals import REFUSED
from retoma.providers import Field
from retoma.providers.local import papers
from retoma.web.api.jobs import CONTENT
from retoma.web.api.schemas import requests
from retoma.web.http import etags
from retoma.web.http.audit import recorded
from retoma.web.http.auth import Here, SiteContext, Visit, needs
from retoma.web.http.cursors import cursor_of, opened, point_to_next
from retoma.web.http.errors import Refusal
from retoma.web.pages import PageRoute, page, prefers_page
from retoma.web.pages.languages import base_of

PIPELINE = "documents"
_DEFEATING = frozenset({"document_damaged", "archive_limits", "parser_crashed", "parser_timeout", "parser_memory"})
"""Why a document failed that got the better of our reader: a page does not set the browser's reader on it unasked."""

_FIRST_CHUNKS = 50
_MOST_AT_ONCE = 200
_MOST_CHUNKS = 2**31 - 1
_SCRIPT_WORDS = ("documents.now", "documents.removed", "upload.", "state.document.")

router = APIRouter(prefix="/documents", tags=["documents"], route_class=PageRoute)


async def _library(visit: Here, request: Request) -> Documents:
    visit.only(PIPELINE)
    place: SiteContext = request.state.retoma
    return place.room(Documents)


Library = Annotated[Documents, Depends(_library)]
Id = Annotated[UUID, Path()]


# — coming in —


@router.post(
    "",
    status_code=202,
    response_model=shapes.Sent,
    openapi_extra=http_upload.BODY,
)
@needs("submit", limited=True, streamed=True, plain=True, refuses=("pipelines_limited", *REFUSED))
async def upload_documents(request: Request) -> Response:
    """Take files in, one or many, each by itself: one that is refused does not keep out the others. The same content
    sent again makes no second document, so a request that broke off may simply be repeated.
    """
    visit: Visit = request.state.visit
    sent = await http_upload.received(await _library(visit, request), visit, request)
    if prefers_page(request):
        return page(request, "documents/sent.html", status=202, sent=sent)
    taken = [str(each.id) for each in sent.documents if each.id is not None]
    place = f"/{taken[0]}" if len(taken) == 1 else f"/status?ids={','.join(taken[:_MOST_AT_ONCE])}"
    headers = {"Location": f"{request.url.path}{place}"}
    return Response(sent.model_dump_json(exclude_unset=True), 202, headers, "application/json")


# — looking —


@router.get("", response_model=shapes.Documents)
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_documents(
    wanted: Annotated[shapes.DocumentFilter, Query()],
    library: Library,
    visit: Here,
    request: Request,
    response: Response,
) -> Any:
    """Documents, the newest first. *search* looks in their names; a browser gets the page."""
    shown, behind = await library.look(
        search=wanted.search.strip() or None,
        status=wanted.status or None,
        before=None if wanted.cursor is None else opened(wanted.cursor),
        limit=wanted.limit,
    )
    following = None if behind is None else cursor_of(behind)
    if prefers_page(request):
        return _grid(request, wanted, shown, following)
    response.headers["Vary"] = "Accept"
    point_to_next(request, response, following)
    content = visit.may(CONTENT)
    return shapes.Documents(documents=[shapes.Document.of(each, content=content) for each in shown], next=following)


@router.get("/status")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def list_statuses(
    wanted: Annotated[shapes.StatusFilter, Query()], library: Library, visit: Here
) -> shapes.Processings:
    """How far several documents are: ``ids``, with commas between them."""
    found = await library.statuses(wanted.ids)
    return shapes.Processings(documents=[shapes.Processing.of(each, content=visit.may(CONTENT)) for each in found])


@router.get("/search", response_model=shapes.Findings)
@needs("content:read", limited=True, costs=True, refuses=("pipelines_limited", "provider_unavailable"))
async def search_documents(
    wanted: Annotated[shapes.Question, Query()], library: Library, request: Request, response: Response
) -> Any:
    """Pieces of documents that mean what was asked, or hold its words, best first, with page and snippet."""
    found = await library.search(wanted.q, limit=wanted.limit)
    if prefers_page(request):
        return page(request, "documents/search.html", asked=wanted, found=found)
    response.headers["Vary"] = "Accept"
    return shapes.Findings(found=[shapes.Found.of(each) for each in found])


@router.get("/{id:uuid}", response_model=shapes.WholeDocument)
@needs("read", limited=True, refuses=("pipelines_limited",))
async def get_document(id: Id, library: Library, visit: Here, request: Request, response: Response) -> Any:
    """A document with its steps, and with ``content:read`` what was read from it: fields, tables, chunks, error."""
    whole = await _whole(await library.get(id), library, visit)
    if prefers_page(request):
        return _page_of(request, whole)
    response.headers.update({"Vary": "Accept", "ETag": etags.tag_of(whole)})
    return whole


@router.get("/{id:uuid}/status")
@needs("read", limited=True, refuses=("pipelines_limited",))
async def get_document_status(id: Id, library: Library, visit: Here) -> shapes.Processing:
    """How far a document is. Cheap to ask again with the ETag."""
    return shapes.Processing.of(await library.status(id), content=visit.may(CONTENT))


@router.get("/{id:uuid}/chunks")
@needs("content:read", limited=True, refuses=("pipelines_limited",))
async def list_chunks(
    id: Id,
    wanted: Annotated[shapes.ChunkFilter, Query()],
    library: Library,
    request: Request,
    response: Response,
) -> shapes.Chunks:
    """The text of a document in pieces, in order."""
    await library.get(id)
    page, following = await _chunks(library, id, wanted.cursor, wanted.limit)
    point_to_next(request, response, following)
    return shapes.Chunks(chunks=page, next=following)


@router.get("/{id:uuid}/file", response_class=Response, responses=FILE)
@needs("content:read", limited=True, refuses=("pipelines_limited", "range_not_satisfiable", "provider_unavailable"))
async def get_document_file(
    id: Id, wanted: Annotated[shapes.FileChoice, Query()], library: Library, request: Request
) -> Response:
    """The file as it was sent, or with ``Range`` a part of it. With ``inline`` a browser may show a PDF or a picture
    instead of saving it.
    """
    return await file_answer(request, library, await library.get(id), inline=wanted.inline)


# — acting —


@router.post("/{id:uuid}/reprocess", status_code=202, response_model=shapes.Processing)
@needs("operate", limited=True, once=False, refuses=("pipelines_limited",))
async def reprocess_document(
    id: Id, library: Library, visit: Here, request: Request, response: Response, _: requests.Nothing | None = None
) -> Any:
    """Process a document again, once however often this is asked. What was read replaces what was there; after a
    failure the steps that are done are not done again.
    """
    processing = await recorded(visit, lambda record: library.reprocess(id, also=record))
    place = f"{base_of(request)}/documents/{id}"
    if request.headers.get("hx-request") == "true":
        return _page_of(request, await _whole(await library.get(id), library, visit))
    if prefers_page(request):
        return RedirectResponse(place, 303)
    response.headers["Location"] = f"{place}/status"
    return shapes.Processing.of(processing, content=visit.may(CONTENT))


@router.delete("/{id:uuid}", status_code=204)
@needs("operate", limited=True, once=False, refuses=("pipelines_limited", "store_unavailable", "precondition_failed"))
async def remove_document(
    id: Id, library: Library, visit: Here, request: Request, _: requests.Nothing | None = None
) -> None:
    """Take a document away for good: the file, and all that was read from it."""
    seen = None
    if etags.is_named(request):
        seen = await library.get(id)
        etags.refuse_other(request, etags.tag_of(await _whole(seen, library, visit)))
    try:
        removed = await recorded(visit, lambda record: library.remove(id, seen=seen, also=record))
    except Conflict as error:
        raise Refusal("precondition_failed", said=error.message, next=error.next) from error
    if not removed:
        raise NotFound(f"There is no document {id}.")


def _grid(
    request: Request, wanted: shapes.DocumentFilter, shown: list[model.Document], following: str | None
) -> Response:
    return page(
        request,
        "documents/grid.html",
        script_words=_SCRIPT_WORDS,
        wanted=wanted,
        documents=shown,
        next=following,
        largest=LARGEST,
        statuses=model.STATUSES,
    )


async def _whole(document: model.Document, library: Documents, visit: Here) -> shapes.WholeDocument:
    id = document.id
    content = visit.may(CONTENT)
    made: dict[str, Any] = {"steps": await _steps(document, visit)}
    if content:
        made["fields"] = [_field(each) for each in await library.fields(id)]
        made["tables"] = [
            shapes.DocumentTable(rows=_texts(each.rows), page=each.page) for each in await library.tables(id)
        ]
        made["chunks"], made["chunks_next"] = await _chunks(library, id, None, _FIRST_CHUNKS)
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


async def _steps(document: model.Document, visit: Here) -> list[shapes.DocumentStep]:
    if document.job_id is None:
        return []
    try:
        kept = await visit.app.jobs.checkpoints(document.job_id)
    except NotFound:
        return []  # its job was pruned
    return [
        shapes.DocumentStep(name=each.step, seconds=each.seconds, saved_at=each.saved_at)
        for each in kept
        if each.set_aside_at is None
    ]


async def _chunks(
    library: Documents, id: UUID, cursor: str | None, limit: int
) -> tuple[list[shapes.Chunk], str | None]:
    """A page of chunks, and the cursor of the next one. A cursor is above 0, and places begin there."""
    after = -1 if cursor is None else opened(cursor) - 1
    if after >= _MOST_CHUNKS:
        raise Refusal("invalid_cursor")
    found = await library.chunks(id, after=after, limit=limit + 1)
    page = found[:limit]
    return [_chunk(each) for each in page], cursor_of(page[-1].place + 1) if len(found) > limit else None


def _field(field: Field) -> shapes.DocumentField:
    exact = papers.value_of(field.value, field.name)
    return shapes.DocumentField(
        name=field.name,
        value=field.value,
        confidence=field.confidence,
        page=field.page,
        kind=cast(Any, exact.kind) if exact else None,
        exact=exact.exact if exact else None,
    )


def _texts(rows: Any) -> list[list[str]]:
    return [[str(cell) for cell in row] for row in rows]


def _chunk(chunk: model.Chunk) -> shapes.Chunk:
    return shapes.Chunk(
        place=chunk.place,
        text=chunk.content,
        section_type=chunk.section_type,
        title=chunk.title,
        page_start=chunk.page_start,
        page_end=chunk.page_end,
        token_count=chunk.token_count,
    )

"""A book comes in: as a file, or as a text in a field of the form."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import Request

from retoma.errors import RetomaError
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.model import Started
from retoma.pipelines.files.ingest import FileRefused, StoreDown, StoreFull
from retoma.web.http.audit import Recording, recorded
from retoma.web.http.auth import Visit
from retoma.web.http.errors import Refusal
from retoma.web.http.multipart import Upload
from retoma.web.http.quotas import quotas_of, submitted
from retoma.web.pages.forms import fields_of

BODY = {
    "requestBody": {
        "required": True,
        "description": "One book: a file under any field name, or its text in the field text.",
        "content": {
            "multipart/form-data": {
                "schema": {
                    "type": "object",
                    "anyOf": [{"required": ["file"]}, {"required": ["text"]}],
                    "properties": {
                        "file": {
                            "type": "string",
                            "format": "binary",
                            "description": "PDF, EPUB, DOCX, text or Markdown.",
                        },
                        "text": {"description": "The book as text, instead of a file."},
                        "title": {"description": "What it is called; before the file in the form."},
                    },
                }
            },
            "application/x-www-form-urlencoded": {
                "schema": {
                    "type": "object",
                    "required": ["text"],
                    "properties": {
                        "text": {"description": "The book as text."},
                        "title": {"description": "What it is called."},
                    },
                }
            },
        },
    }
}
"""The body as the reference shows it; it is read as it comes in, and by nobody but us. Every field of a form is text,
so no type is told that something else could be taken for."""

_PLAIN = "application/x-www-form-urlencoded"
_LONGEST_TEXT = 20_000_000
_LONGEST_TITLE = 200
_NAMELESS = "Texto"


async def received(library: Books, visit: Visit, request: Request) -> Started:
    """The session of the book that *request* brings."""
    await quotas_of(request).make_room(visit, 1)
    started = None
    if request.headers.get("content-type", "").lower().startswith(_PLAIN):
        fields = await fields_of(request, largest=_LONGEST_TEXT)
    else:
        upload = Upload(request)
        async for filename, content in upload.files():
            if started is not None:
                raise Refusal("too_many_files", limit=1)
            started = await _begun(library, visit, filename, content, _clean(upload.fields.get("title", "")))
        fields = upload.fields
    text = fields.get("text", "").replace("\r\n", "\n")  # as browsers end lines
    if started is None and text.strip():
        title = _clean(fields.get("title", ""))
        started = await _begun(library, visit, f"{title or _NAMELESS}.txt", _pieces(text), title)
    if started is None:
        raise Refusal("file_missing")
    if not started.found and started.session.job_id is not None:
        await submitted(request, "job", [started.session.job_id])
    return started


async def _begun(library: Books, visit: Visit, filename: str, content: AsyncIterator[bytes], title: str) -> Started:
    async def begin(record: Recording) -> Started:
        return await library.summarise(
            filename,
            content,
            title=title or None,
            created_by=visit.caller,
            correlation_id=visit.correlation_id,
            also=record,
        )

    try:
        return await recorded(visit, begin)
    except (FileRefused, StoreDown, StoreFull) as error:
        raise _refusal(error) from error


def _clean(title: str) -> str:
    return " ".join(title.replace("\0", " ").split())[:_LONGEST_TITLE]


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

"""The file of a document as it was sent, or a part of it; and what a browser may do with it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from typing import Any
from urllib.parse import quote

from fastapi import Request, Response
from starlette.responses import StreamingResponse

from retoma.pipelines.documents.library import Documents
from retoma.pipelines.documents.model import Document
from retoma.pipelines.files.content import MIME_TYPES
from retoma.web.http.error_codes import headers_of
from retoma.web.http.ranges import part_of

SHOWN = {"pdf": "application/pdf", "png": "image/png", "jpg": "image/jpeg"}
"""What a browser may show by itself: nothing in these runs, whatever is in them."""

_WHOLE, _PART = 200, 206
_BYTES = {
    kind: {"schema": {"type": "string", "format": "binary"}}
    for kind in sorted({*MIME_TYPES.values(), "application/octet-stream"})
}
FILE: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "The file, under its own media type.",
        "headers": headers_of("Accept-Ranges", "Content-Disposition"),
        "content": _BYTES,
    },
    206: {
        "description": "The part of the file that Range asks for.",
        "headers": headers_of("X-Correlation-Id", "Accept-Ranges", "Content-Disposition", "Content-Range", "ETag"),
        "content": _BYTES,
    },
}


async def file_answer(request: Request, library: Documents, document: Document, *, inline: bool) -> Response:
    """The file, or the part of it that *request* asks for, as it comes out of the store."""
    inline = inline and document.kind in SHOWN
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": disposition(document.filename, inline=inline),
        "Content-Encoding": "identity",
        "Content-Security-Policy": _POLICIES.get(document.kind if inline else "", _CLOSED),
        "ETag": f'"{document.sha256}"',
    }
    if request.headers.get("if-none-match") == headers["ETag"]:
        kept = ("ETag", "Content-Security-Policy")
        return Response(status_code=304, headers={name: headers[name] for name in kept})
    part = part_of(request, size=document.size, tag=headers["ETag"])
    stack = AsyncExitStack()
    # Opened before the answer begins, so that a store that does not answer is still a problem with a code.
    asked_for = {} if part is None else part._asdict()
    _, content = await stack.enter_async_context(library.open(document.id, **asked_for))

    async def pieces() -> AsyncIterator[bytes]:
        async with stack:
            async for piece in content:
                yield piece

    headers["Content-Length"] = str(document.size if part is None else part.length)
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.start + part.length - 1}/{document.size}"
    kind = SHOWN.get(document.kind, "application/octet-stream") if inline else document.mime_type
    return StreamingResponse(pieces(), _WHOLE if part is None else _PART, media_type=kind, headers=headers)


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

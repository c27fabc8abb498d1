"""The book as it was sent, or a part of it; a browser may show a PDF, and saves anything else."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack
from urllib.parse import quote

from fastapi import Request, Response
from starlette.responses import StreamingResponse

from retoma.errors import NotFound
from retoma.pipelines.books import sessions
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.model import Session
from retoma.web.http.ranges import part_of

_WHOLE, _PART = 200, 206
_CLOSED = "default-src 'none'; frame-ancestors 'none'; sandbox"
# Browsers show a PDF with a viewer of their own, which is shut off from our pages and does not work in a sandbox.
_PDF = "default-src 'none'; object-src 'self'; plugin-types application/pdf; frame-ancestors 'none'"


async def source_answer(request: Request, library: Books, session: Session) -> Response:
    """The file, or the part of it that *request* asks for, as it comes out of the store."""
    if session.input_sha256 is None:
        raise NotFound(f"Session {session.id} has no input.")
    (given,) = await library.app.fetch(sessions.input(session.input_sha256))
    shown = given.kind == "pdf"
    headers = {
        "Accept-Ranges": "bytes",
        "Content-Disposition": f"{'inline' if shown else 'attachment'}; filename*=UTF-8''{quote(given.filename, '')}",
        "Content-Encoding": "identity",
        "Content-Security-Policy": _PDF if shown else _CLOSED,
        "ETag": f'"{given.sha256}"',
    }
    part = part_of(request, size=given.size, tag=headers["ETag"])
    stack = AsyncExitStack()
    # Opened before the answer begins, so that a store that does not answer is still a problem with a code.
    content = await stack.enter_async_context(
        library.files.blobs.open(given.blob, **({} if part is None else part._asdict()))
    )

    async def pieces() -> AsyncIterator[bytes]:
        async with stack:
            async for piece in content:
                yield piece

    headers["Content-Length"] = str(given.size if part is None else part.length)
    if part is not None:
        headers["Content-Range"] = f"bytes {part.start}-{part.start + part.length - 1}/{given.size}"
    kind = "application/pdf" if shown else "application/octet-stream"
    return StreamingResponse(pieces(), _WHOLE if part is None else _PART, media_type=kind, headers=headers)

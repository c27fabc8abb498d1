"""Files that were kept as evidence, sent as they are."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack

from fastapi import Response
from starlette.responses import StreamingResponse

from retoma.errors import NotFound
from retoma.pipelines.quotes.images import ENDINGS
from retoma.providers import BlobStore
from retoma.web.http.auth import Visit

_ENDINGS = {"text/html": "html", "application/json": "json", **ENDINGS}
# The pages of strangers run nothing and load nothing: they are saved, not shown.
_CLOSED = "default-src 'none'; frame-ancestors 'none'; sandbox"


async def streamed(visit: Visit, blob: str, kind: str, filename: str) -> Response:
    """A file that we have written ourselves, piece by piece; NotFound when it is not in the store any more."""
    stack = AsyncExitStack()
    content = await stack.enter_async_context(visit.app.provider(BlobStore).open(blob))

    async def pieces() -> AsyncIterator[bytes]:
        async with stack:
            async for piece in content:
                yield piece

    headers = {"Content-Disposition": f'attachment; filename="{filename}"', "Content-Encoding": "identity"}
    return StreamingResponse(pieces(), media_type=kind, headers=headers)


async def sent(visit: Visit, blob: str | None, kind: str, name: str, *, inline: bool) -> Response:
    """The content of *blob*, piece by piece, under a *name* without its ending."""
    if blob is None or not visit.app.provides(BlobStore):
        raise NotFound("There is no evidence of this.")
    blobs = visit.app.provider(BlobStore)
    if not await blobs.exists(blob):
        raise NotFound("There is no evidence of this.")
    stack = AsyncExitStack()
    content = await stack.enter_async_context(blobs.open(blob))

    async def pieces() -> AsyncIterator[bytes]:
        async with stack:
            async for piece in content:
                yield piece

    how = "inline" if inline else "attachment"
    headers = {
        "Content-Disposition": f'{how}; filename="{name}.{_ENDINGS.get(kind, "txt")}"',
        "Content-Encoding": "identity",
        "Content-Security-Policy": _CLOSED,
    }
    return StreamingResponse(pieces(), media_type=kind if kind in _ENDINGS else "text/plain", headers=headers)

"""The library: documents come in, are looked at, read again, found, and taken away."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeVar
from uuid import UUID

from retoma.app import Retoma
from retoma.commands import only
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.join import run_on
from retoma.pipelines.documents import contents, documents
from retoma.pipelines.documents.arriving import Arriving, queue
from retoma.pipelines.documents.nouns import (
    KINDS,
    STATUSES,
    Arrival,
    Chunk,
    Document,
    Found,
    NewDocument,
    Processing,
    Received,
)
from retoma.pipelines.documents.process import process
from retoma.pipelines.documents.search import search
from retoma.pipelines.files import Files
from retoma.providers import Field, Table
from retoma.query import Query

T = TypeVar("T")


class Documents:
    """The documents of an app. One of it serves many callers at once."""

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self.files = Files(app)
        self._arriving = Arriving(app, self.files)

    # — coming in —

    async def receive(
        self,
        filename: str,
        content: AsyncIterable[bytes],
        *,
        uploaded_by: str | None = None,
        correlation_id: str | None = None,
    ) -> Received:
        """Take a file in: document and job commit together. Content that is there already makes no second document.

        Raises FileRefused when the file is at fault, StoreFull or StoreDown when we are.
        """
        file = await self.files.take(filename, content, kinds=KINDS, opens=True)
        return await self._arriving.receive(Arrival(file, uploaded_by, correlation_id))

    # — looking —

    async def get(self, id: UUID) -> Document:
        """The document, with the state of its processing."""
        return _only(await self._app.fetch(documents.some([id])), id)

    async def status(self, id: UUID) -> Processing:
        """How far a document is."""
        return _only(await self._app.fetch(documents.statuses([id])), id)

    async def statuses(self, ids: Sequence[UUID]) -> list[Processing]:
        """How far several are, in the order asked for; those that are not there are left out."""
        found = {each.document_id: each for each in await self._app.fetch(documents.statuses(ids))}
        return [found[id] for id in dict.fromkeys(ids) if id in found]

    async def page(
        self, *, search: str | None = None, status: str | None = None, before: int | None = None, limit: int = 20
    ) -> list[Document]:
        """Documents, newest first, *before* a document's number for the next page; *search* looks in their names."""
        if status is not None and status not in STATUSES:
            raise ConfigurationError(f"There is no status {status!r}.", next=f"Choose one of {', '.join(STATUSES)}.")
        if limit < 1:
            raise ConfigurationError(f"A page has at least 1 document, not {limit}.", next="Leave limit out for 20.")
        return await self._app.fetch(documents.page(search=search, status=status, before=before, limit=limit))

    async def fields(self, id: UUID) -> list[Field]:
        """What it says under names."""
        return await self._app.fetch(contents.fields(id))

    async def tables(self, id: UUID) -> list[Table]:
        """Its tables."""
        return await self._app.fetch(contents.tables(id))

    async def chunks(self, id: UUID) -> list[Chunk]:
        """Its text, in pieces."""
        return await self._app.fetch(contents.chunks(id))

    @asynccontextmanager
    async def open(self, id: UUID) -> AsyncIterator[tuple[Document, AsyncIterator[bytes]]]:
        """The document and the file as it was sent, in pieces."""
        document = await self.get(id)
        async with AsyncExitStack() as stack:
            try:
                pieces = await stack.enter_async_context(self.files.blobs.open(document.blob))
            except NotFound:  # its name in the store is nobody's business
                raise NotFound(
                    f"The file of {document.filename} is not in the store any more.",
                    next="Send it again; what was read from it is still there.",
                ) from None
            yield document, pieces

    async def search(self, text: str, *, limit: int = 10) -> list[Found]:
        """Pieces of documents that mean *text* or hold its words, best first."""
        return await search(self._app, text, limit=limit)

    # — acting —

    async def reprocess(self, id: UUID) -> Processing:
        """Process it again, once however often this is asked.

        What waits or runs goes on as it is. After a failure the steps that are done are not done again; a completed
        one is done anew, and what was read replaces what was there.
        """
        async with self._app.transaction() as connection:
            given = _only(await self._on(connection, documents.hold(id)), id)
            now = (await self._on(connection, documents.statuses([id])))[0]
            if now.status in ("COMPLETED", "FAILED"):
                await self._again(connection, given, now)
        return await self.status(id)

    async def _again(self, connection: object, given: NewDocument, now: Processing) -> None:
        with suppress(Conflict, NotFound):
            if now.job_id is not None:
                act = self._app.restart if now.status == "COMPLETED" else self._app.retry
                await act(now.job_id, attempts=process.retry.attempts, conn=connection)
                await self._on(connection, documents.queue({given.id: now.job_id}))
                return
        with suppress(NotFound):  # somebody else set the job going: that is what was asked for
            if now.job_id is not None:
                await self._app.job(now.job_id, conn=connection)
                return
        await queue(self._app, [given], connection)  # its job was pruned

    async def remove(self, id: UUID) -> bool:
        """Take it away for good, with all that was read from it and the file itself; whether it was there."""
        async with self._app.transaction() as connection:
            gone = await self._on(connection, documents.remove(id))
            if not gone:
                return False
            blob, job_id = gone[0]
            await self._on(connection, self.files.release(blob))
            if job_id is not None:
                with suppress(Conflict, NotFound):  # it has ended, or was pruned
                    await self._app.cancel(job_id, reason="the document was removed", conn=connection)
        await self.files.drop(blob)
        return True

    async def _on(self, connection: object, query: Query[T]) -> list[T]:
        return await run_on(connection, only(query))


def _only(rows: Sequence[T], id: UUID) -> T:
    if not rows:
        raise NotFound(f"There is no document {id}.", next="'retoma documents list' shows those that are there.")
    return rows[0]

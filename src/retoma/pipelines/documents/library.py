"""The library: documents come in, are looked at, read again, found, and taken away."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, suppress
from typing import TypeVar
from uuid import UUID

from retoma.app.access.audit import Entry
from retoma.app.fetch import fetch
from retoma.app.retoma import Retoma
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model.ids import JobId
from retoma.pipelines.documents import contents, documents
from retoma.pipelines.documents.ingest import Arriving, queue
from retoma.pipelines.documents.model import (
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
from retoma.pipelines.documents.pipeline import process
from retoma.pipelines.documents.search import search
from retoma.pipelines.files.ingest import Files
from retoma.providers import Field, Table

T = TypeVar("T")
Also = Callable[[object], Awaitable[None]]
"""Something that is to happen on the connection of a change, if the change does."""


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
        entry: Entry | None = None,
    ) -> Received:
        """Take a file in: document and job commit together, and so does the *entry* of the audit. Content that is there
        already makes no second document, and no entry.

        Raises FileRefused when the file is at fault, StoreFull or StoreDown when we are.
        """
        file = await self.files.take(filename, content, kinds=KINDS, opens=True)
        return await self._arriving.receive(Arrival(file, uploaded_by, correlation_id, entry))

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
        return (await self.look(search=search, status=status, before=before, limit=limit, looks=None))[0]

    async def look(
        self,
        *,
        search: str | None = None,
        status: str | None = None,
        before: int | None = None,
        limit: int = 20,
        looks: int | None = 3,
    ) -> tuple[list[Document], int | None]:
        """The same in a bounded time: where few documents fit, fewer than *limit*; and the number to go on before."""
        if status is not None and status not in STATUSES:
            raise ConfigurationError(f"There is no status {status!r}.", next=f"Choose one of {', '.join(STATUSES)}.")
        if limit < 1:
            raise ConfigurationError(f"A page has at least 1 document, not {limit}.", next="Leave limit out for 20.")
        found: list[Document] = []
        while looks != 0:
            more = limit + 1 - len(found)  # one more than wanted: it says that there is another page
            found += await self._app.fetch(documents.page(search=search, status=status, before=before, limit=more))
            if len(found) > limit:
                return found[:limit], found[limit - 1].number
            stop = await self._app.fetch(documents.stop(before))
            if not stop:
                return found, None
            before, looks = stop[0], looks and looks - 1
        return found, before

    async def fields(self, id: UUID) -> list[Field]:
        """What it says under names."""
        return await self._app.fetch(contents.fields(id))

    async def tables(self, id: UUID) -> list[Table]:
        """Its tables."""
        return await self._app.fetch(contents.tables(id))

    async def chunks(self, id: UUID, *, after: int = -1, limit: int | None = None) -> list[Chunk]:
        """Its text, in pieces, *after* a place."""
        return await self._app.fetch(contents.chunks(id, after=after, limit=limit))

    @asynccontextmanager
    async def open(
        self, id: UUID, *, start: int = 0, length: int | None = None
    ) -> AsyncIterator[tuple[Document, AsyncIterator[bytes]]]:
        """The document and the file as it was sent, in pieces; or a part of it."""
        document = await self.get(id)
        part = {} if length is None else {"start": start, "length": length}
        async with AsyncExitStack() as stack:
            try:
                pieces = await stack.enter_async_context(self.files.blobs.open(document.blob, **part))
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

    async def reprocess(self, id: UUID, *, also: Also | None = None) -> Processing:
        """Process it again, once however often this is asked.

        What waits or runs goes on as it is. After a failure the steps that are done are not done again; a completed
        one is done anew, and what was read replaces what was there. *also* is done in the transaction of that.
        """
        async with self._app.transaction() as connection:
            given = _only(await fetch(connection, documents.hold(id)), id)
            now = (await fetch(connection, documents.statuses([id])))[0]
            if now.status in ("COMPLETED", "FAILED"):
                await self._again(connection, given, now)
                if also is not None:
                    await also(connection)
        return await self.status(id)

    async def _again(self, connection: object, given: NewDocument, now: Processing) -> None:
        with suppress(Conflict, NotFound):
            if now.job_id is not None:
                act = self._app.jobs.restart if now.status == "COMPLETED" else self._app.jobs.retry
                await act(now.job_id, attempts=process.retry.attempts, conn=connection)
                await fetch(connection, documents.queue({given.id: now.job_id}))
                return
        with suppress(NotFound):  # somebody else set the job going: that is what was asked for
            if now.job_id is not None:
                await self._app.jobs.get(now.job_id, conn=connection)
                return
        await queue(self._app, [given], connection)  # its job was pruned

    async def remove(self, id: UUID, *, seen: Document | None = None, also: Also | None = None) -> bool:
        """Take it away for good, with all that was read from it and the file itself; whether it was there. Refused when
        it is not any more as it was *seen*. *also* is done in the transaction of that.
        """
        async with self._app.transaction() as connection:
            if seen is not None:
                await fetch(connection, documents.hold(id))
                if await fetch(connection, documents.some([id])) not in ([seen], []):
                    raise Conflict(f"Document {id} has changed meanwhile.", next="Look at it again.")
            gone = await fetch(connection, documents.remove(id))
            if not gone:
                return False
            blob, job_id = gone[0]
            await fetch(connection, self.files.release(blob))
            if job_id is not None:
                with suppress(Conflict, NotFound):  # it has ended, or was pruned
                    await self._app.jobs.cancel(JobId(job_id), reason="the document was removed", conn=connection)
            if also is not None:
                await also(connection)
        await self.files.drop(blob)
        return True


def _only(rows: Sequence[T], id: UUID) -> T:
    if not rows:
        raise NotFound(f"There is no document {id}.", next="'retoma documents list' shows those that are there.")
    return rows[0]

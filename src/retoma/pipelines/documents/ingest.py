"""Files become documents, each with its job; those that come at the same moment share a transaction."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from uuid import UUID

from retoma.app.access.audit import Entry, as_noted
from retoma.app.fetch import fetch
from retoma.app.retoma import Retoma
from retoma.pipelines.documents import documents
from retoma.pipelines.documents.model import Arrival, Document, NewDocument, Received
from retoma.pipelines.documents.pipeline import process
from retoma.pipelines.files.ingest import Files, StoreDown
from retoma.system.concurrency import Coalescer

_MOST = 50  # so that nobody waits for the files of too many others


class Arriving:
    """Takes in the documents of an app."""

    def __init__(self, app: Retoma, files: Files) -> None:
        self._app = app
        self._files = files
        self._written: Coalescer[Arrival, Document | StoreDown | None] = Coalescer(self._write, most=_MOST)

    async def receive(self, arrival: Arrival) -> Received:
        """The document that the file became, or the one of equal content that was there before."""
        file = arrival.file
        while True:
            became = await self._written(arrival)
            if isinstance(became, StoreDown):
                raise became
            if became is not None:
                return Received(became)
            if known := await self._app.fetch(documents.by_content(file.sha256)):
                await self._files.drop(file.blob)
                return Received(known[0], duplicate_of=known[0].id)
            # The equal one was removed between the two looks: then this one is the first.

    async def _write(self, arrivals: list[Arrival]) -> list[Document | StoreDown | None]:
        """What became of each, in one transaction: None when its content is there already."""
        async with self._app.transaction() as connection:
            rows = await fetch(connection, documents.receive(arrivals))
            ids = {blob: id for blob, id, _ in rows if id is not None}
            swept = {blob for blob, _, held in rows if not held}
            made = await self._queue(connection, [each for each in arrivals if each.file.blob in ids], ids)
            await self._app.audit.write_all(
                [
                    _entry(each.entry, made[each.file.blob])
                    for each in arrivals
                    if each.entry is not None and each.file.blob in made
                ],
                conn=connection,
            )
        return [_swept(each) if each.file.blob in swept else made.get(each.file.blob) for each in arrivals]

    async def _queue(
        self, connection: object, arrivals: Sequence[Arrival], ids: dict[str, UUID]
    ) -> dict[str, Document]:
        """The documents by their blobs, each with a job that waits."""
        if not arrivals:
            return {}
        given = [_given(ids[each.file.blob], each) for each in arrivals]
        correlations = dict(zip(given, (each.correlation_id for each in arrivals), strict=True))
        await queue(self._app, given, connection, correlation_id=correlations.get)
        return {each.blob: each for each in await fetch(connection, documents.some(list(ids.values())))}


async def queue(
    app: Retoma,
    given: Sequence[NewDocument],
    connection: object,
    *,
    correlation_id: Callable[[NewDocument], str | None] = lambda _: None,
) -> None:
    """Queue the jobs that process documents, in the transaction of *connection*."""
    receipts = await app.enqueue_many(
        process, given, key=lambda each: f"document:{each.id}", correlation_id=correlation_id, conn=connection
    )
    jobs = {each.id: receipt.id for each, receipt in zip(given, receipts, strict=True)}
    await fetch(connection, documents.queue(jobs))


def _given(id: UUID, arrival: Arrival) -> NewDocument:
    file = arrival.file
    return NewDocument(id=id, filename=file.filename, kind=file.kind, sha256=file.sha256, blob=file.blob)


def _entry(entry: Entry, document: Document) -> Entry:
    """*entry*, which says of a new document what the audit says of one that is there."""
    stands = {"size": document.size, "sha256": document.sha256, "attempts": document.attempts, "job": document.job_id}
    return replace(entry, object_id=str(document.id), after=as_noted(stands))


def _swept(arrival: Arrival) -> StoreDown:
    return StoreDown(f"{arrival.file.filename} took so long that it was swept away.", next="Send it again.")

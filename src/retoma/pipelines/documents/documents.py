"""Documents, as queries."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from uuid import UUID

from retoma.pipelines.documents.model import Arrival, Document, NewDocument, Processing
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.documents.queries", "documents.sql")

AT_MOST = 10_000
"""How many documents one look for a page goes through."""


def _id(id: UUID) -> UUID:
    return id


def _removed(blob: str, job_id: int | None) -> tuple[str, int | None]:
    return blob, job_id


def _arrived(blob: str, id: UUID | None, held: bool) -> tuple[str, UUID | None, bool]:
    return blob, id, held


def receive(arrivals: Sequence[Arrival]) -> Query[tuple[str, UUID | None, bool]]:
    files = [each.file for each in arrivals]
    params = {
        "filenames": [file.filename for file in files],
        "kinds": [file.kind for file in files],
        "mime_types": [file.mime_type for file in files],
        "sizes": [file.size for file in files],
        "contents": [file.sha256 for file in files],
        "blobs": [file.blob for file in files],
        "senders": [each.uploaded_by for each in arrivals],
        "correlations": [each.correlation_id for each in arrivals],
    }
    return Query(SQL["receive"], _arrived, params)


def queue(jobs: Mapping[UUID, int]) -> Query[UUID]:
    return Query(SQL["queue"], _id, {"ids": list(jobs), "jobs": list(jobs.values())})


def some(ids: Sequence[UUID]) -> Query[Document]:
    return Query(SQL["some"], Document, {"ids": list(ids)})


def by_content(sha256: str) -> Query[Document]:
    return Query(SQL["by_content"], Document, {"content": sha256})


def page(
    *, search: str | None, status: str | None, before: int | None, limit: int, look: int = AT_MOST
) -> Query[Document]:
    params = {"search": search, "status": status, "before": before, "limit": limit, "look": look}
    return Query(SQL["page"], Document, params)


def stop(before: int | None, *, look: int = AT_MOST) -> Query[int]:
    return Query(SQL["stop"], int, {"before": before, "look": look})


def statuses(ids: Sequence[UUID]) -> Query[Processing]:
    return Query(SQL["statuses"], Processing, {"ids": list(ids)})


def hold(id: UUID) -> Query[NewDocument]:
    return Query(SQL["hold"], NewDocument, {"id": id})


def finish(document: NewDocument, job: int, *, page_count: int, reader: str, attempts: int) -> Query[UUID]:
    params = {
        "id": document.id,
        "job": job,
        "content": document.sha256,
        "blob": document.blob,
        "page_count": page_count,
        "reader": reader,
        "attempts": attempts,
    }
    return Query(SQL["finish"], _id, params)


def remove(id: UUID) -> Query[tuple[str, int | None]]:
    return Query(SQL["remove"], _removed, {"id": id})

"""Documents, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from retoma.pipelines.documents.nouns import Document, NewDocument, Processing
from retoma.pipelines.files import File
from retoma.query import Query, load

SQL = load("retoma.pipelines.documents.queries", "documents.sql")


def _id(id: UUID) -> UUID:
    return id


def _removed(blob: str, job_id: int | None) -> tuple[str, int | None]:
    return blob, job_id


def receive(file: File, *, uploaded_by: str | None, correlation_id: str | None) -> Query[UUID]:
    params = {
        "filename": file.filename,
        "kind": file.kind,
        "mime_type": file.mime_type,
        "size": file.size,
        "content": file.sha256,
        "blob": file.blob,
        "uploaded_by": uploaded_by,
        "correlation_id": correlation_id,
    }
    return Query(SQL["receive"], _id, params)


def queue(id: UUID, job_id: int) -> Query[UUID]:
    return Query(SQL["queue"], _id, {"id": id, "job_id": job_id})


def one(id: UUID) -> Query[Document]:
    return Query(SQL["one"], Document, {"id": id})


def by_content(sha256: str) -> Query[Document]:
    return Query(SQL["by_content"], Document, {"content": sha256})


def page(*, search: str | None, status: str | None, before: int | None, limit: int) -> Query[Document]:
    params = {"search": search, "status": status, "before": before, "limit": limit}
    return Query(SQL["page"], Document, params)


def statuses(ids: Sequence[UUID]) -> Query[Processing]:
    return Query(SQL["statuses"], Processing, {"ids": list(ids)})


def hold(id: UUID) -> Query[NewDocument]:
    return Query(SQL["hold"], NewDocument, {"id": id})


def finish(id: UUID, *, page_count: int, reader: str, attempts: int) -> Query[UUID]:
    params = {"id": id, "page_count": page_count, "reader": reader, "attempts": attempts}
    return Query(SQL["finish"], _id, params)


def remove(id: UUID) -> Query[tuple[str, int | None]]:
    return Query(SQL["remove"], _removed, {"id": id})

"""What was read from a document, as queries."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any
from uuid import UUID

import orjson

from retoma.pipelines.documents.model import Chunk
from retoma.providers import Field, Table
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.documents.queries", "contents.sql")


def _field(name: str, value: str, confidence: float, page: int | None) -> Field:
    return Field(name=name, value=value, confidence=confidence, page=page)


def _table(rows: Sequence[Sequence[str]], page: int | None) -> Table:
    return Table(rows=rows, page=page)


def _json(rows: Sequence[dict[str, Any]]) -> str:
    return orjson.dumps(list(rows)).decode()


def clear(id: UUID) -> Query[int]:
    return Query(SQL["clear"], int, {"id": id})


def put_fields(id: UUID, fields: Sequence[Field]) -> Query[int]:
    rows = [{"place": place, **asdict(field)} for place, field in enumerate(fields)]
    return Query(SQL["put_fields"], int, {"id": id, "fields": _json(rows)})


def put_tables(id: UUID, tables: Sequence[Table]) -> Query[int]:
    rows = [{"place": place, "page": table.page, "rows": table.rows} for place, table in enumerate(tables)]
    return Query(SQL["put_tables"], int, {"id": id, "tables": _json(rows)})


def put_chunks(
    id: UUID, chunks: Sequence[Chunk], vectors: Sequence[Sequence[float]], *, provider: str, model: str
) -> Query[int]:
    rows = [{**asdict(chunk), "vector": vector} for chunk, vector in zip(chunks, vectors, strict=True)]
    return Query(SQL["put_chunks"], int, {"id": id, "chunks": _json(rows), "provider": provider, "model": model})


def fields(id: UUID) -> Query[Field]:
    return Query(SQL["fields"], _field, {"id": id})


def tables(id: UUID) -> Query[Table]:
    return Query(SQL["tables"], _table, {"id": id})


def chunks(id: UUID, *, after: int = -1, limit: int | None = None) -> Query[Chunk]:
    return Query(SQL["chunks"], Chunk, {"id": id, "after": after, "limit": limit})

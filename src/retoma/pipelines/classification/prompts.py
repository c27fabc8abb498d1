"""Prompts, as queries."""

from __future__ import annotations

from datetime import datetime

from retoma.pipelines.classification.model import SavedPrompt
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.classification.queries", "prompts.sql")


def _id(id: int, *_: object) -> int:
    return id


def _version(sha256: str, content: str, created_at: datetime) -> tuple[str, str, datetime]:
    return sha256, content, created_at


def create(name: str, content: str, sha: str, *, description: str | None, document_codes: str | None) -> Query[int]:
    params = {"name": name, "content": content, "sha": sha, "description": description}
    return Query(SQL["create"], _id, {**params, "document_codes": document_codes})


def change(
    id: int,
    *,
    name: str | None = None,
    content: str | None = None,
    sha: str | None = None,
    description: str | None = None,
    document_codes: str | None = None,
) -> Query[int]:
    params = {"id": id, "name": name, "content": content, "sha": sha, "description": description}
    return Query(SQL["change"], _id, {**params, "document_codes": document_codes})


def one(id: int) -> Query[SavedPrompt]:
    return Query(SQL["one"], SavedPrompt, {"id": id})


def page(name: str | None = None) -> Query[SavedPrompt]:
    return Query(SQL["page"], SavedPrompt, {"name": name})


def archive(id: int) -> Query[int]:
    return Query(SQL["archive"], _id, {"id": id})


def hold(id: int) -> Query[int]:
    return Query(SQL["hold"], _id, {"id": id})


def versions(id: int) -> Query[tuple[str, str, datetime]]:
    return Query(SQL["versions"], _version, {"id": id})

"""Chapters, as queries."""

from __future__ import annotations

from retoma.pipelines.books.model import Standing, StoredChapter
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.books.queries", "chapters.sql")


def put(session_id: str, chapter: StoredChapter) -> Query[int]:
    params = {
        "session_id": session_id,
        "place": chapter.place,
        "number": chapter.number,
        "title": chapter.title,
        "content": chapter.content,
        "words": chapter.words,
        "pages": list(chapter.pages),
        "page_starts": chapter.page_starts,
        "sha256": chapter.sha256,
    }
    return Query(SQL["put"], int, params)


def clear(session_id: str) -> Query[int]:
    return Query(SQL["clear"], int, {"session_id": session_id})


def of(session_id: str) -> Query[StoredChapter]:
    return Query(SQL["of"], StoredChapter, {"session_id": session_id})


def standing(session_id: str) -> Query[Standing]:
    return Query(SQL["standing"], Standing, {"session_id": session_id})

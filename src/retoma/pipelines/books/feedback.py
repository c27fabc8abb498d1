"""Feedback, as queries."""

from __future__ import annotations

from retoma.pipelines.books.model import Feedback
from retoma.store.query import Query, load

SQL = load("retoma.pipelines.books.queries", "feedback.sql")


def add(
    session_id: str, *, kind: str, message: str, chapter_number: str | None, created_by: str | None
) -> Query[Feedback]:
    params = {
        "session_id": session_id,
        "kind": kind,
        "message": message,
        "chapter_number": chapter_number,
        "created_by": created_by,
    }
    return Query(SQL["add"], Feedback, params)


def of(session_id: str) -> Query[Feedback]:
    return Query(SQL["of"], Feedback, {"session_id": session_id})


def answer(session_id: str, id: int, *, answer: str, answered_by: str | None) -> Query[Feedback]:
    params = {"session_id": session_id, "id": id, "answer": answer, "answered_by": answered_by}
    return Query(SQL["answer"], Feedback, params)

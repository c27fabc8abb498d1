"""Each statement about feedback does what its comment says."""

from __future__ import annotations

import psycopg
from book_rows import ask, begun

from retoma.pipelines.books import feedback


def said(psql: psycopg.Connection, message: str = "Por quê?") -> int:
    put = feedback.add("s", kind="question", message=message, chapter_number="2", created_by="ana")
    return ask(psql, put)[0].id


class TestAdd:
    def test_it_is_kept(self, psql: psycopg.Connection) -> None:
        begun(psql)
        said(psql)

        (found,) = ask(psql, feedback.of("s"))
        assert (found.message, found.chapter_number, found.created_by, found.answer) == ("Por quê?", "2", "ana", None)


class TestOf:
    def test_it_comes_in_the_order_in_which_it_was_said(self, psql: psycopg.Connection) -> None:
        begun(psql)
        said(psql, "um")
        said(psql, "dois")

        assert [each.message for each in ask(psql, feedback.of("s"))] == ["um", "dois"]


class TestAnswer:
    def test_only_what_was_said_of_that_session_is_answered(self, psql: psycopg.Connection) -> None:
        begun(psql)
        id = said(psql)

        assert ask(psql, feedback.answer("t", id, answer="não", answered_by=None)) == []
        (now,) = ask(psql, feedback.answer("s", id, answer="sim", answered_by="bruno"))
        assert (now.answer, now.answered_by) == ("sim", "bruno")

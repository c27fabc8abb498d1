"""How a book stands, for the audit: what anybody may know who may look, and none of its words."""

from __future__ import annotations

import json
from typing import Any

import psycopg
from book_rows import ask, begun, job

from retoma.pipelines.books import chapters, standing
from retoma.pipelines.books.model import stored
from retoma.pipelines.books.ports import Chapter


def stands(psql: psycopg.Connection, id: str = "s") -> dict[str, Any]:
    [text] = ask(psql, standing.book(id))
    assert "SECRET" not in text
    found: dict[str, Any] = json.loads(text)
    return found


def put(psql: psycopg.Connection, title: str, place: int = 1) -> None:
    psql.execute("delete from books.chapters where place = %s", [place])
    ask(psql, chapters.put("s", stored(place, Chapter(number=str(place), title=title, text="SECRET text"))))


class TestBook:
    def test_its_hashes_its_job_and_what_is_done_of_it(self, psql: psycopg.Connection) -> None:
        begun(psql)
        id = job(psql, "cancelled")
        psql.execute("update books.sessions set job_id = %s", [id])

        found = stands(psql)

        assert (found["input"], found["job"], found["job_state"], found["done"]) == ("a", id, "cancelled", 0)

    def test_another_title_shows_without_being_told(self, psql: psycopg.Connection) -> None:
        begun(psql)
        put(psql, "SECRET one")
        before = stands(psql)
        put(psql, "SECRET two")

        assert (before["chapters"], stands(psql)["chapters"]) == (1, 1)
        assert before["list"] != stands(psql)["list"]

    def test_what_readers_said_is_counted(self, psql: psycopg.Connection) -> None:
        begun(psql)
        before = stands(psql)
        psql.execute("insert into books.feedback (session_id, kind, message) values ('s', 'error', 'SECRET')")

        assert (before["feedback"], stands(psql)["feedback"], stands(psql)["answered"]) == (0, 1, 0)

    def test_of_one_that_is_not_there_nothing_is_known(self, psql: psycopg.Connection) -> None:
        assert [ask(psql, standing.book(id)) for id in ("", "nobody", "99999999999999999999")] == [[], [], []]

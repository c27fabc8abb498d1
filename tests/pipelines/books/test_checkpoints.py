"""Each statement about checkpoints does what its comment says."""

from __future__ import annotations

import psycopg
import pytest
from book_rows import ask, begun
from sample_books import CONFIGURATION, TEXT, body_of, ours

from retoma.pipelines.books import checkpoints
from retoma.pipelines.books.verdicts import Fault, hash_of, invalid, judge

WRONG = invalid("not_json", "it is cut off")


def saved(psql: psycopg.Connection, number: str = "1", minute: int = 30, session: str = "s") -> bytes:
    body = body_of(ours(number, minute=minute))
    ask(psql, checkpoints.save(session, number, body, judge(body), origin="run"))
    return body


class TestSave:
    def test_versions_count_up_and_a_chapter_is_done_once(self, psql: psycopg.Connection) -> None:
        begun(psql)
        assert ask(psql, checkpoints.save("s", "1", b"{", WRONG, origin="import", source="a.json")) == [1]
        body = saved(psql)

        with pytest.raises(psycopg.errors.UniqueViolation):
            saved(psql)
        assert ask(psql, checkpoints.save("s", "1", b"", WRONG, origin="run")) == [3]
        (found,) = ask(psql, checkpoints.valid("s"))
        assert (bytes(found.body), found.version, found.verdict, found.total_chunks) == (body, 2, "valid", 10)


class TestOf:
    def test_all_are_there_the_newest_first_and_those_without_a_time_last(self, psql: psycopg.Connection) -> None:
        begun(psql)
        ask(psql, checkpoints.save("s", "3", b"{", WRONG, origin="import"))
        saved(psql, "1", 10)
        saved(psql, "2", 20)

        assert [row.chapter_number for row in ask(psql, checkpoints.of("s"))] == ["2", "1", "3"]


class TestValid:
    def test_what_was_set_aside_is_not_among_them(self, psql: psycopg.Connection) -> None:
        begun(psql)
        saved(psql)
        ask(psql, checkpoints.save("s", "2", b"{", WRONG, origin="import"))

        assert [row.chapter_number for row in ask(psql, checkpoints.valid("s"))] == ["1"]


class TestSetAside:
    def test_it_is_marked_once_and_kept_as_it_is(self, psql: psycopg.Connection) -> None:
        begun(psql)
        body = saved(psql)
        (row,) = ask(psql, checkpoints.valid("s"))

        assert ask(psql, checkpoints.set_aside(row.id, Fault("checksum_differs", "x", "y\0"))) == [row.id]
        assert ask(psql, checkpoints.set_aside(row.id, Fault("not_json", "x", "z"))) == []
        (now,) = ask(psql, checkpoints.of("s"))
        assert (bytes(now.body), now.verdict, now.reason) == (body, "invalid", "checksum_differs")


class TestReusable:
    def test_valid_ones_of_the_same_text_and_way_are_found_in_other_sessions(self, psql: psycopg.Connection) -> None:
        begun(psql, "s", "a")
        begun(psql, "t", "b")
        body, way = saved(psql), hash_of(CONFIGURATION)

        assert ask(psql, checkpoints.reusable("t", [TEXT], way)) == [(TEXT, "s", body)]
        assert ask(psql, checkpoints.reusable("s", [TEXT], way)) == []
        assert ask(psql, checkpoints.reusable("t", [TEXT], "another")) == []
        assert ask(psql, checkpoints.reusable("t", ["another"], way)) == []

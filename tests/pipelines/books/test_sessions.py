"""Each statement about sessions does what its comment says."""

from __future__ import annotations

from decimal import Decimal

import psycopg
from book_rows import ask, begun, job, kept
from sample_books import body_of, ours

from retoma.pipelines.books import checkpoints, sessions
from retoma.pipelines.books.model import Input
from retoma.pipelines.books.verdicts import judge


class TestKeepInput:
    def test_a_content_is_kept_once(self, psql: psycopg.Connection) -> None:
        given = Input("a", "livro.md", "txt", 10, "files/1")

        assert ask(psql, sessions.keep_input(given)) == ["a"]
        assert ask(psql, sessions.keep_input(Input("a", "other.md", "txt", 10, "files/2"))) == []


class TestInput:
    def test_it_is_given_back_as_it_was_kept(self, psql: psycopg.Connection) -> None:
        kept(psql)

        assert ask(psql, sessions.input("a")) == [Input("a", "livro.md", "txt", 10, "files/a")]
        assert ask(psql, sessions.input("b")) == []


class TestBegin:
    def test_an_input_has_one_session_in_one_configuration(self, psql: psycopg.Connection) -> None:
        assert begun(psql, "one") == ["one"]
        assert begun(psql, "two") == []
        assert begun(psql, "two", configuration="other") == ["two"]
        assert begun(psql, "three", None) == ["three"]
        assert begun(psql, "four", None) == ["four"]


class TestSame:
    def test_it_is_found_by_input_and_configuration(self, psql: psycopg.Connection) -> None:
        begun(psql)

        assert ask(psql, sessions.same("a", "c")) == ["s"]
        assert ask(psql, sessions.same("a", "d")) == []


class TestHold:
    def test_the_row_is_locked(self, psql: psycopg.Connection, database_url: str) -> None:
        begun(psql)
        with psycopg.connect(database_url) as one, psycopg.connect(database_url, autocommit=True) as other:
            (held,) = ask(one, sessions.hold("s"))
            locked = other.execute("select id from books.sessions for update skip locked").fetchall()

        assert (held.id, held.input_sha256, held.runs, held.doubtful) == ("s", "a", 0, False)
        assert locked == []


class TestOwned:
    def test_only_its_own_job_gets_it(self, psql: psycopg.Connection) -> None:
        begun(psql)
        ask(psql, sessions.queue("s", 7))

        assert [each.id for each in ask(psql, sessions.owned("s", 7))] == ["s"]
        assert ask(psql, sessions.owned("s", 8)) == []


class TestQueue:
    def test_a_job_is_counted(self, psql: psycopg.Connection) -> None:
        begun(psql)
        ask(psql, sessions.queue("s", 7))
        ask(psql, sessions.queue("s", 8))

        (held,) = ask(psql, sessions.hold("s"))
        assert (held.job_id, held.runs) == (8, 2)


class TestAttach:
    def test_an_input_is_given_once(self, psql: psycopg.Connection) -> None:
        begun(psql, sha256=None)
        kept(psql, "a")
        kept(psql, "b")

        assert ask(psql, sessions.attach("s", "a")) == ["s"]
        assert ask(psql, sessions.attach("s", "b")) == []


class TestPlanned:
    def test_what_was_found_is_kept(self, psql: psycopg.Connection) -> None:
        begun(psql)
        said = sessions.planned("s", detector="outline", left_out=[], doubts=["Why?"], pages=7, reader="test")
        assert ask(psql, said) == ["s"]

        (held,) = ask(psql, sessions.hold("s"))
        assert held.planned_at is not None
        assert held.doubtful


class TestArranged:
    def test_another_list_leaves_the_doubts(self, psql: psycopg.Connection) -> None:
        begun(psql)
        ask(psql, sessions.planned("s", detector="x", left_out=[], doubts=["?"], pages=1, reader="x"))

        ask(psql, sessions.arranged("s", detector="x, by hand", left_out=[{"kind": "notes"}]))

        (session,) = ask(psql, sessions.one("s"))
        assert (session.detector, session.left_out, session.doubts) == ("x, by hand", '[{"kind":"notes"}]', '["?"]')


class TestApprove:
    def test_the_first_time_counts_and_there_is_no_doubt_any_more(self, psql: psycopg.Connection) -> None:
        begun(psql)
        ask(psql, sessions.planned("s", detector="x", left_out=[], doubts=["?"], pages=1, reader="x"))
        ask(psql, sessions.approve("s"))
        first = ask(psql, sessions.hold("s"))[0].approved_at
        ask(psql, sessions.approve("s"))

        (held,) = ask(psql, sessions.hold("s"))
        assert held.approved_at == first
        assert not held.doubtful


class TestFinish:
    def test_it_is_done_and_not_done_any_more(self, psql: psycopg.Connection) -> None:
        begun(psql)
        ask(psql, sessions.finish("s", done=True))
        first = ask(psql, sessions.hold("s"))[0].finished_at
        ask(psql, sessions.finish("s", done=True))
        assert ask(psql, sessions.hold("s"))[0].finished_at == first is not None

        ask(psql, sessions.finish("s", done=False))
        assert ask(psql, sessions.hold("s"))[0].finished_at is None


class TestOne:
    def test_a_session_is_told_with_the_state_of_its_job(self, psql: psycopg.Connection) -> None:
        begun(psql)
        (now,) = ask(psql, sessions.one("s"))
        assert (now.state, now.reason, now.filename, now.done, now.chapters) == ("paused", "stopped", "livro.md", 0, 0)

        for state, told in (
            ("queued", "in_progress"),
            ("failed", "failed"),
            ("cancelled", "paused"),
            ("review", "paused"),
        ):
            ask(psql, sessions.queue("s", job(psql, state)))
            assert ask(psql, sessions.one("s"))[0].state == told
        assert ask(psql, sessions.one("s"))[0].reason == "review"
        ask(psql, sessions.finish("s", done=True))
        assert ask(psql, sessions.one("s"))[0].state == "done"

    def test_one_without_an_input_says_so(self, psql: psycopg.Connection) -> None:
        begun(psql, sha256=None)

        (now,) = ask(psql, sessions.one("s"))
        assert (now.state, now.reason, now.filename) == ("paused", "input_missing", None)


class TestPage:
    def test_the_newest_come_first_and_a_page_goes_on(self, psql: psycopg.Connection) -> None:
        for each in "abc":
            begun(psql, each, each)

        first = ask(psql, sessions.page(limit=2))
        assert [each.id for each in first] == ["c", "b"]
        assert [each.id for each in ask(psql, sessions.page(before=first[-1].number))] == ["a"]


class TestRemove:
    def test_its_checkpoints_go_with_it(self, psql: psycopg.Connection) -> None:
        begun(psql)
        body = body_of(ours())
        ask(psql, checkpoints.save("s", "1", body, judge(body), origin="run"))

        assert ask(psql, sessions.remove("s")) == [("a", None)]
        assert ask(psql, checkpoints.of("s")) == []
        assert ask(psql, sessions.remove("s")) == []


class TestRemoveInput:
    def test_it_goes_with_the_last_session(self, psql: psycopg.Connection) -> None:
        begun(psql)
        assert ask(psql, sessions.remove_input("a")) == []

        ask(psql, sessions.remove("s"))
        assert ask(psql, sessions.remove_input("a")) == ["files/a"]


class TestPrice:
    def test_nothing_was_paid_so_far(self, psql: psycopg.Connection) -> None:
        begun(psql)

        assert ask(psql, sessions.price("c")) == [(Decimal(0), 0)]

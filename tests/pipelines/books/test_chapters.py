"""Each statement about chapters does what its comment says."""

from __future__ import annotations

import psycopg
from book_rows import ask, begun
from sample_books import body_of, ours

from retoma.pipelines.books import chapters, checkpoints
from retoma.pipelines.books.model import stored
from retoma.pipelines.books.ports import Chapter
from retoma.pipelines.books.verdicts import invalid, judge


def put(psql: psycopg.Connection, *numbers: str) -> None:
    for place, number in enumerate(numbers, start=1):
        chapter = Chapter(
            number=number, title=f"T{number}", text="um \0 dois", pages=(1, 2), page_starts=((0, 1), (3, 2))
        )
        ask(psql, chapters.put("s", stored(place, chapter)))


class TestPut:
    def test_a_number_is_there_once(self, psql: psycopg.Connection) -> None:
        begun(psql)
        put(psql, "1", "IV")

        assert [each.number for each in ask(psql, chapters.of("s"))] == ["1", "IV"]


class TestOf:
    def test_a_chapter_comes_back_as_it_was_but_for_what_no_text_has(self, psql: psycopg.Connection) -> None:
        begun(psql)
        put(psql, "1")

        (found,) = ask(psql, chapters.of("s"))
        back = found.as_chapter()
        assert (back.text, back.pages, back.page_starts) == ("um \ufffd dois", (1, 2), ((0, 1), (3, 2)))
        assert found.sha256 == stored(1, back).sha256


class TestClear:
    def test_all_go(self, psql: psycopg.Connection) -> None:
        begun(psql)
        put(psql, "1", "2")

        assert sorted(ask(psql, chapters.clear("s"))) == [1, 2]
        assert ask(psql, chapters.of("s")) == []


class TestStanding:
    def test_each_chapter_says_what_is_there_of_it(self, psql: psycopg.Connection) -> None:
        begun(psql)
        put(psql, "1", "2", "3")
        body = body_of(ours())
        ask(psql, checkpoints.save("s", "1", body, judge(body), origin="run"))
        ask(psql, checkpoints.save("s", "2", b"{", invalid("not_json", "x"), origin="import"))

        one, two, three = ask(psql, chapters.standing("s"))
        assert (one.done, one.passed, one.origin, one.attempts, one.reason) == (True, True, "run", 1, None)
        assert (two.done, two.passed, two.attempts, two.reason) == (False, None, 1, "not_json")
        assert (three.done, three.attempts, three.reason) == (False, 0, None)

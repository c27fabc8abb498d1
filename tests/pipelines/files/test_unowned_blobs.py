"""Blobs that no row owns: whoever is first, the owner or the sweep, has them."""

from __future__ import annotations

from typing import TypeVar

import psycopg
import pytest

from retoma.pipelines.files import unowned_blobs
from retoma.store.query import Query

T = TypeVar("T")
DAY = 86_400.0


def ask(connection: psycopg.Connection, query: Query[T]) -> list[T]:
    return [query.row(*row) for row in connection.execute(query.sql, query.params).fetchall()]


def age(psql: psycopg.Connection) -> None:
    psql.execute("update retoma.loose_blobs set since = now() - interval '25 hours'")


class TestAnnounce:
    def test_a_name_is_announced_once(self, psql: psycopg.Connection) -> None:
        assert ask(psql, unowned_blobs.announce(["a"])) == ["a"]
        with pytest.raises(psycopg.errors.UniqueViolation):
            ask(psql, unowned_blobs.announce(["a"]))


class TestOwn:
    def test_what_is_owned_is_not_loose(self, psql: psycopg.Connection) -> None:
        ask(psql, unowned_blobs.announce(["a"]))

        assert ask(psql, unowned_blobs.own("a")) == ["a"]
        assert ask(psql, unowned_blobs.own("a")) == []
        assert ask(psql, unowned_blobs.give_up(0)) == []


class TestDisown:
    def test_it_is_loose_again_and_can_have_no_owner(self, psql: psycopg.Connection) -> None:
        assert ask(psql, unowned_blobs.disown("a")) == ["a"]
        assert ask(psql, unowned_blobs.disown("a")) == ["a"]

        assert ask(psql, unowned_blobs.own("a")) == []


class TestGiveUp:
    def test_only_what_is_old_and_in_nobody_s_hands(self, psql: psycopg.Connection, database_url: str) -> None:
        for name in ("a", "b"):
            ask(psql, unowned_blobs.announce([name]))
        age(psql)
        ask(psql, unowned_blobs.announce(["young"]))

        with psycopg.connect(database_url) as other:
            ask(other, unowned_blobs.own("a"))  # not committed: it is somebody's
            assert [each.blob for each in ask(psql, unowned_blobs.give_up(DAY))] == ["b"]

    def test_what_was_given_up_and_is_still_there_comes_again(self, psql: psycopg.Connection) -> None:
        ask(psql, unowned_blobs.disown("a"))
        age(psql)

        first, again = ask(psql, unowned_blobs.give_up(DAY)), ask(psql, unowned_blobs.give_up(DAY))

        assert [each.blob for each in first] == [each.blob for each in again] == ["a"]

    def test_no_more_than_so_many_at_a_time(self, psql: psycopg.Connection) -> None:
        for number in range(5):
            ask(psql, unowned_blobs.announce([str(number)]))
        age(psql)

        assert len(ask(psql, unowned_blobs.give_up(DAY, limit=3))) == 3

    def test_behind_those_that_could_not_be_deleted_come_the_others(self, psql: psycopg.Connection) -> None:
        for number in range(5):
            ask(psql, unowned_blobs.announce([str(number)]))
        age(psql)
        first = ask(psql, unowned_blobs.give_up(DAY, limit=3))
        rest = ask(psql, unowned_blobs.give_up(DAY, after=first[-1], limit=3))

        assert sorted(each.blob for each in first + rest) == list("01234")
        assert ask(psql, unowned_blobs.give_up(DAY, after=rest[-1], limit=3)) == []


class TestForget:
    def test_only_what_was_given_up_is_forgotten(self, psql: psycopg.Connection) -> None:
        ask(psql, unowned_blobs.announce(["a"]))
        ask(psql, unowned_blobs.disown("b"))

        assert ask(psql, unowned_blobs.forget(["a", "b", "c"])) == ["b"]

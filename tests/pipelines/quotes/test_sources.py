"""Each statement about products that were tested does what its comment says."""

from __future__ import annotations

from decimal import Decimal

import psycopg
import pytest

from retoma.pipelines.quotes import sources
from retoma.pipelines.quotes.ports import Picture
from retoma.postgres.database import Database


def quote(psql: psycopg.Connection, job: int = 1) -> int:
    """A quote of a project of its own."""
    row = psql.execute(
        "with project as (insert into quotes.projects (name) values (%(name)s) returning id), "
        "configuration as (insert into quotes.configurations (project_id, version, terms, created_by) "
        "select id, 1, '{}', 'ana' from project returning id, project_id) "
        "insert into quotes.quote_requests (job_id, project_id, config_version_id, input_text, created_by) "
        "select %(job)s, project_id, id, 'Cadeira', 'ana' from configuration returning id",
        {"job": job, "name": f"Projeto {job}"},
    ).fetchone()
    assert row is not None
    return int(row[0])


def product(key: str, price: str | None = "10.00", reason: str | None = None, title: str = "Cadeira") -> sources.Tested:
    value = None if price is None else Decimal(price)
    return sources.Tested(key=key, kind="shopping", provider="one", title=title, price=value, reason=reason)


async def saved(database: Database, quote_id: int, of: sources.Tested) -> int:
    (id,) = await database.all(sources.save(quote_id, of, by="ana"))
    return id


def standing(psql: psycopg.Connection, id: int) -> tuple[object, ...] | None:
    return psql.execute(
        "select is_valid, is_accepted, failure_reason, failure_message from quotes.quote_sources where id = %s", [id]
    ).fetchone()


class TestSave:
    async def test_each_product_has_the_next_place_in_its_quote(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        one, other = quote(psql, 1), quote(psql, 2)
        await saved(database, one, product("a"))
        await saved(database, other, product("a"))
        await saved(database, one, product("b", None, "NO_PRICE"))

        kept = psql.execute(
            "select quote_id, key, position, price_value, is_valid, is_accepted, added_by "
            "from quotes.quote_sources order by id"
        ).fetchall()
        assert kept == [
            (one, "a", 1, Decimal("10.00"), True, False, "ana"),
            (other, "a", 1, Decimal("10.00"), True, False, "ana"),
            (one, "b", 2, None, False, False, "ana"),
        ]

    async def test_a_product_that_is_tested_again_stays_as_it_was(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        one = quote(psql)
        await saved(database, one, product("a", "10.00"))

        assert await database.all(sources.save(one, product("a", "99.00", title="Mesa"))) == []
        kept = psql.execute("select title, price_value from quotes.quote_sources").fetchall()
        assert kept == [("Cadeira", Decimal("10.00"))]


class TestPage:
    async def test_the_products_of_these_quotes_come_by_quote_and_place(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        one, other, third = quote(psql, 1), quote(psql, 2), quote(psql, 3)
        for of, key in ((other, "c"), (one, "b"), (third, "d"), (one, "a")):
            await saved(database, of, product(key))

        found = await database.all(sources.page([other, one]))
        assert [(each.quote_id, each.key, each.position) for each in found] == [
            (one, "b", 1),
            (one, "a", 2),
            (other, "c", 1),
        ]
        assert await database.all(sources.page([])) == []


class TestDrop:
    async def test_a_price_that_counts_is_left_out_once(self, database: Database, psql: psycopg.Connection) -> None:
        one = quote(psql)
        id = await saved(database, one, product("a"))
        psql.execute("update quotes.quote_sources set is_accepted = true")

        assert await database.all(sources.drop(one, id, why="Outro modelo")) == [id]
        assert await database.all(sources.drop(one, id, why="De novo")) == []
        assert standing(psql, id) == (False, False, "BY_PERSON", "Outro modelo")

    async def test_the_price_of_another_quote_still_counts(self, database: Database, psql: psycopg.Connection) -> None:
        one, other = quote(psql, 1), quote(psql, 2)
        id = await saved(database, one, product("a"))

        assert await database.all(sources.drop(other, id, why="Outro modelo")) == []
        assert standing(psql, id) == (True, False, None, None)


class TestTake:
    @pytest.mark.parametrize("reason", [None, "BY_PERSON", "OUTSIDE_BLOCK", "PRICE_MISMATCH"])
    async def test_a_good_price_that_was_left_out_is_counted_in(
        self, database: Database, psql: psycopg.Connection, reason: str | None
    ) -> None:
        one = quote(psql)
        id = await saved(database, one, product("a", reason=reason))

        assert await database.all(sources.take(one, id, why="É o mesmo")) == [id]
        assert standing(psql, id) == (True, True, None, "É o mesmo")

    async def test_a_fault_no_price_and_another_quote_stay_as_they_were(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        one, other = quote(psql, 1), quote(psql, 2)
        fault = await saved(database, one, product("a", reason="BLOCKED"))
        unpriced = await saved(database, one, product("b", None, "BY_PERSON"))
        elsewhere = await saved(database, other, product("c", reason="BY_PERSON"))
        before = [standing(psql, id) for id in (fault, unpriced, elsewhere)]

        for id in (fault, unpriced, elsewhere):
            assert await database.all(sources.take(one, id, why="É o mesmo")) == []
        assert [standing(psql, id) for id in (fault, unpriced, elsewhere)] == before


class TestPicture:
    async def test_it_is_kept_once_and_a_reason_gives_way_to_it(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        of = quote(psql)
        id = await saved(database, of, product("a"))
        first, second = Picture(blob="b", sha256="s"), Picture(blob="c", sha256="t")
        shown = "select screenshot_file_id, screenshot_sha256, without_screenshot from quotes.quote_sources"

        assert await database.all(sources.picture(of, id, Picture(missing="no Chromium"))) == [id]
        assert psql.execute(shown).fetchone() == (None, None, "no Chromium")
        assert await database.all(sources.picture(of, id, first)) == [id]
        assert await database.all(sources.picture(of, id, second)) == []
        assert await database.all(sources.picture(of + 1, id, first)) == []
        assert psql.execute(shown).fetchone() == ("b", "s", None)

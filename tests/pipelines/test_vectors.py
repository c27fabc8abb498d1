"""What the database can do with vectors, and the same in numpy."""

from __future__ import annotations

import psycopg
import pytest

from retoma.pipelines import vectors
from retoma.pipelines.vectors import Extension
from retoma.postgres.database import Database, fetch


class TestExtension:
    async def test_it_tells_the_version_and_whether_there_are_indexes(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        (here,) = await database.all(vectors.extension())
        psql.execute("drop index retoma.embeddings_by_meaning_512, retoma.embeddings_by_meaning_1536")
        others = psql.execute(
            "select format('drop index %s', indexrelid::regclass) from pg_index, pg_class, pg_am"
            " where indexrelid = pg_class.oid and relam = pg_am.oid and amname = 'hnsw'"
        ).fetchall()
        for (other,) in others:
            psql.execute(other)
        (bare,) = await database.all(vectors.extension())
        psql.execute("drop extension vector")

        assert (here.indexed, bare.indexed) == (True, False)
        assert here.version == bare.version
        assert await database.all(vectors.extension()) == []

    async def test_an_extension_whose_type_cannot_be_named_is_none(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        psql.execute("create schema elsewhere")
        psql.execute("alter extension vector set schema elsewhere")

        assert await database.all(vectors.extension()) == []

    @pytest.mark.parametrize(("version", "further"), [("0.8.0", True), ("0.10", True), ("1.0", True), ("0.7.4", False)])
    def test_it_looks_further_since_0_8(self, version: str, *, further: bool) -> None:
        assert Extension(version, indexed=True).looks_further is further


class TestLookFurther:
    async def test_it_holds_until_the_end_of_the_transaction(self, database: Database) -> None:
        async with database.connection() as connection:
            async with connection.transaction():
                assert await fetch(connection, vectors.look_further()) == ["strict_order"]
            after = await (await connection.execute("select current_setting('hnsw.iterative_scan', true)")).fetchone()

        assert after is not None
        assert after[0] in ("", "off")


def test_the_nearest_are_told_with_their_cosines_and_equal_ones_in_their_order() -> None:
    known = [("b", [0.0, 2.0]), ("a", [3.0, 0.0]), ("zero", [0.0, 0.0]), ("twin", [5.0, 0.0]), ("far", [-1.0, 0.0])]

    assert vectors.nearest([1.0, 0.0], known, 3) == [("a", 1.0), ("twin", 1.0), ("b", 0.0)]
    assert vectors.nearest([1.0, 0.0], known, 9)[-1] == ("far", -1.0)
    assert vectors.nearest([1.0, 0.0], [], 3) == []
    assert vectors.nearest([1.0, 0.0], known, 0) == []

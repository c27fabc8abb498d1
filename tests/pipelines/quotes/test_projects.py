"""Each statement about projects and their configurations does what its comment says."""

from __future__ import annotations

import psycopg
import pytest

from retoma.pipelines.quotes import projects
from retoma.postgres.database import Database


async def made(database: Database, name: str = "Obra") -> int:
    (id,) = await database.all(projects.create(name))
    return id


async def configured(database: Database, project_id: int, terms: str = "{}") -> int:
    (id,) = await database.all(projects.configure(project_id, terms, by="ana"))
    return id


def archive(psql: psycopg.Connection, id: int) -> None:
    psql.execute("update quotes.projects set archived_at = now() where id = %s", [id])


class TestCreate:
    async def test_a_name_in_use_makes_no_second_project(self, database: Database, psql: psycopg.Connection) -> None:
        id = await made(database)

        assert await database.all(projects.create("Obra")) == []
        assert psql.execute("select id, name from quotes.projects").fetchall() == [(id, "Obra")]

    async def test_the_name_of_an_archived_project_is_free(self, database: Database, psql: psycopg.Connection) -> None:
        old = await made(database)
        archive(psql, old)

        assert await made(database) != old


class TestPage:
    async def test_each_comes_once_with_its_newest_configuration(self, database: Database) -> None:
        one, two = await made(database, "um"), await made(database, "dois")
        await configured(database, one)
        newest = await configured(database, one)
        only = await configured(database, two)

        assert [
            (each.id, each.name, each.config_version_id, each.version) for each in await database.all(projects.page())
        ] == [(two, "dois", only, 1), (one, "um", newest, 2)]
        assert [each.id for each in await database.all(projects.page(limit=1))] == [two]
        assert [each.id for each in await database.all(projects.page(id=one))] == [one]
        assert [each.id for each in await database.all(projects.page(name="um"))] == [one]
        assert await database.all(projects.page(id=one, name="dois")) == []

    async def test_what_is_archived_or_has_no_configuration_is_not_shown(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        await made(database, "nua")
        old = await made(database, "velha")
        await configured(database, old)
        archive(psql, old)

        assert await database.all(projects.page()) == []


class TestHold:
    async def test_a_second_hand_waits_for_a_held_project_and_others_are_free(
        self, database: Database, database_url: str, psql: psycopg.Connection
    ) -> None:
        one, two = await made(database, "um"), await made(database, "dois")
        query, other = projects.hold(one), projects.hold(two)
        psql.execute("set lock_timeout = '100ms'")

        with psycopg.connect(database_url) as holder:
            assert holder.execute(query.sql, query.params).fetchall() == [(one,)]
            with pytest.raises(psycopg.errors.LockNotAvailable):
                psql.execute(query.sql, query.params)
            assert psql.execute(other.sql, other.params).fetchall() == [(two,)]
        assert await database.all(projects.hold(one)) == [one]

    async def test_an_archived_project_is_not_held(self, database: Database, psql: psycopg.Connection) -> None:
        id = await made(database)
        archive(psql, id)

        assert await database.all(projects.hold(id)) == []


class TestConfigure:
    async def test_each_project_counts_its_own_versions_and_keeps_the_earlier_ones(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        one, two = await made(database, "um"), await made(database, "dois")
        await configured(database, one, '{"a": 1}')
        await configured(database, one, '{"a": 2}')
        await configured(database, two, '{"a": 3}')

        assert psql.execute(
            "select project_id, version, terms, created_by from quotes.configurations order by id"
        ).fetchall() == [(one, 1, {"a": 1}, "ana"), (one, 2, {"a": 2}, "ana"), (two, 1, {"a": 3}, "ana")]

    async def test_a_project_that_does_not_exist_gets_none(self, database: Database, psql: psycopg.Connection) -> None:
        with pytest.raises(psycopg.errors.ForeignKeyViolation):
            await database.all(projects.configure(404, "{}", by="ana"))
        assert psql.execute("select count(*) from quotes.configurations").fetchone() == (0,)


class TestVersions:
    async def test_the_newest_comes_first_and_those_of_others_do_not_come(self, database: Database) -> None:
        one, two = await made(database, "um"), await made(database, "dois")
        first = await configured(database, one)
        foreign = await configured(database, two)
        second = await configured(database, one)

        assert [(each.id, each.version) for each in await database.all(projects.versions(one))] == [
            (second, 2),
            (first, 1),
        ]
        assert [each.id for each in await database.all(projects.versions(one, id=first))] == [first]
        assert await database.all(projects.versions(one, id=foreign)) == []

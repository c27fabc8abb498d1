"""The blocks of sources.sql."""

from __future__ import annotations

import psycopg
import pytest

from retoma.pipelines.embeddings import sources
from retoma.pipelines.embeddings.sources import Beginning
from retoma.pipelines.embeddings.texts import Space
from retoma.postgres.database import Database

BY = {"provider": "biller", "model": "clerk"}
HERE = Space("acme", "main", "biller", "clerk")
ONE, TWO = ("acme", "main", "page", "1"), ("acme", "main", "page", "2")


async def begin(database: Database, *versions: Beginning) -> None:
    for version in versions:
        await database.all(sources.begin([version], **BY, correlation_id="c"))


def version(number: int, content: str, *, source: sources.Source = ONE, stored: bool = True) -> Beginning:
    return Beginning(source, number, content, "pt", 7, stored)


def standing(psql: psycopg.Connection) -> dict[tuple[str, int], str]:
    rows = psql.execute(
        "select source_id, version, case when active then 'on' when switched_off_at is null then 'waits' else 'off' end"
        " from retoma.embedding_sources"
    ).fetchall()
    return {(id, number): state for id, number, state in rows}


class TestLatest:
    async def test_the_newest_version_of_those_that_have_one(self, database: Database) -> None:
        await begin(database, version(1, "a"), version(2, "b", stored=False))

        (found,) = await database.all(sources.latest([TWO, ONE], **BY))

        assert (found.place, found.version, found.content_hash, found.active) == (2, 2, "b", False)
        assert await database.all(sources.latest([ONE], provider="biller", model="scholar")) == []


class TestSupersede:
    async def test_what_is_stored_takes_every_place_and_what_waits_only_that_of_what_waits(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        for source in (ONE, TWO):
            await begin(database, version(1, "a", source=source), version(2, "b", source=source, stored=False))

        new = [version(3, "c"), version(3, "c", source=TWO, stored=False)]
        assert len(await database.all(sources.supersede(new, **BY))) == 3

        assert standing(psql) == {("1", 1): "off", ("1", 2): "off", ("2", 1): "on", ("2", 2): "off"}


class TestBegin:
    async def test_a_source_has_one_version_that_is_found_and_one_that_waits(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        await begin(database, version(1, "a"), version(2, "b", stored=False))

        assert standing(psql) == {("1", 1): "on", ("1", 2): "waits"}
        with pytest.raises(psycopg.errors.UniqueViolation, match="a_source_has_one_active_version"):
            await begin(database, version(3, "c"))
        with pytest.raises(psycopg.errors.UniqueViolation, match="a_source_waits_for_one_version"):
            await begin(database, version(3, "c", stored=False))
        with pytest.raises(psycopg.errors.UniqueViolation, match="versions_are_counted"):
            await begin(database, version(2, "c", stored=False))


class TestAssign:
    async def test_only_what_waits_gets_another_job(self, database: Database, psql: psycopg.Connection) -> None:
        await begin(database, version(1, "a"), version(2, "b", stored=False))

        assert await database.all(sources.assign([(1, 99), (2, 99)])) == [2]

        assert psql.execute("select job_id from retoma.embedding_sources order by id").fetchall() == [(7,), (99,)]


class TestSwitchOff:
    async def test_only_the_sources_that_wait_for_this_content(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        await begin(database, version(1, "a"), version(2, "b", stored=False))
        await begin(database, version(1, "a", source=TWO), version(2, "c", source=TWO, stored=False))

        assert len(await database.all(sources.switch_off(HERE, "b"))) == 1

        assert standing(psql) == {("1", 1): "off", ("1", 2): "waits", ("2", 1): "on", ("2", 2): "waits"}


class TestSwitchOn:
    async def test_those_that_wait_and_not_what_was_overtaken(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        await begin(database, version(1, "a", stored=False), version(1, "a", source=TWO, stored=False))
        await database.all(sources.supersede([version(2, "b", source=TWO, stored=False)], **BY))

        assert len(await database.all(sources.switch_on(HERE, "a"))) == 1

        assert standing(psql) == {("1", 1): "on", ("2", 1): "off"}


class TestVersions:
    async def test_the_newest_first_with_the_state_of_the_job_it_waits_for(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        psql.execute(
            "insert into retoma.jobs (queue, pipeline, key, max_attempts, timeout_seconds, input)"
            " values ('embeddings', 'embeddings', 'k', 3, 60, '{}')"
        )
        await begin(database, version(1, "a"), Beginning(ONE, 2, "b", None, 1, stored=False))

        found = await database.all(sources.versions(ONE))

        assert [(each.version, each.state, each.text) for each in found] == [(2, "queued", None), (1, "active", None)]
        assert await database.all(sources.versions(TWO)) == []


class TestStates:
    async def test_how_many_are_in_which(self, database: Database) -> None:
        await begin(database, version(1, "a"), version(2, "b", stored=False), version(1, "a", source=TWO))
        await database.all(sources.supersede([version(2, "b", source=TWO)], **BY))

        counted = [("active", 1), ("off", 1), ("pruned", 1)]
        assert await database.all(sources.states()) == counted
        assert await database.all(sources.states("acme", "main")) == counted
        assert await database.all(sources.states("acme", "shop")) == []

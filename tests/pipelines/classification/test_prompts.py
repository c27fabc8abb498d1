"""The blocks of prompts.sql."""

from __future__ import annotations

import psycopg
import pytest

from retoma.pipelines.classification import prompts
from retoma.postgres.database import Database, fetch


async def made(database: Database, name: str = "a", content: str = "text of ten", sha: str = "1") -> int:
    return (await database.all(prompts.create(name, content, sha, description=None, document_codes="60,61")))[0]


class TestCreate:
    async def test_a_name_is_there_once(self, database: Database) -> None:
        await made(database)

        assert await database.all(prompts.create("a", "another text", "2", description=None, document_codes=None)) == []


class TestChange:
    async def test_what_is_left_out_stays_and_an_archived_one_does_not_change(self, database: Database) -> None:
        id = await made(database)

        assert await database.all(prompts.change(id, content="second text", sha="2")) == [id]
        (now,) = await database.all(prompts.one(id))
        assert (now.name, now.content, now.sha256, now.document_codes) == ("a", "second text", "2", "60,61")
        await database.all(prompts.archive(id))
        assert await database.all(prompts.change(id, name="b")) == []


class TestOne:
    async def test_also_when_it_was_archived(self, database: Database) -> None:
        id = await made(database)
        await database.all(prompts.archive(id))

        (found,) = await database.all(prompts.one(id))

        assert found.archived_at is not None


class TestPage:
    async def test_the_active_ones_by_name(self, database: Database) -> None:
        gone = await made(database, "c")
        for name in ("b", "a"):
            await made(database, name)
        await database.all(prompts.archive(gone))

        assert [each.name for each in await database.all(prompts.page())] == ["a", "b"]
        assert [each.name for each in await database.all(prompts.page("b"))] == ["b"]


class TestArchive:
    async def test_its_name_is_free_again(self, database: Database) -> None:
        id = await made(database)

        assert await database.all(prompts.archive(id)) == [id]
        assert await made(database) > id
        assert await database.all(prompts.archive(404)) == []


class TestHold:
    async def test_whoever_changes_it_waits_meanwhile(self, database: Database) -> None:
        id = await made(database)

        async with database.transaction() as ours:
            assert await fetch(ours, prompts.hold(id)) == [id]
            async with database.connection() as theirs:
                await theirs.execute("set lock_timeout = '1ms'")
                with pytest.raises(psycopg.errors.LockNotAvailable):
                    await fetch(theirs, prompts.change(id, name="q"))

        assert await database.all(prompts.hold(404)) == []


class TestVersions:
    async def test_every_text_is_kept_once(self, database: Database) -> None:
        id = await made(database)
        for content, sha in (("second text", "2"), ("text of ten", "1"), ("second text", "2")):
            await database.all(prompts.change(id, content=content, sha=sha))

        found = await database.all(prompts.versions(id))

        assert sorted((sha, content) for sha, content, _ in found) == [("1", "text of ten"), ("2", "second text")]

"""The blocks of projects.sql."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from retoma.pipelines.classification import documents, projects
from retoma.pipelines.classification.execution import checked
from retoma.pipelines.classification.library import Classification
from retoma.postgres.database import Database


async def made(database: Database, name: str = "p", **given: Any) -> int:
    return (await database.all(projects.create(checked({"name": name, **given}, whole=True))))[0]


class TestCreate:
    async def test_what_is_not_said_is_as_the_seed_has_it(self, database: Database) -> None:
        (found,) = await database.all(projects.one(await made(database)))

        assert (found.mode, found.position, found.chunk_tokens, found.at_once) == ("chunk", "end", 512, 3)
        assert (found.max_resumes, found.max_retries, found.model, found.documents) == (3, 2, None, 0)

    async def test_the_table_refuses_what_is_out_of_range(self, database: Database) -> None:
        values = {**checked({"name": "p"}, whole=True), "chunk_tokens": 99}

        with pytest.raises(psycopg.errors.CheckViolation, match="a_part_has_100_to_4000_tokens"):
            await database.all(projects.create(values))


class TestChange:
    async def test_what_is_left_out_stays(self, database: Database) -> None:
        id = await made(database, model="local")

        assert await database.all(projects.change(id, {"max_retries": 5})) == [id]
        (now,) = await database.all(projects.one(id))
        assert (now.max_retries, now.model, now.name) == (5, "local", "p")


class TestOne:
    async def test_counts_the_documents_that_are_in_it(self, database: Database) -> None:
        id = await made(database)
        for number in "12":
            await database.all(documents.add(id, f"{number}.txt", kind="txt", sha=number, size=1, blob=number))
        await database.all(documents.archive((await database.all(documents.page(id)))[0].id))

        assert (await database.all(projects.one(id)))[0].documents == 1


class TestPage:
    async def test_newest_first_by_name_or_a_part_of_it(self, database: Database) -> None:
        ids = [await made(database, name) for name in ("Lote A", "Lote B", "Outro")]

        assert [each.id for each in await database.all(projects.page())] == ids[::-1]
        assert [each.id for each in await database.all(projects.page(search="lote", limit=1))] == [ids[1]]
        assert [each.id for each in await database.all(projects.page(search="lote", before=ids[1]))] == [ids[0]]
        assert [each.id for each in await database.all(projects.page(name="Lote A"))] == [ids[0]]


class TestArchive:
    async def test_it_leaves_the_list_and_changes_no_more(self, database: Database) -> None:
        id = await made(database)

        assert await database.all(projects.archive(id)) == [id]
        assert await database.all(projects.page()) == []
        assert await database.all(projects.change(id, {"name": "q"})) == []


class TestHold:
    async def test_only_what_is_there(self, database: Database) -> None:
        id = await made(database)

        assert await database.all(projects.hold(id)) == [id]
        await database.all(projects.archive(id))
        assert await database.all(projects.hold(id)) == []


async def test_this_machine_reads_a_document_whole_unless_a_part_was_asked_for(library: Classification) -> None:
    whole = await library.create_project("whole", model="local")
    part = await library.create_project("part", model="local", chunk_tokens=200)
    asked = await library.create_project("asked", model="some-model")

    assert [each.mode for each in (whole, part, asked)] == ["whole", "chunk", "chunk"]

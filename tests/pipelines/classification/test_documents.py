"""The blocks of documents.sql."""

from __future__ import annotations

from typing import Any

import psycopg
import pytest

from retoma.pipelines.classification import documents, projects
from retoma.pipelines.classification.execution import checked
from retoma.pipelines.classification.model import Added, Announced
from retoma.postgres.database import Database


@pytest.fixture
async def project(database: Database) -> int:
    return (await database.all(projects.create(checked({"name": "p"}, whole=True))))[0]


async def add(database: Database, project: int, name: str, sha: str, **more: Any) -> Added:
    query = documents.add(project, name, kind="txt", sha=sha, size=1, blob=f"files/{sha}", **more)
    (added,) = await database.all(query)
    return added


class TestAdd:
    async def test_the_same_content_is_the_document_that_is_there(self, database: Database, project: int) -> None:
        first = await add(database, project, "a.txt", "1")
        again = await add(database, project, "b.txt", "1")

        assert (again.id, again.code, again.new) == (first.id, "a.txt", False)

    async def test_another_content_under_the_same_name_gets_a_code_of_its_own(
        self, database: Database, project: int
    ) -> None:
        await add(database, project, "a.txt", "1" * 64)
        other = await add(database, project, "a.txt", "2" * 64)

        assert (other.code, other.new) == ("a.txt~22222222", True)

    async def test_one_that_was_taken_out_comes_back(self, database: Database, project: int) -> None:
        first = await add(database, project, "a.txt", "1")
        await database.all(documents.archive(first.id))

        again = await add(database, project, "a.txt", "1")

        assert (again.id, again.new) == (first.id, True)
        assert [each.id for each in await database.all(documents.page(project))] == [first.id]

    async def test_one_that_was_announced_gets_its_file_unless_the_content_is_there(
        self, database: Database, project: int
    ) -> None:
        await database.all(documents.announce(project, [Announced(code="a"), Announced(code="b.txt")]))
        there, other = await add(database, project, "a.txt", "1"), await add(database, project, "b.txt", "2")
        await database.all(documents.announce(project, [Announced(code="c")]))
        known = await add(database, project, "c.txt", "1")

        assert (there.code, other.code, known.code) == ("a", "b.txt", "a")
        assert [each.blob for each in await database.all(documents.page(project))] == ["files/1", "files/2", None]


class TestAnnounce:
    async def test_what_is_there_stays_and_is_not_counted(self, database: Database, project: int) -> None:
        given = [Announced(code="a", case_number="1"), Announced(code="b", description='with "quotes", {braces}')]

        first = await database.all(documents.announce(project, given))
        again = await database.all(documents.announce(project, [Announced(code="a"), Announced(code="c")]))

        assert [new for _, new in first] == [True, True]
        assert [new for _, new in again] == [False, True]
        found = await database.all(documents.page(project))
        assert [(each.code, each.case_number) for each in found] == [("a", "1"), ("b", None), ("c", None)]
        assert found[1].description == 'with "quotes", {braces}'


class TestPage:
    async def test_in_order_after_an_id_and_only_those_that_are_named(self, database: Database, project: int) -> None:
        ids = [(await add(database, project, f"{number}", number)).id for number in "123"]

        assert [each.id for each in await database.all(documents.page(project, limit=2))] == ids[:2]
        assert [each.id for each in await database.all(documents.page(project, after=ids[1]))] == ids[2:]
        assert [each.id for each in await database.all(documents.page(project, ids=[ids[2], ids[0]]))] == ids[::2]


class TestOne:
    async def test_all_that_is_known_of_it(self, database: Database, project: int) -> None:
        added = await add(database, project, "a.txt", "1", code="sub/a.txt", source="folder")

        (found,) = await database.all(documents.one(added.id))

        assert (found.code, found.filename, found.kind, found.source) == ("sub/a.txt", "a.txt", "txt", "folder")


class TestArchive:
    async def test_it_leaves_the_list(self, database: Database, project: int) -> None:
        added = await add(database, project, "a.txt", "1")

        assert await database.all(documents.archive(added.id)) == [added.id]
        assert await database.all(documents.page(project)) == []
        assert await database.all(documents.archive(404)) == []


async def test_a_file_is_whole_or_not_there(project: int, psql: psycopg.Connection) -> None:
    with pytest.raises(psycopg.errors.CheckViolation, match="a_file_is_whole"):
        psql.execute(
            "insert into retoma.project_documents (project_id, code, blob) values (%s, 'a', 'files/1')", [project]
        )

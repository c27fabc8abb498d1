"""Each statement about lists that became batches does what its comment says."""

from __future__ import annotations

import psycopg
import pytest

from retoma.pipelines.quotes import batches, projects
from retoma.pipelines.quotes.model import BatchItem
from retoma.postgres.database import Database


async def configured(database: Database, name: str = "Obra") -> tuple[int, int]:
    """A project and the version of its configuration."""
    (project,) = await database.all(projects.create(name))
    (version,) = await database.all(projects.configure(project, "{}", by="ana"))
    return project, version


async def sent(database: Database, of: tuple[int, int], id: int = 1, sha256: str = "a") -> int:
    project, version = of
    new = batches.create(
        id,
        project_id=project,
        config_version_id=version,
        input_type="XLSX",
        by="ana",
        filename="lista.xlsx",
        sha256=sha256,
        columns='{"item": 0}',
    )
    (made,) = await database.all(new)
    return made


def engine(psql: psycopg.Connection, state: str = "queued") -> int:
    """A batch of the engine's, in a state that it allows."""
    before = {"queued": "new", "running": "queued"}.get(state, "running")
    row = psql.execute(
        "insert into retoma.batches (name, pipeline, queue, lane_id, max_resumes, stall_seconds, was, state, "
        "stalled_at, finished_at) values ('lista', 'quotes', 'quotes', 1, 3, 60, %(before)s, %(state)s, "
        "case when %(state)s = 'stalled' then now() end, "
        "case when %(state)s in ('completed', 'failed', 'cancelled') then now() end) returning id",
        {"before": before, "state": state},
    ).fetchone()
    assert row is not None
    return int(row[0])


def quote(psql: psycopg.Connection, of: tuple[int, int]) -> int:
    row = psql.execute(
        "insert into quotes.quote_requests (job_id, project_id, config_version_id, input_text, created_by) "
        "values (1, %s, %s, 'mesa', 'ana') returning id",
        of,
    ).fetchone()
    assert row is not None
    return int(row[0])


def problem(line: int) -> BatchItem:
    return BatchItem(line=line, quote_id=None, problem="empty", message="Sem descrição.", said="")


class TestCreate:
    async def test_the_list_is_kept_under_the_number_of_the_engine(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        project, version = await configured(database)

        assert await sent(database, (project, version), id=7) == 7
        assert psql.execute(
            "select id, project_id, config_version_id, input_type, filename, sha256, columns, created_by "
            "from quotes.batch_quote_jobs"
        ).fetchall() == [(7, project, version, "XLSX", "lista.xlsx", "a", {"item": 0}, "ana")]

    async def test_a_number_in_use_is_refused_and_the_first_stays(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        of = await configured(database)
        await sent(database, of, id=7, sha256="a")

        with pytest.raises(psycopg.errors.UniqueViolation):
            await sent(database, of, id=7, sha256="b")
        assert psql.execute("select id, sha256 from quotes.batch_quote_jobs").fetchall() == [(7, "a")]


class TestPutItems:
    async def test_each_row_becomes_a_quote_or_a_problem_of_that_batch(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        of = await configured(database)
        await sent(database, of, id=1)
        await sent(database, of, id=2)
        good = BatchItem(line=2, quote_id=quote(psql, of), problem=None, message=None, said="mesa")

        assert sorted(await database.all(batches.put_items(1, [good, problem(3)]))) == [2, 3]
        assert await database.all(batches.items(1)) == [good, problem(3)]
        assert await database.all(batches.items(2)) == []

    async def test_one_bad_row_keeps_all_of_them_out_and_no_rows_put_nothing(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        await sent(database, await configured(database))
        neither = BatchItem(line=3, quote_id=None, problem=None, message=None, said=None)

        with pytest.raises(psycopg.errors.CheckViolation):
            await database.all(batches.put_items(1, [problem(2), neither]))
        assert await database.all(batches.put_items(1, [])) == []
        assert psql.execute("select count(*) from quotes.batch_items").fetchone() == (0,)


class TestPage:
    async def test_each_comes_with_the_state_of_the_engine_and_its_own_counts(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        of = await configured(database)
        known = await sent(database, of, id=engine(psql))
        unknown = await sent(database, of, id=known + 1000)
        good = BatchItem(line=2, quote_id=quote(psql, of), problem=None, message=None, said="mesa")
        await database.all(batches.put_items(known, [good, problem(3)]))

        found = await database.all(batches.page())
        assert [(each.id, each.name, each.state, each.rows, each.problems) for each in found] == [
            (unknown, None, None, 0, 0),
            (known, "lista", "queued", 2, 1),
        ]

    async def test_a_number_a_project_and_a_place_leave_the_others_out(self, database: Database) -> None:
        one, two = await configured(database, "um"), await configured(database, "dois")
        for id, of in ((1, one), (2, two), (3, one)):
            await sent(database, of, id=id)

        assert [each.id for each in await database.all(batches.page(limit=2))] == [3, 2]
        assert [each.id for each in await database.all(batches.page(before=2))] == [1]
        assert [each.id for each in await database.all(batches.page(project_id=one[0]))] == [3, 1]
        assert [each.id for each in await database.all(batches.page(id=2))] == [2]
        assert await database.all(batches.page(id=2, project_id=one[0])) == []


class TestSame:
    async def test_the_newest_list_of_that_content_and_configuration_is_found(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        of, other = await configured(database, "um"), await configured(database, "dois")
        await sent(database, of, id=engine(psql))
        newest = await sent(database, of, id=engine(psql))

        assert await database.all(batches.same("a", of[1])) == [newest]
        assert await database.all(batches.same("b", of[1])) == []
        assert await database.all(batches.same("a", other[1])) == []

    @pytest.mark.parametrize("state", ["queued", "running", "paused", "stalled"])
    async def test_one_that_has_not_ended_is_found(
        self, database: Database, psql: psycopg.Connection, state: str
    ) -> None:
        of = await configured(database)
        id = await sent(database, of, id=engine(psql, state))

        assert await database.all(batches.same("a", of[1])) == [id]

    @pytest.mark.parametrize("state", ["completed", "failed", "cancelled"])
    async def test_one_that_has_ended_is_not_found(
        self, database: Database, psql: psycopg.Connection, state: str
    ) -> None:
        of = await configured(database)
        await sent(database, of, id=engine(psql, state))

        assert await database.all(batches.same("a", of[1])) == []


class TestItems:
    async def test_they_come_by_line_after_the_one_that_was_seen(self, database: Database) -> None:
        of = await configured(database)
        await sent(database, of, id=1)
        await sent(database, of, id=2)
        await database.all(batches.put_items(1, [problem(4), problem(2), problem(3)]))
        await database.all(batches.put_items(2, [problem(9)]))

        assert [each.line for each in await database.all(batches.items(1, limit=2))] == [2, 3]
        assert [each.line for each in await database.all(batches.items(1, after=3))] == [4]
        assert await database.all(batches.items(1, after=4)) == []

    async def test_only_problems_leaves_the_quotes_out(self, database: Database, psql: psycopg.Connection) -> None:
        of = await configured(database)
        await sent(database, of)
        good = BatchItem(line=2, quote_id=quote(psql, of), problem=None, message=None, said="mesa")
        await database.all(batches.put_items(1, [good, problem(3)]))

        assert await database.all(batches.items(1, only_problems=True)) == [problem(3)]

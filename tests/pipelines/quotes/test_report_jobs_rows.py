"""Each statement about the reports that workers write does what its comment says."""

from __future__ import annotations

from typing import Any

import psycopg

from retoma.pipelines.quotes import report_jobs
from retoma.pipelines.quotes.report_jobs import ReportJob
from retoma.postgres.database import Database

from .test_requests import batch, job

FILES: dict[str, Any] = {"pdf_blob": "p", "pdf_bytes": 2, "xlsx_blob": "x", "xlsx_bytes": 3, "sha256": "0" * 64}


async def asked(database: Database, psql: psycopg.Connection, batch_id: int, *, closing: bool = False) -> int:
    """The job of a report that somebody asked for."""
    id = job(psql)
    await database.all(report_jobs.put(batch_id, id, closing=closing, by="ana"))
    return id


async def only(database: Database, batch_id: int) -> ReportJob:
    (found,) = await database.all(report_jobs.page(batch_id))
    return found


class TestPut:
    async def test_a_job_has_one_row(self, database: Database, psql: psycopg.Connection) -> None:
        of = batch(psql, 7)
        id = await asked(database, psql, of)

        assert await database.all(report_jobs.put(of, id, closing=True, by="bia")) == []
        now = await only(database, of)
        assert (now.job_id, now.closing, now.asked_by, now.state, now.percent) == (id, False, "ana", "QUEUED", 0)


class TestPage:
    async def test_the_newest_of_that_batch_first_or_only_those_that_are_ready(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        of, other = batch(psql, 7), batch(psql, 8)
        first, second, _ = [await asked(database, psql, each) for each in (of, of, other)]
        await database.all(report_jobs.begin(first, 1))
        await database.all(report_jobs.finish(first, report_id=None, **FILES))

        assert [each.job_id for each in await database.all(report_jobs.page(of))] == [second, first]
        assert [each.job_id for each in await database.all(report_jobs.page(of, limit=1))] == [second]
        assert [each.job_id for each in await database.all(report_jobs.page(of, only_ready=True))] == [first]


class TestClosing:
    async def test_only_what_has_begun_to_close_and_may_still_end_well(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        of = batch(psql, 7)
        draft, closes = await asked(database, psql, of), await asked(database, psql, of, closing=True)
        await database.all(report_jobs.begin(draft, 2))

        waiting = await database.all(report_jobs.closing(of))
        await database.all(report_jobs.begin(closes, 2))
        begun = await database.all(report_jobs.closing(of))
        psql.execute("update retoma.jobs set state = 'failed', finished_at = now() where id = %s", [closes])

        assert (len(waiting), len(begun), await database.all(report_jobs.closing(of))) == (0, 1, [])


class TestBegin:
    async def test_it_says_how_many_parts_there_will_be(self, database: Database, psql: psycopg.Connection) -> None:
        of = batch(psql, 7)
        id = await asked(database, psql, of)

        assert len(await database.all(report_jobs.begin(id, 4))) == 1
        assert await database.all(report_jobs.begin(id + 1, 4)) == []
        assert ((await only(database, of)).parts, (await only(database, of)).state) == (4, "MAKING")


class TestAdvance:
    async def test_it_says_how_many_are_done(self, database: Database, psql: psycopg.Connection) -> None:
        of = batch(psql, 7)
        id = await asked(database, psql, of)
        await database.all(report_jobs.begin(id, 4))

        await database.all(report_jobs.advance(id, 3))

        assert (await only(database, of)).percent == 75


class TestFinish:
    async def test_it_is_ready_with_its_files(self, database: Database, psql: psycopg.Connection) -> None:
        of = batch(psql, 7)
        id = await asked(database, psql, of)
        await database.all(report_jobs.begin(id, 4))

        await database.all(report_jobs.finish(id, report_id=None, **FILES))

        now = await only(database, of)
        assert (now.state, now.percent, now.pdf_blob, now.xlsx_bytes) == ("READY", 100, "p", 3)

"""Each statement about decisions and closed reports does what its comment says."""

from __future__ import annotations

import psycopg
import pytest

from retoma.pipelines.quotes import reviews
from retoma.postgres.database import Database


def batch(psql: psycopg.Connection, id: int = 7) -> int:
    """A list of a project of its own."""
    psql.execute(
        "with project as (insert into quotes.projects (name) values (%(name)s) returning id), "
        "configuration as (insert into quotes.configurations (project_id, version, terms, created_by) "
        "select id, 1, '{}', 'ana' from project returning id, project_id) "
        "insert into quotes.batch_quote_jobs (id, project_id, config_version_id, input_type, created_by) "
        "select %(id)s, project_id, id, 'CSV', 'ana' from configuration",
        {"id": id, "name": f"Lista {id}"},
    )
    return id


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


async def decided(database: Database, quote_id: int, action: str, reason: str = "Preço conferido") -> int:
    put = reviews.put(quote_id, action, reason=reason, by="ana", was="AWAITING_REVIEW", after="DONE")
    (id,) = await database.all(put)
    return id


class TestPut:
    async def test_a_decision_is_kept_with_what_it_changed(self, database: Database, psql: psycopg.Connection) -> None:
        id = await decided(database, quote(psql), "accept")

        kept = psql.execute("select id, source_id, action, reason, by, before, after from quotes.reviews").fetchall()
        assert kept == [(id, None, "accept", "Preço conferido", "ana", "AWAITING_REVIEW", "DONE")]

    @pytest.mark.parametrize(("action", "reason"), [("accept", "  a  "), ("forget", "Preço conferido")])
    async def test_one_without_a_reason_or_a_known_name_is_not_kept(
        self, database: Database, psql: psycopg.Connection, action: str, reason: str
    ) -> None:
        with pytest.raises(psycopg.errors.CheckViolation):
            await decided(database, quote(psql), action, reason)

        assert psql.execute("select id from quotes.reviews").fetchall() == []


class TestPage:
    async def test_the_decisions_of_that_quote_come_in_their_order(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        one, other = quote(psql, 1), quote(psql, 2)
        first = await decided(database, one, "refuse")
        await decided(database, other, "accept")
        last = await decided(database, one, "accept")

        found = await database.all(reviews.page(one))
        assert [(each.id, each.quote_id, each.action) for each in found] == [
            (first, one, "refuse"),
            (last, one, "accept"),
        ]

    async def test_a_quote_that_nobody_decided_has_none(self, database: Database, psql: psycopg.Connection) -> None:
        one, other = quote(psql, 1), quote(psql, 2)
        await decided(database, one, "accept")

        assert await database.all(reviews.page(other)) == []


class TestClose:
    @pytest.mark.parametrize("of", ["quote", "batch"])
    async def test_a_second_report_of_the_same_thing_changes_nothing(
        self, database: Database, psql: psycopg.Connection, of: str
    ) -> None:
        quote_id, batch_id = (quote(psql), None) if of == "quote" else (None, batch(psql))
        first = reviews.close(content='{"n": 1}', sha256="a", by="ana", quote_id=quote_id, batch_id=batch_id)
        second = reviews.close(content='{"n": 2}', sha256="b", by="bruno", quote_id=quote_id, batch_id=batch_id)
        (id,) = await database.all(first)

        assert await database.all(second) == []
        kept = psql.execute("select id, content, sha256, closed_by from quotes.closed_reports").fetchall()
        assert kept == [(id, {"n": 1}, "a", "ana")]

    async def test_a_closed_report_is_neither_changed_nor_deleted(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        await database.all(reviews.close(content="{}", sha256="a", by="ana", quote_id=quote(psql)))

        for change in ("update quotes.closed_reports set sha256 = 'b'", "delete from quotes.closed_reports"):
            with pytest.raises(psycopg.IntegrityError, match="does not change"):
                psql.execute(change)
        assert psql.execute("select sha256 from quotes.closed_reports").fetchall() == [("a",)]


class TestClosed:
    async def test_it_is_found_by_each_of_its_names(self, database: Database, psql: psycopg.Connection) -> None:
        of_quote, of_batch = quote(psql), batch(psql)
        (one,) = await database.all(reviews.close(content="{}", sha256="a", by="ana", quote_id=of_quote))
        (other,) = await database.all(reviews.close(content="{}", sha256="b", by="ana", batch_id=of_batch))
        await database.all(reviews.close(content="{}", sha256="c", by="ana", quote_id=quote(psql, 3)))

        for query in (reviews.closed(id=one), reviews.closed(quote_id=of_quote), reviews.closed(sha256="a")):
            assert [each.id for each in await database.all(query)] == [one]
        assert [each.id for each in await database.all(reviews.closed(batch_id=of_batch))] == [other]

    async def test_names_that_do_not_agree_find_nothing_and_no_name_finds_the_last(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        one, other = quote(psql, 1), quote(psql, 2)
        await database.all(reviews.close(content="{}", sha256="a", by="ana", quote_id=one))
        (last,) = await database.all(reviews.close(content="{}", sha256="b", by="ana", quote_id=other))

        assert await database.all(reviews.closed(quote_id=one, sha256="b")) == []
        assert [each.id for each in await database.all(reviews.closed())] == [last]

    async def test_the_content_is_read_only_by_those_who_want_it(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        one = quote(psql)
        await database.all(reviews.close(content='{"valor": "1"}', sha256="a", by="ana", quote_id=one))

        assert [each.content for each in await database.all(reviews.closed(quote_id=one))] == [None]
        assert [each.content for each in await database.all(reviews.closed(quote_id=one, whole=True))] == [
            {"valor": "1"}
        ]


class TestClosedItems:
    async def test_the_reports_come_one_by_one_in_their_order_and_as_they_were_written(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        content = '{"reports": [{"n": 1.10}, {"n": 2}, {"n": 3}]}'
        (id,) = await database.all(reviews.close(content=content, sha256="a", by="ana", batch_id=batch(psql)))

        assert await database.all(reviews.closed_items(id, after=0, limit=2)) == ['{"n": 1.10}', '{"n": 2}']
        assert await database.all(reviews.closed_items(id, after=2, limit=2)) == ['{"n": 3}']
        assert await database.all(reviews.closed_items(id + 1, after=0, limit=2)) == []


class TestOfMany:
    async def test_the_decisions_of_these_quotes_come_by_quote_and_in_their_order(
        self, database: Database, psql: psycopg.Connection
    ) -> None:
        one, two, other = quote(psql, 1), quote(psql, 2), quote(psql, 3)
        late = await decided(database, two, "accept")
        first = await decided(database, one, "refuse")
        await decided(database, other, "accept")
        last = await decided(database, one, "accept")

        found = await database.all(reviews.of_many([two, one]))

        assert [(each.quote_id, each.id) for each in found] == [(one, first), (one, last), (two, late)]
        assert await database.all(reviews.of_many([])) == []

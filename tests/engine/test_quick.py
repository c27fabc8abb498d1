"""Plain statements are sent without the driver's cursor, and nobody can tell by what comes back."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from typing import Any

import psycopg
import pytest

from retoma import Retoma, Run, Settings, pipeline
from retoma.postgres.database import Database, fetch
from retoma.store.query import Query

ECHO = "select %(a)s::text as a, %(b)s::bigint as b, %(c)s::float8 as c, %(d)s::boolean as d, %(e)s::text as e"
VALUES = {"a": 'it\'s \\ "so" ação 😀\n', "b": 2**62, "c": 0.1, "d": True, "e": None}
PREPARED = "select name from pg_prepared_statements where name like 'retoma%%'"


def echo(**changes: Any) -> Query[tuple[Any, ...]]:
    return Query(ECHO, lambda *row: row, VALUES | changes, plain=True)


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, Settings.load())
    await database.open()
    yield database
    await database.close()


async def prepared(connection: psycopg.AsyncConnection[Any]) -> list[str]:
    return [name for (name,) in await (await connection.execute(PREPARED)).fetchall()]


async def test_what_is_sent_as_text_comes_back_as_it_was(database: Database) -> None:
    async with database.connection() as connection:
        rows = [await fetch(connection, echo(d=each)) for each in (True, False, None)]

        assert rows == [[(*list(VALUES.values())[:3], each, None)] for each in (True, False, None)]
        assert await prepared(connection) == ["retoma_0"]


async def test_a_value_of_another_kind_is_left_to_the_driver(database: Database) -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    async with database.connection() as connection:
        rows = await fetch(connection, Query("select %(at)s::timestamptz", lambda each: each, {"at": at}, plain=True))

        assert (rows, await prepared(connection)) == ([at], [])


async def test_in_a_transaction_the_driver_sends_it(database: Database) -> None:
    async with database.transaction() as connection:
        assert await fetch(connection, echo()) == [tuple(VALUES.values())]
        assert await prepared(connection) == []


async def test_a_statement_that_the_server_forgot_is_sent_again(database: Database) -> None:
    async with database.connection() as connection:
        await fetch(connection, echo())
        await connection.execute("deallocate all")

        assert [await fetch(connection, echo()) for _ in range(2)] == [[tuple(VALUES.values())]] * 2


async def test_an_error_of_the_server_is_the_driver_s_and_spoils_no_later_statement(database: Database) -> None:
    divided = Query("select 1 / %(by)s::int", int, {"by": 0}, plain=True)
    async with database.connection() as connection:
        for _ in range(2):
            with pytest.raises(psycopg.errors.DivisionByZero, match="division by zero"):
                await fetch(connection, divided)

        assert await fetch(connection, echo()) == [tuple(VALUES.values())]


async def test_no_text_is_cut_off_at_a_nul(database: Database) -> None:
    async with database.connection() as connection:
        with pytest.raises(psycopg.DataError, match="NUL"):
            await fetch(connection, echo(a="a\0b"))

        assert await fetch(connection, echo()) == [tuple(VALUES.values())]


async def test_one_who_is_cancelled_leaves_the_connection_in_order(database: Database) -> None:
    slow = Query("select pg_sleep(%(seconds)s::float8)", str, {"seconds": 60.0}, plain=True)
    async with database.connection() as connection:
        await fetch(connection, echo())
        asked = asyncio.create_task(fetch(connection, slow))
        while "select pg_sleep" not in await active(database):
            await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked

        assert await fetch(connection, echo()) == [tuple(VALUES.values())]


async def active(database: Database) -> str:
    looking = Query(
        "select coalesce(string_agg(query, ';'), '') from pg_stat_activity"
        " where state = 'active' and pid <> pg_backend_pid() and datname = current_database()",
        str,
    )
    return (await database.all(looking))[0]


async def test_those_who_share_a_connection_get_their_own_rows(database: Database) -> None:
    async with database.connection() as connection:
        found = await asyncio.gather(*(fetch(connection, echo(b=each)) for each in range(40)))

    assert [rows[0][1] for rows in found] == list(range(40))


@pipeline("count")
async def count(number: int, run: Run) -> int:  # noqa: ARG001 - a handler takes it
    return number


async def test_no_statement_is_kept_behind_a_pooler(database_url: str) -> None:
    async with Retoma(database_url, pipelines=[count], settings=Settings.load(pooler="transaction")) as app:
        receipts = [await app.enqueue(count, 1, key="a") for _ in range(2)]

        async with app.database.connection() as connection:
            assert await prepared(connection) == []
    assert [each.new for each in receipts] == [True, False]


async def test_an_enqueue_by_itself_is_sent_so(app_of_count: Retoma) -> None:
    receipts = [await app_of_count.enqueue(count, each, key="ação") for each in (1, 2)]

    async with app_of_count.database.connection() as connection:
        assert await prepared(connection) == ["retoma_0"]
    assert receipts[0].id == receipts[1].id
    assert (await app_of_count.jobs.get(receipts[0].id)).input == "1"


@pytest.fixture
async def app_of_count(database_url: str) -> AsyncIterator[Retoma]:
    async with Retoma(database_url, pipelines=[count]) as app:
        yield app

"""Our own connections: one is enough for who asks one thing at a time, and nobody gets another's rows."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import AsyncIterator

import psycopg
import pytest
from psycopg_pool import PoolClosed

from retoma import Settings
from retoma.errors import DatabaseUnreachable
from retoma.postgres.database import Database, SyncDatabase, fetch
from retoma.store.query import Query


def numbers(first: int, many: int) -> Query[int]:
    return Query("select generate_series(%(a)s::int, %(b)s::int)", int, {"a": first, "b": first + many - 1})


@pytest.fixture
async def database(database_url: str) -> AsyncIterator[Database]:
    database = Database(database_url, Settings.load())
    await database.open()
    yield database
    await database.close()


async def test_who_asks_one_thing_at_a_time_uses_one_connection(database: Database) -> None:
    process = Query("select pg_backend_pid()", int)

    pids = {(await database.all(process))[0] for _ in range(20)}

    assert len(pids) == 1


@pytest.mark.parametrize("many", [1, 3])
async def test_those_who_share_a_connection_get_their_own_rows(database: Database, many: int) -> None:
    async with database.connection() as connection:
        found = await asyncio.gather(*(fetch(connection, numbers(10 * each, many)) for each in range(50)))

    assert found == [list(range(10 * each, 10 * each + many)) for each in range(50)]


async def test_those_who_share_a_pipeline_get_their_own_rows(database: Database) -> None:
    async with database.connection() as connection, connection.pipeline():
        found = await asyncio.gather(*(fetch(connection, numbers(10 * each, 2)) for each in range(20)))

    assert found == [[10 * each, 10 * each + 1] for each in range(20)]


async def test_a_statement_that_failed_spoils_no_later_one(database: Database) -> None:
    async with database.connection() as connection:
        before = await fetch(connection, numbers(1, 1))
        with pytest.raises(Exception, match="division by zero"):
            await fetch(connection, Query("select 1 / 0", int))
        after = await fetch(connection, numbers(2, 1))

    assert (before, after) == ([1], [2])


async def test_a_connection_that_the_server_closed_is_not_given_out(
    database: Database, psql: psycopg.Connection
) -> None:
    process = Query("select pg_backend_pid()", int)
    (before,) = await database.all(process)
    psql.execute("select pg_terminate_backend(%s)", [before])
    while psql.execute("select 1 from pg_stat_activity where pid = %s", [before]).fetchone():
        await asyncio.sleep(0.01)

    (after,) = await database.all(process)

    assert after != before


def test_nor_to_those_who_do_not_await(database_url: str, psql: psycopg.Connection) -> None:
    process = Query("select pg_backend_pid()", int)
    database = SyncDatabase(database_url, Settings.load())
    database.open()
    (before,) = database.all(process)
    psql.execute("select pg_terminate_backend(%s)", [before])
    while psql.execute("select 1 from pg_stat_activity where pid = %s", [before]).fetchone():
        time.sleep(0.01)

    (after,) = database.all(process)

    assert after != before
    database.close()


async def test_many_rows_are_not_held_after_they_were_given(database: Database) -> None:
    async with database.connection() as connection:
        await fetch(connection, numbers(1, 1000))

        assert connection.kept_cursor().rowcount == -1  # type: ignore[attr-defined]


async def test_a_database_that_is_not_there_is_told_when_it_is_opened(unused_tcp_port: int) -> None:
    database = Database(f"postgresql://nobody:s3cret@127.0.0.1:{unused_tcp_port}/none", Settings.load())

    with pytest.raises(DatabaseUnreachable, match=f"127.0.0.1:{unused_tcp_port}/none") as told:
        await database.open()

    assert "s3cret" not in str(told.value)


async def test_a_pool_that_was_closed_is_not_waited_for(database_url: str) -> None:
    database = Database(database_url, Settings.load())
    await database.open()
    await database.close()

    async with asyncio.timeout(20):
        with pytest.raises(PoolClosed):
            await database.persist(numbers(1, 1))


async def test_what_is_asked_until_it_is_done_is_refused_only_for_its_own_data(
    database: Database, psql: psycopg.Connection
) -> None:
    with pytest.raises(psycopg.errors.NumericValueOutOfRange):
        await database.persist(Query("select %(number)s::int", int, {"number": 2**40}))

    psql.execute("create table later (number int)")
    psql.execute("alter table later rename to not_yet")
    asking = asyncio.create_task(database.persist(Query("select number from later", int)))
    while not database.outages._episodes:
        await asyncio.sleep(0.01)
    psql.execute("alter table not_yet rename to later")

    async with asyncio.timeout(240):
        assert await asking == []


async def test_a_cancellation_that_the_pool_swallows_is_heard_all_the_same(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    pool = database._pool
    getconn, waiting = pool.getconn, asyncio.Event()

    async def deaf() -> object:
        waiting.set()
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(60)
        return await getconn()

    monkeypatch.setattr(pool, "getconn", deaf)
    asking = asyncio.create_task(database.all(numbers(1, 1)))
    await waiting.wait()
    asking.cancel()

    with pytest.raises(asyncio.CancelledError):
        await asking
    assert pool.get_stats()["pool_available"] == 1, "the connection went back"

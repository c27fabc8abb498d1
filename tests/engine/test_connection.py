"""A connection of our own pools does whatever the driver's does, also when it is called off, cut or given much."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
import uvloop

from retoma import Retoma, Run, Settings, pipeline
from retoma import connection as connections
from retoma.connection import Connection
from retoma.database import Database

PATIENCE = 20.0


@pipeline("echo")
async def echo(number: int, _run: Run) -> int:
    return number


@pytest.fixture
async def database(settings: Settings) -> AsyncIterator[Database]:
    """With one connection, so that the next to come gets the same."""
    assert settings.database_url
    opened = Database(settings.database_url, settings, most=1)
    await opened.open()
    yield opened
    await opened.close()


async def value(database: Database, sql: str, *params: Any) -> Any:
    async with database.connection() as connection:
        row = await (await connection.execute(sql, params)).fetchone()
    assert row is not None
    return row[0]


def open_files() -> int:
    return len(list(Path("/dev/fd").iterdir()))


async def until_it_runs(psql: psycopg.Connection, words: str) -> int:
    """The server process in which a statement with these *words* runs, once there is one."""
    async with asyncio.timeout(PATIENCE):
        while not (found := running(psql, words)):
            await asyncio.sleep(0.01)
    return found[0]


def running(psql: psycopg.Connection, words: str) -> list[int]:
    asked = "select pid from pg_stat_activity where state = 'active' and query like %s and pid <> pg_backend_pid()"
    found = [pid for (pid,) in psql.execute(asked, [f"%{words}%"]).fetchall()]
    psql.commit()
    return found


async def test_the_pools_connections_are_our_own(database: Database) -> None:
    async with database.connection() as connection:
        assert isinstance(connection, Connection)


async def test_a_query_that_is_called_off_ends_on_the_server_and_the_connection_goes_on(
    database: Database, psql: psycopg.Connection
) -> None:
    before = await value(database, "select pg_backend_pid()")
    task = asyncio.create_task(value(database, "select 'called off', pg_sleep(600)"))
    await until_it_runs(psql, "called off")
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task

    assert await value(database, "select pg_backend_pid()") == before
    assert running(psql, "called off") == []


async def test_a_query_that_takes_too_long_is_called_off(database: Database, psql: psycopg.Connection) -> None:
    before = await value(database, "select pg_backend_pid()")
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await value(database, "select 'too long', pg_sleep(600)")

    assert await value(database, "select pg_backend_pid()") == before
    assert running(psql, "too long") == []


async def test_who_is_called_off_as_the_answer_comes_leaves_the_next_answer_whole(database: Database) -> None:
    for wait in range(40):
        task = asyncio.create_task(value(database, "select 'not heard'"))
        for _ in range(wait // 4):
            await asyncio.sleep(0.0001)
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

        assert await value(database, "select %s::integer", wait) == wait


async def test_a_question_and_an_answer_may_be_larger_than_a_socket_holds(database: Database) -> None:
    text = "word " * 4_000_000

    assert await value(database, "select %s::text", text) == text


async def test_a_connection_that_is_cut_while_it_waits_says_so_and_another_takes_its_place(
    database: Database, psql: psycopg.Connection
) -> None:
    task = asyncio.create_task(value(database, "select 'cut', pg_sleep(600)"))
    psql.execute("select pg_terminate_backend(%s)", [await until_it_runs(psql, "cut'")])
    psql.commit()
    with pytest.raises(psycopg.OperationalError):
        await task

    assert await value(database, "select 1") == 1


async def test_a_connection_that_is_cut_while_it_rests_is_watched_no_more(
    database: Database, psql: psycopg.Connection
) -> None:
    async with database.connection() as connection:
        pid = (await (await connection.execute("select pg_backend_pid()")).fetchone() or (0,))[0]
        psql.execute("select pg_terminate_backend(%s)", [pid])
        psql.commit()
        async with asyncio.timeout(PATIENCE):
            while connection._eye is not None:  # type: ignore[attr-defined]
                await asyncio.sleep(0.01)
        with pytest.raises(psycopg.OperationalError):
            await connection.execute("select 1")

    assert await value(database, "select 1") == 1


async def test_who_comes_after_the_server_hung_up_gets_another_connection(
    database: Database, psql: psycopg.Connection
) -> None:
    for _ in range(5):
        pid = await value(database, "select pg_backend_pid()")
        psql.execute("select pg_terminate_backend(%s, 20000)", [pid])
        psql.commit()
        await asyncio.sleep(0.01)

        assert await value(database, "select pg_backend_pid()") != pid


async def test_the_connection_that_came_back_last_goes_out_first(settings: Settings) -> None:
    assert settings.database_url
    database = Database(settings.database_url, settings, most=4)
    await database.open()
    pids = await asyncio.gather(*(value(database, "select pg_backend_pid() from pg_sleep(0.05)") for _ in range(4)))
    later = [await value(database, "select pg_backend_pid()") for _ in range(10)]
    await database.close()

    assert len(set(pids)) > 1
    assert len(set(later)) == 1


async def test_more_who_ask_than_connections_are_all_answered(settings: Settings) -> None:
    assert settings.database_url
    database = Database(settings.database_url, settings, most=2)
    await database.open()
    async with asyncio.timeout(PATIENCE):
        told = await asyncio.gather(*(value(database, "select %s::integer", number) for number in range(200)))
    await database.close()

    assert told == list(range(200))


async def test_a_connection_is_entered_in_the_books_of_its_pool_now_and_then(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    await value(database, "select 1")
    for seconds, entered in ((60.0, 0), (0.0, 10)):
        monkeypatch.setattr(connections, "_WARM_SECONDS", seconds)
        before = database._pool.get_stats()["requests_num"]
        for _ in range(11):
            await value(database, "select 1")
        assert database._pool.get_stats()["requests_num"] - before == entered


async def test_no_file_stays_open_behind_a_closed_pool(settings: Settings) -> None:
    assert settings.database_url
    before = open_files()
    database = Database(settings.database_url, settings)
    await database.open()
    await asyncio.gather(*(value(database, "select pg_sleep(0.05)::text") for _ in range(5)))
    assert open_files() > before
    await database.close()

    assert open_files() == before


async def test_a_question_that_fails_leaves_the_connection_fit(database: Database) -> None:
    before = await value(database, "select pg_backend_pid()")
    for _ in range(3):
        with pytest.raises(psycopg.errors.DivisionByZero):
            await value(database, "select 1 / 0")

    assert await value(database, "select pg_backend_pid()") == before


async def test_hints_copies_and_pipelines_work_as_the_drivers(database: Database) -> None:
    async with database.connection() as connection:
        assert [each async for each in connection.notifies(timeout=0.05)] == []
        await connection.execute("listen ours")
        await connection.execute("notify ours, 'word'")
        assert [each.payload async for each in connection.notifies(timeout=PATIENCE, stop_after=1)] == ["word"]

        await connection.execute("create temporary table copied (number integer)")
        async with connection.cursor().copy("copy copied from stdin") as copy:
            for number in range(1000):
                await copy.write_row([number])
        async with connection.pipeline():
            asked = [await connection.execute("select %s::integer", [number]) for number in range(20)]
            told = [await each.fetchone() for each in asked]
        assert told == [(number,) for number in range(20)]
    assert await value(database, "select sum(number) from copied") == 499_500


async def test_tasks_that_share_a_connection_get_each_its_own_answer(settings: Settings) -> None:
    async with Retoma(settings=settings, pipelines=[echo]) as app:
        async with app.transaction() as connection:
            receipts = await asyncio.gather(*(app.enqueue(echo, number, conn=connection) for number in range(50)))
        found = [(await app.job(each.id)).input for each in receipts]

    assert found == [str(number) for number in range(50)]


def test_all_of_this_holds_on_the_loop_of_an_executor_too(settings: Settings, psql: psycopg.Connection) -> None:
    async def all_of_this() -> None:
        assert settings.database_url
        database = Database(settings.database_url, settings, most=1)
        await database.open()
        await test_a_query_that_is_called_off_ends_on_the_server_and_the_connection_goes_on(database, psql)
        await test_who_is_called_off_as_the_answer_comes_leaves_the_next_answer_whole(database)
        await test_a_question_and_an_answer_may_be_larger_than_a_socket_holds(database)
        await test_a_connection_that_is_cut_while_it_waits_says_so_and_another_takes_its_place(database, psql)
        await test_a_connection_that_is_cut_while_it_rests_is_watched_no_more(database, psql)
        await test_hints_copies_and_pipelines_work_as_the_drivers(database)
        await database.close()

    uvloop.run(all_of_this())

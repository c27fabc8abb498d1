"""On the caller's own connection: the job commits, or not, with the caller's rows."""

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from math import nan
from typing import Any
from urllib.parse import urlsplit

import asyncpg
import psycopg
import pytest
import sqlalchemy
from psycopg.rows import dict_row
from sqlalchemy.ext.asyncio import AsyncSession, create_async_engine
from sqlalchemy.orm import Session, scoped_session, sessionmaker

from retoma import Retoma, Retry, Run, pipeline
from retoma import sync as blocking
from retoma.errors import ConfigurationError, KeyTaken, Unstorable
from retoma.testing import drain

AppWith = Callable[..., Awaitable[Retoma]]
INSERT = "insert into documents values ('theirs')"


@pipeline("ingest", lane=lambda document: document)
async def ingest(document: str, _run: Run) -> str:
    return document


@pipeline("weigh")
async def weigh(weight: float, _run: Run) -> float:
    return weight


class Undone(Exception):
    """The caller changes its mind."""


def dialect(url: str, name: str) -> str:
    return urlsplit(url)._replace(scheme=f"postgresql+{name}").geturl()


@asynccontextmanager
async def psycopg_async(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url) as connection, connection.transaction():
        await connection.execute(INSERT)
        yield connection


@asynccontextmanager
async def psycopg_dict_rows(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url, row_factory=dict_row) as connection:
        await connection.execute(INSERT)
        yield connection


@asynccontextmanager
async def psycopg_sync(url: str) -> AsyncIterator[Any]:
    with psycopg.connect(url) as connection:
        connection.execute(INSERT)
        yield connection


@asynccontextmanager
async def asyncpg_connection(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    try:
        async with connection.transaction():
            await connection.execute(INSERT)
            yield connection
    finally:
        await connection.close()


@asynccontextmanager
async def asyncpg_pool(url: str) -> AsyncIterator[Any]:
    pool = await asyncpg.create_pool(url, min_size=1, max_size=1)
    async with pool, pool.acquire() as connection, connection.transaction():
        await connection.execute(INSERT)
        yield connection


@asynccontextmanager
async def sqlalchemy_connection(url: str) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"))
    try:
        with engine.begin() as connection:
            connection.execute(sqlalchemy.text(INSERT))
            yield connection
    finally:
        engine.dispose()


@asynccontextmanager
async def sqlalchemy_session(url: str) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"))
    try:
        with Session(engine) as session, session.begin():
            session.execute(sqlalchemy.text(INSERT))
            yield session
    finally:
        engine.dispose()


@asynccontextmanager
async def sqlalchemy_scoped_session(url: str) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"))
    session = scoped_session(sessionmaker(engine))
    try:
        session.execute(sqlalchemy.text(INSERT))
        yield session
        session.commit()
    finally:
        session.remove()
        engine.dispose()


def sqlalchemy_async(name: str, *, session: bool) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def open_one(url: str) -> AsyncIterator[Any]:
        engine = create_async_engine(dialect(url, name))
        try:
            if session:
                async with AsyncSession(engine) as work, work.begin():
                    await work.execute(sqlalchemy.text(INSERT))
                    yield work
            else:
                async with engine.begin() as connection:
                    await connection.execute(sqlalchemy.text(INSERT))
                    yield connection
        finally:
            await engine.dispose()

    return open_one


SYNC: dict[str, Callable[[str], AbstractAsyncContextManager[Any]]] = {
    "psycopg": psycopg_sync,
    "SQLAlchemy Connection": sqlalchemy_connection,
    "SQLAlchemy Session": sqlalchemy_session,
    "SQLAlchemy scoped_session": sqlalchemy_scoped_session,
}
EVERY = SYNC | {
    "psycopg async": psycopg_async,
    "psycopg async with dict rows": psycopg_dict_rows,
    "asyncpg": asyncpg_connection,
    "asyncpg from a pool": asyncpg_pool,
    "SQLAlchemy AsyncConnection on psycopg": sqlalchemy_async("psycopg", session=False),
    "SQLAlchemy AsyncSession on psycopg": sqlalchemy_async("psycopg", session=True),
    "SQLAlchemy AsyncConnection on asyncpg": sqlalchemy_async("asyncpg", session=False),
    "SQLAlchemy AsyncSession on asyncpg": sqlalchemy_async("asyncpg", session=True),
}


@pytest.fixture
def counted(psql: psycopg.Connection) -> Callable[[], tuple[int, int]]:
    """The caller's table; a call says how many rows of the caller's and how many jobs there are."""
    psql.execute("create table documents (name text)")

    def both() -> tuple[int, int]:
        row = psql.execute("select (select count(*) from documents), (select count(*) from retoma.jobs)").fetchone()
        assert row is not None
        return row[0], row[1]

    return both


@pytest.mark.parametrize("kind", EVERY)
async def test_the_job_commits_and_rolls_back_with_the_callers_rows(
    app_with: AppWith, database_url: str, counted: Callable[[], tuple[int, int]], kind: str
) -> None:
    app = await app_with(ingest)
    with pytest.raises(Undone):  # noqa: PT012
        async with EVERY[kind](database_url) as connection:
            await app.enqueue(ingest, "mine", conn=connection)
            raise Undone
    assert counted() == (0, 0)

    async with EVERY[kind](database_url) as connection:
        first = await app.enqueue(ingest, "mine", key="k", conn=connection, delay=0.0, expires=60.0)
        again = await app.enqueue(ingest, "mine", key="k", conn=connection)
        many = await app.enqueue_many(ingest, ["a", "b", "c"], key=lambda name: name, conn=connection)
        assert counted() == (0, 0), "nothing is there before the commit"

    assert counted() == (1, 4)
    assert (first.new, again.new, again.id) == (True, False, first.id)
    assert [receipt.key for receipt in many] == ["a", "b", "c"]
    assert await drain(app) == 4


@pytest.mark.parametrize("kind", SYNC)
async def test_the_door_without_await_joins_blocking_connections(
    database_url: str, counted: Callable[[], tuple[int, int]], kind: str
) -> None:
    with blocking.Retoma(database_url, pipelines=[ingest]) as app:
        with pytest.raises(Undone):  # noqa: PT012
            async with SYNC[kind](database_url) as connection:
                app.enqueue(ingest, "mine", conn=connection)
                raise Undone
        async with SYNC[kind](database_url) as connection:
            app.enqueue_many(ingest, ["a", "b"], conn=connection)

        assert counted() == (1, 2)


async def test_our_own_transaction_serves_as_well(app_with: AppWith, counted: Callable[[], tuple[int, int]]) -> None:
    app = await app_with(ingest)
    with pytest.raises(Undone):  # noqa: PT012
        async with app.transaction() as connection:
            await connection.execute(INSERT)
            await app.enqueue(ingest, "a", conn=connection)
            raise Undone
    async with app.transaction() as connection:
        await connection.execute(INSERT)
        await app.enqueue(ingest, "b", conn=connection)

    assert counted() == (1, 1)


async def test_what_a_step_enqueues_in_its_transaction_is_enqueued_once(
    app_with: AppWith, counted: Callable[[], tuple[int, int]]
) -> None:
    async def store(connection: psycopg.AsyncConnection[Any]) -> int:
        await connection.execute(INSERT)
        return (await app.enqueue(ingest, "from within", conn=connection)).id

    @pipeline("parent", retry=Retry(attempts=3, wait=0.0))
    async def parent(_: None, run: Run) -> int:
        if run.attempt == 1:
            await run.step("too early", lambda: None)
            raise Undone
        child = await run.transact("store", store)
        if run.attempt == 2:
            raise Undone
        return child

    app = await app_with(parent, ingest)
    receipt = await app.enqueue(parent, None)
    await drain(app)

    assert counted() == (1, 2)
    assert (await app.jobs.get(await app.jobs.output(parent, receipt.id))).state.ended


async def test_a_taken_key_leaves_the_callers_transaction_usable(
    app_with: AppWith, counted: Callable[[], tuple[int, int]]
) -> None:
    app = await app_with(ingest)
    await app.enqueue(ingest, "a", key="k")
    async with app.transaction() as connection:
        with pytest.raises(KeyTaken):
            await app.enqueue(ingest, "a", key="k", if_taken="raise", conn=connection)
        await connection.execute(INSERT)

    assert counted() == (1, 1)


@pytest.mark.parametrize("kind", EVERY)
async def test_many_are_queued_all_or_none_though_the_caller_goes_on_and_commits(
    app_with: AppWith, database_url: str, counted: Callable[[], tuple[int, int]], kind: str
) -> None:
    app = await app_with(ingest)
    await app.enqueue(ingest, "a", key="taken")
    async with EVERY[kind](database_url) as connection:
        for fresh in ("fresh", "another"):  # what is set around one command does not get in the way of the next
            with pytest.raises(KeyTaken):
                await app.enqueue_many(ingest, [fresh, "taken"], key=str, if_taken="raise", conn=connection)
        await app.enqueue_many(ingest, ["b", "c"], key=str, conn=connection)

    assert counted() == (1, 3)
    assert {job.key for job in await app.jobs.find()} == {"taken", "b", "c"}


@pytest.mark.parametrize("kind", SYNC)
async def test_without_await_too_many_are_queued_all_or_none(
    database_url: str, counted: Callable[[], tuple[int, int]], kind: str
) -> None:
    with blocking.Retoma(database_url, pipelines=[ingest]) as app:
        app.enqueue(ingest, "a", key="taken")
        async with SYNC[kind](database_url) as connection:
            with pytest.raises(KeyTaken):
                app.enqueue_many(ingest, ["fresh", "taken"], key=str, if_taken="raise", conn=connection)

    assert counted() == (1, 1)


@asynccontextmanager
async def asyncpg_alone(url: str) -> AsyncIterator[Any]:
    connection = await asyncpg.connect(url)
    yield connection
    await connection.close()


@asynccontextmanager
async def psycopg_async_alone(url: str) -> AsyncIterator[Any]:
    async with await psycopg.AsyncConnection.connect(url, autocommit=True) as connection:
        yield connection


@asynccontextmanager
async def psycopg_alone(url: str) -> AsyncIterator[Any]:
    with psycopg.connect(url, autocommit=True) as connection:
        yield connection


@asynccontextmanager
async def sqlalchemy_alone(url: str) -> AsyncIterator[Any]:
    engine = sqlalchemy.create_engine(dialect(url, "psycopg"), isolation_level="AUTOCOMMIT")
    with Session(engine) as session:
        yield session
    engine.dispose()


def sqlalchemy_async_alone(name: str) -> Callable[[str], AbstractAsyncContextManager[Any]]:
    @asynccontextmanager
    async def open_one(url: str) -> AsyncIterator[Any]:
        engine = create_async_engine(dialect(url, name), isolation_level="AUTOCOMMIT")
        async with engine.connect() as connection:
            yield connection
        await engine.dispose()

    return open_one


ALONE: dict[str, Callable[[str], AbstractAsyncContextManager[Any]]] = {
    "psycopg": psycopg_alone,
    "psycopg async": psycopg_async_alone,
    "asyncpg": asyncpg_alone,
    "SQLAlchemy Session": sqlalchemy_alone,
    "SQLAlchemy AsyncConnection on psycopg": sqlalchemy_async_alone("psycopg"),
    "SQLAlchemy AsyncConnection on asyncpg": sqlalchemy_async_alone("asyncpg"),
}


@pytest.mark.parametrize("kind", ALONE)
async def test_where_every_statement_commits_by_itself_many_are_still_queued_all_or_none(
    app_with: AppWith, database_url: str, counted: Callable[[], tuple[int, int]], kind: str
) -> None:
    app = await app_with(weigh)
    async with ALONE[kind](database_url) as connection:
        with pytest.raises(Unstorable):
            await app.enqueue_many(weigh, [1.0] * 2500 + [nan], conn=connection)
        assert counted() == (0, 0), "the first statement had queued 2,000"
        await app.enqueue_many(weigh, [1.0] * 3, conn=connection)
        assert counted() == (0, 3), "nobody but us will commit it"


async def test_a_transaction_that_the_caller_began_by_hand_is_left_to_the_caller(
    app_with: AppWith, database_url: str, counted: Callable[[], tuple[int, int]]
) -> None:
    app = await app_with(weigh)
    for kind in ("psycopg async", "asyncpg"):
        async with ALONE[kind](database_url) as connection:
            await connection.execute("begin")
            await app.enqueue_many(weigh, [1.0] * 3, conn=connection)
            await connection.execute("rollback")

    assert counted() == (0, 0)


async def test_a_lost_connection_is_what_the_caller_hears_of(
    app_with: AppWith, database_url: str, psql: psycopg.Connection
) -> None:
    app = await app_with(weigh)

    def cut(weight: float) -> str:
        psql.execute("select pg_terminate_backend(%s)", [connection.info.backend_pid])
        return str(weight)

    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as connection:
        with pytest.raises(psycopg.errors.AdminShutdown):
            await app.enqueue_many(weigh, [1.0], key=cut, conn=connection)


class OwnSession(Session):
    """As many programs have one."""


class OwnAsyncSession(AsyncSession):
    """The same, for those that await."""


class OwnConnection(asyncpg.Connection):
    """And one of asyncpg."""


async def test_classes_made_from_those_of_sqlalchemy_and_asyncpg_do_as_well(
    app_with: AppWith, database_url: str, counted: Callable[[], tuple[int, int]]
) -> None:
    app = await app_with(ingest)
    engine = sqlalchemy.create_engine(dialect(database_url, "psycopg"))
    with OwnSession(engine) as session, session.begin():
        await app.enqueue(ingest, "a", conn=session)
        await app.enqueue_many(ingest, ["b"], conn=session)
    engine.dispose()
    others = create_async_engine(dialect(database_url, "asyncpg"))
    async with OwnAsyncSession(others) as work, work.begin():
        await app.enqueue(ingest, "c", conn=work)
        await app.enqueue_many(ingest, ["d"], conn=work)
    await others.dispose()
    own = await asyncpg.connect(database_url, connection_class=OwnConnection)
    await app.enqueue(ingest, "e", conn=own)
    await app.enqueue_many(ingest, ["f"], conn=own)
    await own.close()

    assert counted() == (0, 6)


async def test_a_hint_goes_out_with_the_callers_commit(app_with: AppWith, database_url: str) -> None:
    app = await app_with(ingest)
    async with await psycopg.AsyncConnection.connect(database_url, autocommit=True) as ear:
        await ear.execute("listen retoma")
        async with app.transaction() as connection:
            await app.enqueue(ingest, "a", conn=connection)
            assert [hint async for hint in ear.notifies(timeout=0.05)] == []

        assert [hint.payload async for hint in ear.notifies(timeout=5, stop_after=1)] == ["ingest"]


@pytest.mark.parametrize("thing", ["a text", 3, object()], ids=["str", "int", "object"])
async def test_what_is_not_a_connection_is_refused(app_with: AppWith, thing: object) -> None:
    app = await app_with(ingest)

    with pytest.raises(ConfigurationError, match="Jobs cannot be queued on a") as caught:
        await app.enqueue(ingest, "a", conn=thing)
    assert "psycopg connection" in caught.value.next
    with pytest.raises(ConfigurationError, match="Jobs cannot be queued on a"):
        await app.enqueue_many(ingest, ["a"], conn=thing)


async def test_an_async_connection_at_the_door_without_await_is_refused(database_url: str) -> None:
    with blocking.Retoma(database_url, pipelines=[ingest]) as app:
        async with await psycopg.AsyncConnection.connect(database_url) as connection:
            with pytest.raises(ConfigurationError, match="AsyncConnection"):
                app.enqueue(ingest, "a", conn=connection)


@pytest.mark.parametrize("make", [sqlalchemy.create_engine, create_async_engine])
async def test_an_engine_is_not_a_connection_either(
    app_with: AppWith, database_url: str, make: Callable[[str], Any]
) -> None:
    app = await app_with(ingest)
    engine = make(dialect(database_url, "psycopg"))

    with pytest.raises(ConfigurationError, match="Engine"):
        await app.enqueue(ingest, "a", conn=engine)
    with pytest.raises(ConfigurationError, match="Engine"):
        await app.enqueue_many(ingest, ["a"], conn=engine)

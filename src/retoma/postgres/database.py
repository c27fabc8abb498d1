"""The database: one pool, a query in, rows out."""

from __future__ import annotations

import asyncio
import random
import select
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

import psycopg
from psycopg import errors as pg
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from retoma.address import checked, explain_connection
from retoma.errors import DatabaseTooOld, DatabaseUnreachable
from retoma.query import Query
from retoma.settings import Settings

T = TypeVar("T")

OLDEST = 15
LOST = (psycopg.OperationalError, psycopg.InterfaceError, PoolTimeout)
"""What a broken connection looks like; whether the statement was done is then unknown."""
TRANSIENT = (*LOST, pg.SerializationFailure, pg.DeadlockDetected)
"""What may go well a moment later."""

_IDLE_BEFORE_PROBE = 10.0  # seconds; as long as the kernel waits before it asks by itself
_FIRST_SECONDS = 1.0
_GONE = frozenset({"57P01", "57P02", "57P03"})  # the server stops, has crashed, or is starting


def is_lost(error: Exception) -> bool:
    """Whether *error* says that the connection went away, rather than that a statement failed on it."""
    if not isinstance(error, psycopg.OperationalError):
        return isinstance(error, LOST)
    return error.sqlstate is None or error.sqlstate.startswith("08") or error.sqlstate in _GONE


# The statements of a worker are short walks along an index. A plan made while the tables were empty would read
# them whole once they are full, and be kept: so on a worker's own connections the planner is not offered that.
_HOT = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off -c jit=off"
_HOT += " -c plan_cache_mode=force_generic_plan"


def connection_options(settings: Settings, *, hot: bool = False) -> dict[str, Any]:
    """How every connection of ours is made: nobody waits for ever."""
    options: dict[str, Any] = {
        "autocommit": True,
        "connect_timeout": settings.connect_timeout,
        "application_name": "retoma",
        "keepalives": 1,
        "keepalives_idle": 10,
        "keepalives_interval": 3,
        "keepalives_count": 3,
        "tcp_user_timeout": 10_000,
    }
    if settings.pooler == "transaction":
        options["prepare_threshold"] = None
    else:
        options["prepare_threshold"] = 1 if hot else 5
        options["options"] = (
            f"-c statement_timeout={settings.statement_seconds * 1000:.0f}"
            f" -c idle_in_transaction_session_timeout={settings.idle_seconds * 1000:.0f} {_HOT if hot else ''}"
        )
    return options


def jitter(attempt: int, *, longest: float = 5.0) -> float:
    """Seconds to wait before try number *attempt* (from 1), so that not everybody comes back at once."""
    return random.uniform(0.0, min(longest, 0.1 * 2.0**attempt))  # noqa: S311 - not a secret


def check_version(version: int) -> None:
    """Refuse a server older than we can use; *version* as in server_version_num."""
    if version < OLDEST * 10_000:
        raise DatabaseTooOld(
            f"Retoma needs PostgreSQL {OLDEST} or newer, and this server is {version // 10_000}.",
            next="Upgrade the server, or unset DATABASE_URL to use the embedded one.",
        )


class _Connection(psycopg.AsyncConnection[Any]):
    """One of our own. It keeps its cursor: a new one learns for every statement anew how parameters are written."""

    _kept: psycopg.AsyncCursor[Any] | None = None

    def kept_cursor(self) -> psycopg.AsyncCursor[Any]:
        """Whoever has executed on it fetches before another can execute, for nothing is awaited in between; only in a
        pipeline it is, and there each has a cursor of their own.
        """
        if self.pgconn.pipeline_status:
            return _cursor(self)
        if self._kept is None:
            self._kept = _cursor(self)
        return self._kept

    def forget_cursor(self) -> None:
        """It holds its rows until it executes again, and that may be long."""
        self._kept = None


_Pool = AsyncConnectionPool[_Connection]


class _Probe:
    """A connection is looked at before it is given out. One that the server has closed can be read from, though nobody
    has asked it anything, and looking at that costs no round trip. One that has rested long is asked in any case, for
    a network may go away without a word.
    """

    def __init__(self) -> None:
        self._used: WeakKeyDictionary[object, float] = WeakKeyDictionary()

    def doubts(self, connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> bool:
        now = time.monotonic()
        before = self._used.get(connection, now)
        self._used[connection] = now
        if now - before > _IDLE_BEFORE_PROBE or connection.closed:
            return True
        looking = select.poll()  # and not select(), which ends at descriptor 1,023
        looking.register(connection.fileno(), select.POLLIN)
        return bool(looking.poll(0))

    async def check(self, connection: psycopg.AsyncConnection[Any]) -> None:
        if self.doubts(connection):
            await AsyncConnectionPool.check_connection(connection)

    def check_sync(self, connection: psycopg.Connection[Any]) -> None:
        if self.doubts(connection):
            ConnectionPool.check_connection(connection)


class _Lent:
    """A connection while somebody has it. The pool's own context would commit what autocommit has committed."""

    __slots__ = ("_connection", "_pool", "_url")

    def __init__(self, pool: _Pool, url: str) -> None:
        self._pool = pool
        self._url = url

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        try:
            self._connection = await self._pool.getconn()
        except PoolTimeout as error:
            raise explain_connection(self._url, error) from None
        return self._connection

    async def __aexit__(self, *_: object) -> None:
        await self._pool.putconn(self._connection)


class Database:
    """Runs queries; connections come from one pool."""

    def __init__(self, url: str, settings: Settings, *, most: int = 10, least: int = 1, hot: bool = False) -> None:
        self.url = checked(url)
        self.settings = settings
        self._pool: _Pool = AsyncConnectionPool(
            self.url,
            connection_class=_Connection,
            kwargs=connection_options(settings, hot=hot),
            min_size=least,
            max_size=most,
            open=False,
            timeout=settings.connect_timeout * 2,
            reconnect_timeout=0,
            check=_Probe().check,
            configure=self._note,
        )
        self._least = least
        self._made: WeakSet[_Connection] = WeakSet()

    async def _note(self, connection: _Connection) -> None:
        self._made.add(connection)

    async def open(self) -> None:
        """Connect once, so that a wrong address or an old server is told at the start."""
        try:
            connection = await psycopg.AsyncConnection.connect(self.url, **connection_options(self.settings))
        except psycopg.Error as error:
            raise explain_connection(self.url, error) from None
        async with connection:
            check_version(connection.info.server_version)
        await self._pool.open()
        # Who asks before the first connection is there makes the pool open a second one, and then they take turns. (The
        # pool's own wait would close it for good when that takes too long.)
        until = time.monotonic() + _FIRST_SECONDS
        while self._least and not self._pool.get_stats()["pool_available"] and time.monotonic() < until:
            await asyncio.sleep(0.002)

    async def close(self) -> None:
        try:
            await self._pool.close()
        except asyncio.CancelledError:
            # A loop that ends calls off the pool's own tasks as well, and then the pool leaves everything open.
            for connection in list(self._made):
                await connection.close()
            raise

    def connection(self) -> AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]:
        """A connection of the pool, in autocommit."""
        return _Lent(self._pool, self.url)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection with a transaction around the block."""
        async with self.connection() as connection, connection.transaction():
            yield connection

    async def all(self, query: Query[T]) -> list[T]:
        """Every row of *query*."""
        async with self.connection() as connection:
            return await fetch(connection, query)

    async def first(self, query: Query[T]) -> T | None:
        """The first row of *query*, or None."""
        rows = await self.all(query)
        return rows[0] if rows else None

    async def now(self) -> datetime:
        """What time it is: the database's clock is the only one that counts."""
        async with self.connection() as connection:
            row = await (await connection.execute("select now()")).fetchone()
        assert row is not None
        return cast(datetime, row[0])

    async def persist(self, query: Query[T]) -> list[T]:
        """Every row of *query*, which can be repeated without harm: tried again until the database answers."""
        attempt = 0
        while True:
            try:
                return await self.all(query)
            except (*TRANSIENT, DatabaseUnreachable):
                attempt += 1
                await asyncio.sleep(jitter(attempt))


async def fetch(connection: psycopg.AsyncConnection[Any], query: Query[T]) -> list[T]:
    """Run *query* on *connection*, whatever rows and cursors its owner prefers."""
    cursor = connection.kept_cursor() if isinstance(connection, _Connection) else _cursor(connection)
    await cursor.execute(query.sql, query.params)
    rows = await cursor.fetchall()
    if len(rows) > 1 and isinstance(connection, _Connection):
        connection.forget_cursor()
    make = query.row
    return [make(*row) for row in rows]


def _cursor(connection: psycopg.AsyncConnection[Any]) -> psycopg.AsyncCursor[Any]:
    return psycopg.AsyncCursor(connection, row_factory=tuple_row)


class SyncDatabase:
    """The same, without await."""

    def __init__(self, url: str, settings: Settings, *, most: int = 10) -> None:
        self.url = checked(url)
        self.settings = settings
        self._pool: ConnectionPool[psycopg.Connection[Any]] = ConnectionPool(
            self.url,
            kwargs=connection_options(settings),
            min_size=1,
            max_size=most,
            open=False,
            timeout=settings.connect_timeout * 2,
            reconnect_timeout=0,
            check=_Probe().check_sync,
        )

    def open(self) -> None:
        """Connect once, so that a wrong address or an old server is told at the start."""
        try:
            with psycopg.connect(self.url, **connection_options(self.settings)) as connection:
                check_version(connection.info.server_version)
        except psycopg.Error as error:
            raise explain_connection(self.url, error) from None
        self._pool.open()

    def close(self) -> None:
        self._pool.close()

    @contextmanager
    def connection(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection of the pool, in autocommit."""
        try:
            connection = self._pool.getconn()
        except PoolTimeout as error:
            raise explain_connection(self.url, error) from None
        try:
            yield connection
        finally:
            self._pool.putconn(connection)

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection with a transaction around the block."""
        with self.connection() as connection, connection.transaction():
            yield connection

    def all(self, query: Query[T]) -> list[T]:
        """Every row of *query*."""
        with self.connection() as connection:
            return fetch_sync(connection, query)

    def now(self) -> datetime:
        """What time it is: the database's clock is the only one that counts."""
        with self.connection() as connection:
            row = connection.execute("select now()").fetchone()
        assert row is not None
        return cast(datetime, row[0])


def fetch_sync(connection: psycopg.Connection[Any], query: Query[T]) -> list[T]:
    """Run *query* on *connection*, whatever rows and cursors its owner prefers."""
    cursor = psycopg.Cursor(connection, row_factory=tuple_row)
    cursor.execute(query.sql, query.params)
    return [query.row(*row) for row in cursor.fetchall()]

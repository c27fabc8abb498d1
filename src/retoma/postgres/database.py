"""The database: one pool, a query in, rows out."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, TypeVar, cast
from weakref import WeakKeyDictionary, WeakSet

import psycopg
from psycopg.rows import tuple_row
from psycopg_pool import AsyncConnectionPool, ConnectionPool, PoolTimeout

from retoma.errors import DatabaseTooOld
from retoma.postgres.borrowing import BORROWER
from retoma.postgres.deadlines import GuardedConnection, GuardedSyncConnection
from retoma.postgres.faults import LOST, TRANSIENT, Outages, is_lost, jitter, note_ours, retrying
from retoma.postgres.url import checked, explain_connection
from retoma.store.query import Query, numbered
from retoma.system.settings import Settings

T = TypeVar("T")

OLDEST = 15

_IDLE_BEFORE_PROBE = 10.0  # seconds; as long as the kernel waits before it asks by itself
_FIRST_SECONDS = 1.0

__all__ = [
    "LOST", "TRANSIENT", "Database", "SyncDatabase", "check_version", "connection_options", "fetch", "fetch_sync",
    "is_lost", "jitter",
]  # fmt: skip


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


def check_version(version: int) -> None:
    """Refuse a server older than we can use; *version* as in server_version_num."""
    if version < OLDEST * 10_000:
        raise DatabaseTooOld(
            f"Retoma needs PostgreSQL {OLDEST} or newer, and this server is {version // 10_000}.",
            next="Upgrade the server, or unset DATABASE_URL to use the embedded one.",
        )


class _Connection(GuardedConnection):
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


class _Pool(AsyncConnectionPool[_Connection]):
    """Lends the connection that came back last: a caller who asks one thing after the other meets one warm server
    process, and connections that nobody needs rest until they are closed.
    """

    async def _get_ready_connection(self, timeout: float | None) -> _Connection | None:
        self._pool.rotate()
        return await super()._get_ready_connection(timeout)


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
            borrower = BORROWER.get()
            held = set() if borrower is None else borrower.held
            held.add(connection)
            try:
                await AsyncConnectionPool.check_connection(connection)
            finally:
                held.discard(connection)

    def check_sync(self, connection: psycopg.Connection[Any]) -> None:
        if self.doubts(connection):
            ConnectionPool.check_connection(connection)


class _Lent:
    """A connection while somebody has it. The pool's own context would commit what autocommit has committed."""

    __slots__ = ("_borrower", "_connection", "_pool", "_url")

    def __init__(self, pool: _Pool, url: str) -> None:
        self._pool = pool
        self._url = url

    async def __aenter__(self) -> psycopg.AsyncConnection[Any]:
        borrower = self._borrower = BORROWER.get()
        if borrower is not None:
            await borrower.enter()
        try:
            self._connection = await self._got()
        except BaseException as error:
            if borrower is not None:
                borrower.leave()
            if isinstance(error, PoolTimeout):
                raise explain_connection(self._url, error) from None
            raise
        if borrower is not None:
            borrower.held.add(self._connection)
        return self._connection

    async def _got(self) -> _Connection:
        """A connection of the pool. Before Python 3.12 its wait swallows a cancellation that comes at the moment in
        which there is one; whoever was cancelled is to hear of it all the same.
        """
        asking = asyncio.current_task()
        before = asking.cancelling() if asking else 0
        connection = await self._pool.getconn()
        if asking and asking.cancelling() > before:
            await self._pool.putconn(connection)
            raise asyncio.CancelledError
        return connection

    async def __aexit__(self, *_: object) -> None:
        borrower = self._borrower
        try:
            await self._pool.putconn(self._connection)
        finally:
            if borrower is not None:
                borrower.held.discard(self._connection)
                borrower.leave()


class Database:
    """Runs queries; connections come from one pool. A statement that is not answered within *deadline* seconds takes
    its connection along, and counts as lost with it; by default that is a little past what the server allows.
    """

    def __init__(
        self,
        url: str,
        settings: Settings,
        *,
        most: int = 10,
        least: int = 1,
        hot: bool = False,
        idle: float = 600.0,
        deadline: float | None = None,
    ) -> None:
        """Between *least* and *most* connections; one that nobody needed for *idle* seconds is closed."""
        self.url = checked(url)
        self.settings = settings
        self.outages = Outages()
        self._deadline = deadline or settings.statement_seconds + settings.answer_seconds
        self._pool = _Pool(
            self.url,
            connection_class=_Connection,
            kwargs=connection_options(settings, hot=hot),
            min_size=least,
            max_size=most,
            open=False,
            timeout=settings.connect_timeout * 2,
            max_idle=idle,
            reconnect_timeout=0,
            check=_Probe().check,
            configure=self._note,
        )
        self._least = least
        self._made: WeakSet[_Connection] = WeakSet()

    async def _note(self, connection: _Connection) -> None:
        connection.deadline = self._deadline
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

    async def persist(self, query: Query[T], *, doing: str = "asking") -> list[T]:
        """Every row of *query*, which can be repeated without harm: tried again until the database has done it. Only
        when its own data is at fault does that error come back. *doing* is what people are told meanwhile.
        """
        return await retrying(lambda: self.all(query), doing=doing, outages=self.outages)


async def connect(url: str, settings: Settings, *, hot: bool = False) -> GuardedConnection:
    """A connection that belongs to no pool."""
    return await _Connection.connect(url, **connection_options(settings, hot=hot))


async def fetch(connection: psycopg.AsyncConnection[Any], query: Query[T]) -> list[T]:
    """Run *query* on *connection*, whatever rows and cursors its owner prefers."""
    cursor = connection.kept_cursor() if isinstance(connection, _Connection) else _cursor(connection)
    # With its parameters numbered by us, and once: the driver would look for their names in every long text anew.
    text, names = numbered(query.sql)
    try:
        await cursor.execute(text, [query.params[name] for name in names])
    except psycopg.Error as error:
        if isinstance(connection, _Connection):
            note_ours(error)
        raise
    rows = await cursor.fetchall()
    if len(rows) > 1 and isinstance(connection, _Connection):
        connection.forget_cursor()
    make = query.row
    return [make(*row) for row in rows]


def _cursor(connection: psycopg.AsyncConnection[Any]) -> psycopg.AsyncCursor[Any]:
    return psycopg.AsyncRawCursor(connection, row_factory=tuple_row)


class SyncDatabase:
    """The same, without await."""

    def __init__(self, url: str, settings: Settings, *, most: int = 10, deadline: float | None = None) -> None:
        self.url = checked(url)
        self.settings = settings
        self._deadline = deadline or settings.statement_seconds + settings.answer_seconds
        self._pool: ConnectionPool[GuardedSyncConnection] = ConnectionPool(
            self.url,
            connection_class=GuardedSyncConnection,
            kwargs=connection_options(settings),
            min_size=1,
            max_size=most,
            open=False,
            timeout=settings.connect_timeout * 2,
            reconnect_timeout=0,
            check=_Probe().check_sync,
            configure=self._note,
        )

    def _note(self, connection: GuardedSyncConnection) -> None:
        connection.deadline = self._deadline

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
    try:
        cursor.execute(query.sql, query.params)
    except psycopg.Error as error:
        if isinstance(connection, GuardedSyncConnection):
            note_ours(error)
        raise
    return [query.row(*row) for row in cursor.fetchall()]

"""The database: a connection pool that takes queries and returns rows."""

from __future__ import annotations

import asyncio
import select
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager
from datetime import datetime
from typing import Any, NamedTuple, TypeVar, cast
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
from retoma.telemetry import emit
from retoma.telemetry.events import PoolWaited

T = TypeVar("T")

OLDEST = 15

_IDLE_BEFORE_PROBE = 10.0  # seconds; as long as the kernel's keepalive waits before it probes
_FIRST_SECONDS = 1.0
_LONG_WAIT = 0.001  # seconds; a shorter wait for a connection is none

__all__ = [
    "LOST", "TRANSIENT", "Database", "SyncDatabase", "check_version", "connection_options", "fetch", "fetch_sync",
    "is_lost", "jitter",
]  # fmt: skip


# A worker's statements are short index scans. A plan made while the tables were empty would use sequential scans, and
# would be kept when they are full. So the planner of a worker's own connections may not use those.
_HOT = "-c enable_seqscan=off -c enable_hashjoin=off -c enable_mergejoin=off -c enable_bitmapscan=off -c jit=off"
_HOT += " -c plan_cache_mode=force_generic_plan"


def connection_options(settings: Settings, *, hot: bool = False) -> dict[str, Any]:
    """The options of every connection of ours, with time limits for everything."""
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
    """Refuse a server older than the minimum; *version* as in server_version_num."""
    if version < OLDEST * 10_000:
        raise DatabaseTooOld(
            f"Retoma needs PostgreSQL {OLDEST} or newer, and this server is {version // 10_000}.",
            next="Upgrade the server, or unset DATABASE_URL to use the embedded one.",
        )


class _Connection(GuardedConnection):
    """A connection of ours. It keeps its cursor, because a new cursor would adapt the parameters
    of every statement anew.
    """

    _kept: psycopg.AsyncCursor[Any] | None = None

    def kept_cursor(self) -> psycopg.AsyncCursor[Any]:
        """A cursor that is safe to share: execute and fetch run without an await in between. In pipeline mode they do
        not, so each call gets a fresh cursor there.
        """
        if self.pgconn.pipeline_status:
            return _cursor(self)
        if self._kept is None:
            self._kept = _cursor(self)
        return self._kept

    def forget_cursor(self) -> None:
        """Drop the cursor: it keeps its rows until the next execute, which may be much later."""
        self._kept = None


class _Pool(AsyncConnectionPool[_Connection]):
    """Gives out the connection that was returned last: sequential callers use one warm server process, and unused
    connections stay idle until they are closed.
    """

    async def _get_ready_connection(self, timeout: float | None) -> _Connection | None:
        self._pool.rotate()
        return await super()._get_ready_connection(timeout)


class _Probe:
    """Checks a connection before it is given out. The socket of a connection that the server has closed is
    readable, and checking that costs no round trip. A connection that was idle for long is also queried, because a
    network can fail silently.
    """

    def __init__(self) -> None:
        self._used: WeakKeyDictionary[object, float] = WeakKeyDictionary()

    def doubts(self, connection: psycopg.AsyncConnection[Any] | psycopg.Connection[Any]) -> bool:
        now = time.monotonic()
        before = self._used.get(connection, now)
        self._used[connection] = now
        if now - before > _IDLE_BEFORE_PROBE or connection.closed:
            return True
        looking = select.poll()  # not select(), which fails for descriptors above 1,023
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
    """A connection while it is borrowed. The pool's own context manager would send a commit
    although autocommit is on.
    """

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
        """A connection from the pool. Before Python 3.12 the pool's wait swallows a cancellation that arrives together
        with the connection, so it is raised again here.
        """
        asking = asyncio.current_task()
        before = asking.cancelling() if asking else 0
        began = time.monotonic()
        given = False
        try:
            connection = await self._pool.getconn()
            given = True
        finally:
            if (waited := time.monotonic() - began) > _LONG_WAIT:
                emit(PoolWaited(seconds=waited, given=given))
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


class PoolUse(NamedTuple):
    """How busy a pool is: connections that are open, idle and allowed, and callers that wait for one."""

    open: int
    idle: int
    most: int
    waiting: int

    @property
    def busy(self) -> int:
        """Connections that are open and in use."""
        return max(0, self.open - self.idle)


class Database:
    """Runs queries on connections from one pool. A statement without an answer within *deadline* seconds loses its
    connection, and its outcome counts as unknown. The default is a little longer than the server's own time-out.
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
        """Keeps between *least* and *most* connections; one that was idle for *idle* seconds is closed."""
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

    async def open(self, *, known: bool = False) -> None:
        """Connect once, so that a wrong URL or an old server fails at the start, unless the server is *known* to be
        there and new enough.
        """
        if not known:
            await self._look()
        await self._pool.open()
        # A caller that arrives before the first connection is ready makes the pool grow, and later calls alternate
        # between the two. (The pool's own wait would close the pool for good after its time-out.)
        until = time.monotonic() + _FIRST_SECONDS
        while self._least and not self._pool.get_stats()["pool_available"] and time.monotonic() < until:
            await asyncio.sleep(0.002)

    async def _look(self) -> None:
        try:
            connection = await psycopg.AsyncConnection.connect(self.url, **connection_options(self.settings))
        except psycopg.Error as error:
            raise explain_connection(self.url, error) from None
        async with connection:
            check_version(connection.info.server_version)

    async def close(self) -> None:
        try:
            await self._pool.close()
        except asyncio.CancelledError:
            # A closing event loop also cancels the pool's own tasks, and the pool then leaves its connections open.
            for connection in list(self._made):
                await connection.close()
            raise

    def use(self) -> PoolUse:
        """How many connections are open, and how many callers wait for one."""
        stats = self._pool.get_stats()
        return PoolUse(stats["pool_size"], stats["pool_available"], stats["pool_max"], stats.get("requests_waiting", 0))

    def connection(self) -> AbstractAsyncContextManager[psycopg.AsyncConnection[Any]]:
        """A connection from the pool, in autocommit."""
        return _Lent(self._pool, self.url)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection in a transaction for the block."""
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
        """The current time by the database's clock, which is the only one that counts."""
        async with self.connection() as connection:
            row = await (await connection.execute("select now()")).fetchone()
        assert row is not None
        return cast(datetime, row[0])

    async def persist(self, query: Query[T], *, doing: str = "asking") -> list[T]:
        """The rows of an idempotent *query*, retried until the database has executed it. Only an error caused by its
        own data is raised. *doing* is what people are told meanwhile.
        """
        return await retrying(lambda: self.all(query), doing=doing, outages=self.outages)


async def connect(url: str, settings: Settings, *, hot: bool = False) -> GuardedConnection:
    """A connection outside the pool."""
    return await _Connection.connect(url, **connection_options(settings, hot=hot))


async def fetch(connection: psycopg.AsyncConnection[Any], query: Query[T]) -> list[T]:
    """Run *query* on *connection*, whatever row and cursor factories its owner uses."""
    cursor = connection.kept_cursor() if isinstance(connection, _Connection) else _cursor(connection)
    # We number the parameters once; the driver would search for their names in the long text every time.
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
        """Connect once, so that a wrong URL or an old server fails at the start."""
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
        """A connection from the pool, in autocommit."""
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
        """A connection in a transaction for the block."""
        with self.connection() as connection, connection.transaction():
            yield connection

    def all(self, query: Query[T]) -> list[T]:
        """Every row of *query*."""
        with self.connection() as connection:
            return fetch_sync(connection, query)

    def now(self) -> datetime:
        """The current time by the database's clock, which is the only one that counts."""
        with self.connection() as connection:
            row = connection.execute("select now()").fetchone()
        assert row is not None
        return cast(datetime, row[0])


def fetch_sync(connection: psycopg.Connection[Any], query: Query[T]) -> list[T]:
    """Run *query* on *connection*, whatever row and cursor factories its owner uses."""
    cursor = psycopg.Cursor(connection, row_factory=tuple_row)
    try:
        cursor.execute(query.sql, query.params)
    except psycopg.Error as error:
        if isinstance(connection, GuardedSyncConnection):
            note_ours(error)
        raise
    return [query.row(*row) for row in cursor.fetchall()]

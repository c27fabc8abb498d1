"""A dedicated connection: no other statement delays it, it is watched while idle, and it reconnects when lost."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import psycopg

from retoma.postgres.database import connect, fetch
from retoma.postgres.deadlines import GuardedConnection
from retoma.postgres.faults import retrying
from retoma.postgres.url import explain_connection
from retoma.store.query import Query
from retoma.system.settings import Settings

T = TypeVar("T")

_LATE = 5.0  # seconds past the statement timeout after which an answer is given up
_LONGEST_PAUSE = 0.5  # seconds between two attempts to connect


class Line:
    """One connection that reconnects by itself. When a statement has no answer *within* that many seconds, the
    connection is closed and opened again.

    With *hint*, every session holds that advisory lock in shared mode: by it others see that the process is connected.
    With *channel*, it listens there, and *heard* is called with each payload. *made* is called for every new
    connection, and *lost* when one is lost. Behind a transaction pooler there is neither lock nor listening.
    """

    def __init__(
        self,
        url: str,
        settings: Settings,
        *,
        hot: bool = False,
        within: float | None = None,
        hint: int | None = None,
        channel: str | None = None,
        heard: Callable[[str], None] = lambda _: None,
        made: Callable[[], None] = lambda: None,
        lost: Callable[[], None] = lambda: None,
    ) -> None:
        pooled = settings.pooler == "transaction"
        self._url = url
        self._settings = settings
        self._hot = hot
        self._within = settings.statement_seconds + _LATE if within is None else within
        self._hint = None if pooled else hint
        self._channel = None if pooled else channel
        self._heard = heard
        self._made = made
        self._lost = lost
        self._turn = asyncio.Lock()
        self._absent = asyncio.Event()
        self._connection: GuardedConnection | None = None
        self._watched: int | None = None

    async def all(self, query: Query[T]) -> list[T]:
        """Every row of *query*."""
        async with self._turn:
            connection = await self._ready()
            self._unwatch()
            try:
                return await fetch(connection, query)
            finally:
                self._watch(connection)

    async def ready(self) -> None:
        """Connect, so that an unreachable database fails at the start."""
        async with self._turn:
            await self._ready()

    async def keep(self) -> None:
        """Keep a connection open, whether or not there are queries; runs forever."""
        while True:
            await retrying(self.ready, longest=_LONGEST_PAUSE)
            await self._absent.wait()

    async def close(self) -> None:
        """Close the connection; that releases its lock."""
        self.drop()

    def drop(self) -> None:
        """The same for a caller that cannot await."""
        self._unwatch()
        if self._connection is not None:
            self._connection.pgconn.finish()
            self._connection = None

    async def _ready(self) -> GuardedConnection:
        if self._connection is None or self._connection.closed:
            self._unwatch()
            self._connection = None
            self._connection = await self._connect()
            self._absent.clear()
            self._watch(self._connection)
            self._made()
        return self._connection

    async def _connect(self) -> GuardedConnection:
        try:
            connection = await connect(self._url, self._settings, hot=self._hot)
        except psycopg.Error as error:
            raise explain_connection(self._url, error) from None
        connection.deadline = self._settings.connect_timeout
        try:
            if self._hint is not None:
                await connection.execute("select pg_advisory_lock_shared(%s::bigint)", (self._hint,))
            if self._channel is not None:
                connection.add_notify_handler(lambda note: self._heard(note.payload))
                await connection.execute(f"listen {self._channel}")
        except BaseException:
            await connection.close()
            raise
        connection.deadline = self._within
        return connection

    # While the connection is idle, the event loop watches its socket. During a statement the driver does so itself, and
    # only one of them can.

    def _watch(self, connection: GuardedConnection) -> None:
        if connection.closed:
            self._has_gone()
        else:
            self._watched = connection.fileno()
            asyncio.get_running_loop().add_reader(self._watched, self._read)

    def _unwatch(self) -> None:
        if self._watched is not None:
            asyncio.get_running_loop().remove_reader(self._watched)
            self._watched = None

    def _read(self) -> None:
        connection = self._connection
        assert connection is not None
        try:
            connection.pgconn.consume_input()
            while note := connection.pgconn.notifies():
                self._heard(note.extra.decode(errors="replace"))
        except psycopg.Error:
            self._unwatch()
            connection.pgconn.finish()
            self._has_gone()

    def _has_gone(self) -> None:
        self._absent.set()
        self._lost()

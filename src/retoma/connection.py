"""Connections of our own and the pool that lends them: the driver's, with less to do around each short query."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from collections.abc import Coroutine, Generator
from typing import Any, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.pq import TransactionStatus
from psycopg.rows import tuple_row
from psycopg.waiting import Ready, Wait
from psycopg_pool import AsyncConnectionPool

T = TypeVar("T")

IDLE_BEFORE_PROBE = 1.0
"""Seconds after which a connection that rested is asked whether it still lives, before it is given out."""
_WARM_SECONDS = 60.0


class Connection(psycopg.AsyncConnection[Any]):
    """The driver begins and ends to watch its socket for each query, and learns the types of each answer anew: a third
    of what a short query costs its program. Here the socket is watched from the first query on, and a query that is
    asked often has a cursor that is kept.
    """

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.lent_at = self.used_at = time.monotonic()
        self.suspect = False
        self._cursors: dict[str, psycopg.AsyncCursor[tuple[Any, ...]]] = {}
        self._eye: socket.socket | None = None
        self._talk: PQGen[Any] | None = None
        self._answer: asyncio.Future[tuple[int | None, Any]] | None = None

    def cursor_for(self, sql: str) -> psycopg.AsyncCursor[tuple[Any, ...]]:
        """The kept cursor of a query; the last answer stays in it."""
        if sql not in self._cursors:
            self._cursors[sql] = psycopg.AsyncCursor(self, row_factory=tuple_row)
        return self._cursors[sql]

    async def close(self) -> None:
        self._close_eye()
        await super().close()

    async def wait(self, gen: PQGen[T], *args: Any, **options: Any) -> T:
        """As the driver's; whoever says for how long, or listens, is left to it."""
        if args or options:
            return await super().wait(gen, *args, **options)
        state: int | None
        try:
            state = next(gen)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]
        if state == Wait.R:
            state, value = await self._read(gen)
            if state is None:
                return value  # type: ignore[no-any-return]
        return await super().wait(_going_on(gen, state))

    async def _read(self, gen: PQGen[Any]) -> tuple[int | None, Any]:
        """What *gen* gives in the end, or for what else than reading it has to wait."""
        loop = asyncio.get_running_loop()
        if self._eye is None:
            # A copy of the socket: the driver closes its own when it likes, and a loop must not watch what is closed.
            self._eye = socket.socket(fileno=os.dup(self.pgconn.socket))
            loop.add_reader(self._eye, self._look)
        self._talk, self._answer = gen, loop.create_future()
        try:
            return await self._answer
        except asyncio.CancelledError:
            if self._talk is not None:
                self._talk = None
                self._close_eye()
                await _call_off(super().wait(_going_on(gen, Wait.R)))
            raise
        finally:
            self._answer = None

    def _look(self) -> None:
        if self._eye is None or self._talk is None or self._answer is None or self._answer.done():
            # Nobody asked, or whoever did calls it off. What a server says by itself is mostly farewell.
            self.suspect = True
            self._close_eye()
            return
        try:
            state = self._talk.send(Ready.R)
        except StopIteration as done:
            self._answer.set_result((None, done.value))
        except Exception as error:  # noqa: BLE001 - it belongs to whoever waits
            self._answer.set_exception(error)
            self._close_eye()  # this may have been the end of the connection, and nobody closes a broken one
        else:
            if state == Wait.R:
                # There is more to come. Anew, because uvloop tells only once of a socket that is in trouble.
                loop = asyncio.get_running_loop()
                loop.remove_reader(self._eye)
                loop.add_reader(self._eye, self._look)
                return
            self._answer.set_result((state, None))
        self._talk = None

    def _close_eye(self) -> None:
        if self._eye is not None:
            asyncio.get_running_loop().remove_reader(self._eye)
            self._eye.close()
            self._eye = None


class Pool(AsyncConnectionPool[Connection]):
    """The connection that came back last goes out first, past the books of the pool: whoever asks one thing after the
    other always has the same, and the server finds its plans and pages warm. Now and then it is entered in the books,
    so that none grows too old.
    """

    def __init__(self, url: str, **options: Any) -> None:
        super().__init__(url, connection_class=Connection, open=False, check=self._probe, **options)
        self._warm: Connection | None = None
        self._asking = 0

    async def getconn(self, timeout: float | None = None) -> Connection:
        warm, self._warm = self._warm, None
        if warm is not None:
            if time.monotonic() - warm.used_at < IDLE_BEFORE_PROBE and not warm.suspect:
                return warm
            await super().putconn(warm)
        self._asking += 1
        try:
            connection = await super().getconn(timeout)
        finally:
            self._asking -= 1
        connection.lent_at = time.monotonic()
        return connection

    async def putconn(self, conn: Connection) -> None:
        conn.used_at = time.monotonic()
        fit = conn.pgconn.transaction_status == TransactionStatus.IDLE and conn.used_at - conn.lent_at < _WARM_SECONDS
        if fit and self._warm is None and not self._asking and not self.closed:
            self._warm = conn
        else:
            await super().putconn(conn)

    async def close(self, timeout: float = 5.0) -> None:
        warm, self._warm = self._warm, None
        if warm is not None:
            await super().putconn(warm)
        await super().close(timeout)

    async def _probe(self, connection: Connection) -> None:
        if connection.suspect or time.monotonic() - connection.used_at > IDLE_BEFORE_PROBE:
            connection.suspect = False
            await self.check_connection(connection)


def _going_on(gen: PQGen[T], state: Any) -> Generator[Any, Any, T]:
    """*gen* for somebody who has not seen yet that it waits for *state*."""
    while True:
        ready = yield state
        try:
            state = gen.send(ready)
        except StopIteration as done:
            return done.value  # type: ignore[no-any-return]


async def _call_off(waiting: Coroutine[Any, Any, Any]) -> None:
    """Let the driver do what it does when its own waiting is called off: tell the server, and take its last word."""
    task = asyncio.ensure_future(waiting)
    try:
        await asyncio.sleep(0)  # what has not begun would end without that
    finally:
        task.cancel()
    await asyncio.gather(task, return_exceptions=True)

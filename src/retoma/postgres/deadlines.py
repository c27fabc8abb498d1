"""Deadlines for statements: a connection whose server does not answer in time is given up."""

from __future__ import annotations

import select
import socket
import threading
import time
from contextlib import suppress
from typing import Any, Protocol

import psycopg

from retoma.postgres.faults import StatementHung, is_sick, note_ours

_LOOK = 0.5  # seconds between two checks of all connections of this process
_MORE = 5.0  # extra seconds when unread data is waiting: the server answers, and this process is slow


class BusyConnection(Protocol):
    """A connection with a statement in progress."""

    @property
    def pgconn(self) -> psycopg.pq.abc.PGconn: ...


class Deadlines:
    """One thread checks every statement in progress. A timer per statement would cost more, and a blocked event loop
    could not tell a silent server from its own delay.
    """

    def __init__(self) -> None:
        self._under_way: dict[int, tuple[float, BusyConnection]] = {}
        self._given_up: set[int] = set()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def begin(self, connection: BusyConnection, seconds: float) -> None:
        """Give up *connection* unless *end* is called for it within that many *seconds*."""
        self._under_way[id(connection)] = (time.monotonic() + seconds, connection)
        if self._thread is None or not self._thread.is_alive():  # the first call, or a forked process
            self._start()

    def end(self, connection: BusyConnection) -> None:
        """The statement has ended, with an answer or an error."""
        if self._under_way.pop(id(connection), None) is None:
            with self._lock:  # its socket is being shut down, and its number may be reused a moment later
                self._given_up.discard(id(connection))

    def explained(self, connection: BusyConnection, error: psycopg.Error, seconds: float) -> psycopg.Error:
        """The error to raise for an *error* between begin and end."""
        if id(connection) in self._given_up:
            error = StatementHung(f"The server did not answer within {seconds:g} s; the connection was given up.")
        if is_sick(error):  # an error in a handler's own statement, even on our connection, is the handler's fault
            note_ours(error)
        return error

    def _start(self) -> None:
        self._thread = threading.Thread(target=self._watch, name="deadlines", daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while True:
            time.sleep(_LOOK)
            now = time.monotonic()
            for key, (until, _) in list(self._under_way.items()):
                if now > until:
                    self._late(key, now)

    def _late(self, key: int, now: float) -> None:
        with self._lock, suppress(psycopg.Error, OSError):  # it was closed meanwhile
            # The pop decides the race: after it, the statement's own *end* waits for this thread; without
            # it, we leave it alone.
            _, connection = self._under_way.pop(key, (now, None))
            if connection is None:
                return
            if _has_come(connection.pgconn.socket):
                self._under_way[key] = (now + _MORE, connection)
                return
            self._given_up.add(key)
            _shut(connection)

    def give_up(self, connection: BusyConnection) -> None:
        """Give up *connection* at once, whatever it does: the time of its borrower is over."""
        with self._lock, suppress(psycopg.Error, OSError):
            if self._under_way.pop(id(connection), None) is not None:
                self._given_up.add(id(connection))
            _shut(connection)


def _shut(connection: BusyConnection) -> None:
    """Shut the socket down: the reader sees an end of file at once and finds the connection broken, without
    waiting for the server.
    """
    one = socket.socket(fileno=connection.pgconn.socket)
    try:
        one.shutdown(socket.SHUT_RDWR)
    finally:
        one.detach()


def _has_come(number: int) -> bool:
    looking = select.poll()
    looking.register(number, select.POLLIN)
    return bool(looking.poll(0))


DEADLINES = Deadlines()


class GuardedConnection(psycopg.AsyncConnection[Any]):
    """Waits at most *deadline* seconds for an answer; None waits without limit."""

    deadline: float | None = None

    async def wait(self, *args: Any, **kwargs: Any) -> Any:
        if (deadline := self.deadline) is None:
            return await super().wait(*args, **kwargs)
        DEADLINES.begin(self, deadline)
        try:
            return await super().wait(*args, **kwargs)
        except psycopg.Error as error:
            raise DEADLINES.explained(self, error, deadline) from error.__cause__
        finally:
            DEADLINES.end(self)


class GuardedSyncConnection(psycopg.Connection[Any]):
    """The same, without await."""

    deadline: float | None = None

    def wait(self, *args: Any, **kwargs: Any) -> Any:
        if (deadline := self.deadline) is None:
            return super().wait(*args, **kwargs)
        DEADLINES.begin(self, deadline)
        try:
            return super().wait(*args, **kwargs)
        except psycopg.Error as error:
            raise DEADLINES.explained(self, error, deadline) from error.__cause__
        finally:
            DEADLINES.end(self)

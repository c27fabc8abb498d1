"""Runs commands on the open database of an app without ``await``, or on a connection of the caller's own."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TypeVar

import psycopg

from retoma.commands import operation_runner
from retoma.errors import DatabaseError
from retoma.model.batch import Operation
from retoma.postgres import notify
from retoma.postgres.connections import run_on_sync, run_whole_on_sync
from retoma.postgres.database import SyncDatabase
from retoma.store.query import Command, Query
from retoma.system.settings import Settings

T = TypeVar("T")


class Runner:
    """What the namespaces of an app share."""

    def __init__(self, database: Callable[[], SyncDatabase], settings: Settings) -> None:
        self._database = database
        self.settings = settings

    def ask(self, command: Command[T], conn: object = None) -> T:
        """The result of *command*; each query commits by itself, or all run in the transaction of *conn*."""
        if conn is not None:
            return run_on_sync(conn, command)
        with self._database().connection() as connection:
            return run_on_sync(connection, command)

    def transact(self, command: Command[T], conn: object = None) -> T:
        """The same in one transaction."""
        if conn is not None:
            return run_whole_on_sync(conn, command)
        with self._database().transaction() as connection:
            return run_on_sync(connection, command)

    def rehearse(self, command: Command[T], then: Callable[[T], Command[object]]) -> list[float]:
        """After how many seconds *command* was done, and what comes *then* with its result, in a transaction that is
        rolled back; what the database refuses is not there.
        """
        began, done = time.monotonic(), list[float]()
        with (
            suppress(psycopg.Error, DatabaseError),
            self._database().connection() as connection,
            connection.transaction(force_rollback=True),
        ):
            found = run_on_sync(connection, command)
            done.append(time.monotonic() - began)
            run_on_sync(connection, then(found))
            done.append(time.monotonic() - began)
        return done

    def fetch(self, query: Query[T]) -> list[T]:
        """The rows of *query*."""
        return self._database().all(query)

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def echo(self) -> float | None:
        """How many seconds a notification takes to come back."""
        return notify.echo(self._database().url, self.settings)

    def carry_out(self, operation: int) -> Iterator[Operation]:
        """Carry out an operation on a large batch, piece by piece."""
        yield from operation_runner.carry_out_sync(self._database(), operation)

    def carry_later(self, operation: int | None) -> None:
        """Workers and servers carry it out in the background."""

    def carry_on(self) -> None:
        """Workers and servers continue unfinished operations."""

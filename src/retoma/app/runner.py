"""Runs commands on the open database of an app, or on a connection of the caller's own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import TypeVar

import psycopg

from retoma.commands import operation_runner
from retoma.errors import DatabaseError
from retoma.model.batch import Operation
from retoma.postgres import notify
from retoma.postgres.connections import run_on, run_whole_on
from retoma.postgres.database import Database
from retoma.store.query import Command, Query
from retoma.system.concurrency import cancel_and_wait
from retoma.system.settings import Settings

T = TypeVar("T")


class Runner:
    """What the namespaces of an app share."""

    def __init__(self, database: Callable[[], Database], settings: Settings) -> None:
        self._database = database
        self.settings = settings
        self._carriers: set[asyncio.Task[None]] = set()

    async def ask(self, command: Command[T], conn: object = None) -> T:
        """The result of *command*; each query commits by itself, or all run in the transaction of *conn*."""
        if conn is not None:
            return await run_on(conn, command)
        async with self._database().connection() as connection:
            return await run_on(connection, command)

    async def transact(self, command: Command[T], conn: object = None) -> T:
        """The same in one transaction."""
        if conn is not None:
            return await run_whole_on(conn, command)
        async with self._database().transaction() as connection:
            return await run_on(connection, command)

    async def rehearse(self, command: Command[T], then: Callable[[T], Command[object]]) -> list[float]:
        """After how many seconds *command* was done, and what comes *then* with its result, in a transaction that is
        rolled back; what the database refuses is not there.
        """
        began, done = time.monotonic(), list[float]()
        with suppress(psycopg.Error, DatabaseError):
            async with self._database().connection() as connection, connection.transaction(force_rollback=True):
                found = await run_on(connection, command)
                done.append(time.monotonic() - began)
                await run_on(connection, then(found))
                done.append(time.monotonic() - began)
        return done

    async def fetch(self, query: Query[T]) -> list[T]:
        """The rows of *query*."""
        return await self._database().all(query)

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def echo(self) -> float | None:
        """How many seconds a notification takes to come back."""
        return await asyncio.to_thread(notify.echo, self._database().url, self.settings)

    async def carry_out(self, operation: int) -> AsyncIterator[Operation]:
        """Carry out an operation on a large batch, piece by piece."""
        async for now in operation_runner.carry_out(self._database(), operation):
            yield now

    def carry_later(self, operation: int | None) -> None:
        """The same in the background."""
        if operation is not None:
            task = asyncio.create_task(operation_runner.carry_out_later(self._database(), operation))
            self._carriers.add(task)
            task.add_done_callback(self._carriers.discard)

    async def carry_on(self) -> None:
        """Continue operations that other processes have left unfinished."""
        await operation_runner.carry_on(self._database())

    async def close(self) -> None:
        """Stop the background work; workers continue it."""
        await cancel_and_wait(*self._carriers)

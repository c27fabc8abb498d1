"""Carries out operations, one bounded transaction after another."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import suppress

from retoma.commands import operations as operation_commands
from retoma.errors import NotFound
from retoma.model.batch import Operation
from retoma.postgres.connections import run_on, run_on_sync
from retoma.postgres.database import Database, SyncDatabase
from retoma.postgres.faults import UNAVAILABLE
from retoma.store import operations

_REST = 0.1
_LONGEST_REST = 2.0
_LOOKS = 10


async def carry_out(database: Database, id: int) -> AsyncIterator[Operation]:
    """The operation after each piece, until it is finished. Other processes may carry out the
    same operation in turn.
    """
    rest = _REST
    while True:
        async with database.transaction() as connection:
            did = await run_on(connection, operation_commands.piece(id))
            now = await run_on(connection, operation_commands.one(id))
        yield now
        if now.finished:
            return
        if did:
            rest = _REST
        else:  # another transaction has locked the batch or some of its jobs
            await asyncio.sleep(rest)
            rest = min(2 * rest, _LONGEST_REST)


async def carry_out_later(database: Database, id: int) -> None:
    """The same in the background. When something blocks it, the workers do the rest. The operation
    may not be committed yet.
    """
    for _ in range(_LOOKS):
        with suppress(*UNAVAILABLE, NotFound):
            async for _now in carry_out(database, id):
                pass
            return
        await asyncio.sleep(_LONGEST_REST)


async def carry_on(database: Database, *, seconds: float = 20.0) -> None:
    """Continue operations that their callers have left unfinished, for a bounded time: one piece of each in turn."""
    until = time.monotonic() + seconds
    did = True
    while did and time.monotonic() < until:
        did = False
        for id in await database.all(operations.open()):
            async with database.transaction() as connection:
                did = await run_on(connection, operation_commands.piece(id)) or did


def carry_out_sync(database: SyncDatabase, id: int) -> Iterator[Operation]:
    """As carry_out, without await."""
    rest = _REST
    while True:
        with database.transaction() as connection:
            did = run_on_sync(connection, operation_commands.piece(id))
            now = run_on_sync(connection, operation_commands.one(id))
        yield now
        if now.finished:
            return
        if did:
            rest = _REST
        else:
            time.sleep(rest)
            rest = min(2 * rest, _LONGEST_REST)

"""Group commits: what many handlers want to write goes to the database in one statement."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar

T = TypeVar("T")


async def see_through(future: asyncio.Future[T]) -> T:
    """What *future* gives. Who is cancelled meanwhile still waits until it is done, and is cancelled then: for work
    that cannot be stopped, or that would be lost.
    """
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # nobody else will ask for it
        raise


class GroupCommit(Generic[T]):
    """While one statement is on its way the next ones gather, so the batch grows with the load and nobody waits
    when there is none. *write* gets at most *most* at a time and must not fail for lack of a database.
    """

    def __init__(self, write: Callable[[list[T]], Awaitable[None]], *, most: int = 500) -> None:
        self._write = write
        self._most = most
        self._waiting: list[T] = []
        self._busy: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def put(self, each: T) -> None:
        """Have *each* written with the next statement."""
        self._waiting.append(each)
        if self._busy is None:
            self._busy = asyncio.get_running_loop().create_task(self._flush())

    async def _flush(self) -> None:
        # One turn of the loop first: those who are ready at this very moment come along.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                batch, self._waiting = self._waiting[: self._most], self._waiting[self._most :]
                await self._write(batch)
        finally:
            self._busy = None

    async def idle(self) -> None:
        """Come back when everything has been written."""
        while self._busy is not None:
            await asyncio.wait([self._busy])

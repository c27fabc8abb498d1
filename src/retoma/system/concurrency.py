"""Group commits: what many handlers want to write goes to the database in one statement."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

T = TypeVar("T")
R = TypeVar("R")


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


async def called_off(*running: asyncio.Task[Any]) -> None:
    """Call *running* off and come back when they have ended, however they did. They are told again and again: before
    Python 3.12 a wait with a time limit, as the pool's for a connection, loses the word when it ends at that moment.
    """
    left = set(running)
    while left:
        for each in left:
            each.cancel()
        _, left = await asyncio.wait(left, timeout=0.5)
    await asyncio.gather(*running, return_exceptions=True)  # nobody else asks what they ended with


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


class Together(Generic[T, R]):
    """What many want at the same moment is done for all of them at once, and each gets its own result. *do* gets at
    most *most* at a time and gives their results in the same order; when it fails, it fails for all of them.
    """

    def __init__(self, do: Callable[[list[T]], Awaitable[Sequence[R]]], *, most: int = 100) -> None:
        self._do = do
        self._wanted: GroupCommit[tuple[T, asyncio.Future[R]]] = GroupCommit(self._done, most=most)

    async def __call__(self, each: T) -> R:
        """What became of *each*; who goes away meanwhile does not keep it from being done."""
        result: asyncio.Future[R] = asyncio.get_running_loop().create_future()
        self._wanted.put((each, result))
        return await result

    async def _done(self, batch: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._do([each for each, _ in batch])
        except Exception as error:  # noqa: BLE001 - told to everybody who waits
            for _, waiting in batch:
                if not waiting.done():
                    waiting.set_exception(error)
            return
        for (_, waiting), result in zip(batch, results, strict=True):
            if not waiting.done():
                waiting.set_result(result)

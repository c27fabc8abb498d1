"""Helpers for tasks: finish before a cancellation, cancel and wait, coalesce concurrent calls."""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, Generic, TypeVar

from retoma.system.marks import unmarked

T = TypeVar("T")
R = TypeVar("R")


async def finish_before_cancel(future: asyncio.Future[T]) -> T:
    """The result of *future*. If the awaiting task is cancelled, wait for the future to finish first, then re-raise the
    cancellation. For work that cannot be stopped, or that would be lost.
    """
    try:
        return await asyncio.shield(future)
    except asyncio.CancelledError:
        while not future.done():
            with contextlib.suppress(asyncio.CancelledError):
                await asyncio.wait([future])
        if not future.cancelled():
            future.exception()  # mark the exception as retrieved
        raise


async def wait_for_leader(leader: asyncio.Task[Any], *others: asyncio.Task[Any]) -> None:
    """Return when *leader* is done. When one of *others* fails before, raise its error, so that
    no task dies unnoticed.
    """
    pending = {leader, *others}
    while not leader.done():
        done, pending = await asyncio.wait(pending, return_when=asyncio.FIRST_COMPLETED)
        for each in done:
            each.result()
    leader.result()


async def cancel_and_wait(*running: asyncio.Task[Any]) -> None:
    """Cancel *running* and return when all have ended, however they did. The cancellation is sent again and
    again: before Python 3.12, a wait with a time-out, such as the pool's for a connection, can swallow it when
    it ends at that moment.
    """
    left = set(running)
    while left:
        for each in left:
            each.cancel()
        _, left = await asyncio.wait(left, timeout=0.5)
    await asyncio.gather(*running, return_exceptions=True)  # mark their exceptions as retrieved


class Few:
    """Lets *most* in at once. Who finds it full waits for a place, but no longer than *patience* seconds, and then goes
    in beside the others: it spares what each costs, and never stands in the way.
    """

    def __init__(self, most: int, *, patience: float) -> None:
        self._places = asyncio.Semaphore(most)
        self._patience = patience

    @contextlib.asynccontextmanager
    async def inside(self) -> AsyncIterator[None]:
        """A place for as long as the block lasts."""
        held = False
        with contextlib.suppress(TimeoutError):
            if not self._places.locked():
                held = await self._places.acquire()
            else:
                async with asyncio.timeout(self._patience):
                    held = await self._places.acquire()
        try:
            yield
        finally:
            if held:
                self._places.release()


class Coalescer(Generic[T, R]):
    """Concurrent calls share one call of *do*, and each caller gets its own result.

    *do* gets at most *most* items at a time and returns their results in the same order; when it fails, it fails for
    all of them. While one call of *do* is in progress, the next callers gather.
    """

    def __init__(self, do: Callable[[list[T]], Awaitable[Sequence[R]]], *, most: int = 100) -> None:
        self._do = do
        self._most = most
        self._waiting: deque[tuple[T, asyncio.Future[R]]] = deque()
        self._busy: asyncio.Task[None] | None = None

    async def __call__(self, each: T) -> R:
        """The result for *each*. It is computed even when the caller is cancelled."""
        return await self.put(each)

    def put(self, each: T) -> asyncio.Future[R]:
        """The same as a future, for a caller that wants the result after it was cancelled."""
        loop = asyncio.get_running_loop()
        result: asyncio.Future[R] = loop.create_future()
        self._waiting.append((each, result))
        if self._busy is None:
            self._busy = loop.create_task(self._flush(), context=unmarked())
        return result

    async def _flush(self) -> None:
        # Yield to the event loop once, so that callers that are ready at this moment join the call.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                await self._together([self._waiting.popleft() for _ in range(min(self._most, len(self._waiting)))])
        finally:
            self._busy = None

    async def _together(self, group: list[tuple[T, asyncio.Future[R]]]) -> None:
        try:
            results = await self._do([each for each, _ in group])
        except Exception as error:  # noqa: BLE001 - raised to every caller that waits
            for _, waiting in group:
                if not waiting.done():
                    waiting.set_exception(error)
            return
        for (_, waiting), result in zip(group, results, strict=True):
            if not waiting.done():
                waiting.set_result(result)

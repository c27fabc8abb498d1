"""Group commit: what many handlers write goes to the database in one statement."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Generic, TypeVar

from psycopg_pool import PoolClosed

from retoma.postgres.faults import Outages, is_refused
from retoma.system.marks import unmarked

T = TypeVar("T")


class GroupCommit(Generic[T]):
    """Collects items while a statement is in progress and writes them with the next one, so the group grows with
    the load and an idle writer has no delay. *write* gets at most *most* items and at most *most_bytes* as *size*
    counts them, or one item.

    Nothing is dropped. A group whose statement fails is written again in halves, and the items that *write* returns are
    written once more. While the database cannot write, the group waits. Only an item that is refused alone, for its own
    data, goes to *refuse*, which may return a replacement.
    """

    def __init__(
        self,
        write: Callable[[list[T]], Awaitable[Sequence[T] | None]],
        *,
        most: int = 500,
        most_bytes: int = 8_000_000,
        size: Callable[[T], int] | None = None,
        refuse: Callable[[T, Exception], T | None] | None = None,
        doing: str = "writing",
        outages: Outages | None = None,
    ) -> None:
        self._write = write
        self._most = self._now = most
        self._most_bytes = most_bytes
        self._size = size
        self._refuse = refuse or _report
        self._doing = doing
        self._outages = outages or Outages()
        self._waiting: deque[T] = deque()
        self._group: list[T] = []
        self._failures = 0
        self._busy: asyncio.Task[None] | None = None

    def __len__(self) -> int:
        return len(self._waiting)

    def __iter__(self) -> Iterator[T]:
        """All items that are not known to be written."""
        return iter([*self._group, *self._waiting])

    def put(self, each: T) -> None:
        """Write *each* with the next statement."""
        self._waiting.append(each)
        if self._busy is None:
            self._busy = asyncio.get_running_loop().create_task(self._flush(), context=unmarked())

    async def idle(self) -> None:
        """Wait until everything is written."""
        while self._busy is not None:
            await asyncio.wait([self._busy])

    async def _flush(self) -> None:
        # Yield to the event loop once, so that items that are ready at this moment join the group.
        await asyncio.sleep(0)
        try:
            while self._waiting:
                self._group = self._next_group()
                try:
                    again = await self._write(self._group)
                except Exception as error:  # noqa: BLE001 - whatever it is, nothing queued may be lost
                    await self._failed(error)
                else:
                    self._waiting.extendleft(reversed(again or ()))
                    self._failures = 0
                    self._now = min(2 * self._now, self._most)
                self._group = []
        finally:
            self._waiting.extendleft(reversed(self._group))  # only when the event loop ends during the write
            self._group = []
            self._busy = None

    def _next_group(self) -> list[T]:
        if self._size is None:
            return [self._waiting.popleft() for _ in range(min(self._now, len(self._waiting)))]
        group = [self._waiting.popleft()]
        total = self._size(group[0])
        while self._waiting and len(group) < self._now:
            total += self._size(self._waiting[0])
            if total > self._most_bytes:
                break
            group.append(self._waiting.popleft())
        return group

    async def _failed(self, error: Exception) -> None:
        group, self._now = self._group, max(1, len(self._group) // 2)
        if isinstance(error, PoolClosed) or (len(group) == 1 and is_refused(error)):
            self._group = []
            for each in group:
                instead = self._refuse(each, error)
                if instead is not None:
                    self._waiting.appendleft(instead)
            return
        if len(group) == 1:
            self._waiting.append(group[0])  # to the end of the queue: perhaps only this item cannot be written
        else:
            self._waiting.extendleft(reversed(group))
        self._group = []
        if not is_refused(error):
            self._failures += 1
            await self._outages.sit_out(self._doing, self._failures, error, longest=2.0)


def _report(each: object, error: Exception) -> None:
    told = {"message": f"A {type(each).__name__} could not be written", "exception": error}
    asyncio.get_running_loop().call_exception_handler(told)

"""Sums over many calls, kept for a while: the dearer one was to make, the longer it serves."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, TypeVar, cast

from retoma.app.retoma import Retoma
from retoma.model.call import Spend
from retoma.model.overview import Overview
from retoma.system.concurrency import cancel_and_wait

T = TypeVar("T")

_WORTH = 50.0  # a sum is fresh for so many times as long as it took: to make it takes at most a fiftieth of the time
_LONGEST = 300.0  # an older one is not shown
_MOST = 100


@dataclass(slots=True)
class _Sum:
    value: Any
    at: float
    took: float


class Money:
    """What was paid, for pages that many people look at. A sum that is no longer fresh is shown once more while the
    next one is made; one that takes a few milliseconds is always fresh.
    """

    def __init__(self, app: Retoma) -> None:
        self._app = app
        self._sums: dict[Hashable, _Sum] = {}
        self._making: dict[Hashable, asyncio.Task[Any]] = {}

    async def close(self) -> None:
        """Give up the sums that are being made."""
        await cancel_and_wait(*self._making.values())

    async def overview(self) -> Overview:
        """The overview; its counts are of now, and its money is a sum that may be kept."""
        now = await self._app.system.overview(money=False)
        name = ("today", now.now.date())
        money = await self._kept(name, self._app.system.overview)
        return replace(now, spent_today=money.spent_today, again_today=money.again_today,
                       doubtful_today=money.doubtful_today, unpriced_today=money.unpriced_today,
                       money_age_seconds=self._age(name))  # fmt: skip

    async def spend(self, by: str, *, since: datetime, limit: int | None = None) -> list[Spend]:
        """What was paid since then, by *by*."""
        return await self._kept((by, since, limit), lambda: self._app.calls.spend(by, since=since, limit=limit))

    def age(self, by: str, *, since: datetime, limit: int | None = None) -> float:
        """How many seconds old the sum is that ``spend`` gave."""
        return self._age((by, since, limit))

    def _age(self, name: Hashable) -> float:
        found = self._sums.get(name)
        return 0.0 if found is None else time.monotonic() - found.at

    async def _kept(self, name: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        found, now = self._sums.get(name), time.monotonic()
        if found is not None and now - found.at <= found.took * _WORTH:
            return cast(T, found.value)
        making = self._making.get(name)
        if making is None:
            making = self._making[name] = asyncio.create_task(self._made(name, make))
            making.add_done_callback(lambda task: self._forget(name, task))
        if found is not None and found.took * _WORTH > 1 and now - found.at <= _LONGEST:
            return cast(T, found.value)
        return cast(T, await asyncio.shield(making))

    async def _made(self, name: Hashable, make: Callable[[], Awaitable[T]]) -> T:
        began = time.monotonic()
        value = await make()
        ended = time.monotonic()
        while len(self._sums) >= _MOST:
            self._sums.pop(next(iter(self._sums)))
        self._sums[name] = _Sum(value, ended, ended - began)
        return value

    def _forget(self, name: Hashable, task: asyncio.Task[Any]) -> None:
        self._making.pop(name, None)
        if not task.cancelled():
            task.exception()  # whoever waits for it is told; who was shown the one before asks again

"""Hints that something happened to a batch, for those who follow it. A hint may be lost without harm: they also look
by themselves.

They are sent apart from what they tell of, after it was committed, and seldom: a notification takes a lock that every
other notifying transaction of the server wants, and inside the statement that ends jobs that would be held across its
write to disk. Whoever listens says so by a lock in shared mode, so that where nobody does, nothing is sent.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
from collections.abc import Callable, Iterable

from retoma.errors import ConfigurationError
from retoma.postgres.database import Database
from retoma.postgres.dedicated import Line
from retoma.postgres.faults import UNAVAILABLE
from retoma.store import batches
from retoma.system.settings import Settings

SECONDS = 0.02
"""Between two hints of one process, when somebody listens."""
UNHEARD_SECONDS = 0.25
"""Between two looks whether somebody listens, when nobody did."""
ANY: frozenset[int] = frozenset()
"""Of batches that are not named: whoever listens looks."""
_MOST = 500  # ids in a hint; a payload holds 8,000 bytes


class BatchHints:
    """Tells whoever listens that something happened to batches: at once, then those of a short while together."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._waiting: set[int] = set()
        self._any = False
        self._sending: asyncio.Task[None] | None = None
        self._closed = False
        self._hurry = asyncio.Event()

    def put(self, ids: Iterable[int]) -> None:
        """Something happened to these, and it is committed."""
        ids = frozenset(ids)
        self._any = self._any or not ids
        self._waiting |= ids
        if self._sending is None and not self._closed:
            # In a context of its own: it is sent for everybody, not in the share of whoever happened to be first.
            self._sending = asyncio.get_running_loop().create_task(self._send(), context=contextvars.Context())

    async def _send(self) -> None:
        try:
            while (self._waiting or self._any) and not self._closed:
                some = sorted(self._waiting)[: _MOST + 1]
                everybody = self._any or len(some) > _MOST
                self._waiting.clear()
                self._any = False
                heard = False
                with contextlib.suppress(*UNAVAILABLE, ConfigurationError):
                    heard = (await self._database().all(batches.hint([] if everybody else some)))[0]
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(SECONDS if heard else UNHEARD_SECONDS):
                        await self._hurry.wait()
        finally:
            self._sending = None

    async def flush(self) -> None:
        """Come back when all that happened has been told: nobody will be here to do it later."""
        self._hurry.set()
        while self._sending is not None:
            await asyncio.wait([self._sending])
        self._hurry.clear()

    def close(self) -> None:
        """Send no more."""
        self._closed = True
        if self._sending is not None:
            self._sending.cancel()


async def hear(url: str, settings: Settings, heard: Callable[[frozenset[int]], None]) -> None:
    """Call *heard* with the batches to which something happened (none of them named: any), for ever, across lost
    connections. Through a transaction pooler nothing can be heard.
    """
    if settings.pooler == "transaction":
        return
    line = Line(
        url,
        settings,
        hint=batches.LISTENING,
        channel=batches.CHANNEL,
        heard=lambda said: heard(frozenset(int(id) for id in said.split(",") if id.isdecimal())),
        made=lambda: heard(ANY),
    )
    try:
        await line.keep()
    finally:
        await line.close()

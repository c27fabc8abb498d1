"""Hints that something happened to a batch, for its followers. A hint may be lost without harm,
because followers also poll.

Hints are sent after the commit, in a separate transaction and at bounded intervals. A notification
takes a lock that every other notifying transaction of the server needs; inside the statement that ends jobs it
would be held across the write to disk. Every listener holds an advisory lock in shared mode, so that nothing is
sent when nobody listens.
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
"""Seconds between two hints of one process while somebody listens."""
UNHEARD_SECONDS = 0.25
"""Seconds between two checks whether somebody listens, while nobody does."""
ANY: frozenset[int] = frozenset()
"""A hint without ids: listeners check all their batches."""
_MOST = 500  # ids in a hint; a payload is limited to 8,000 bytes


class BatchHints:
    """Notifies listeners that something happened to batches: the first time at once, then in groups."""

    def __init__(self, database: Callable[[], Database]) -> None:
        self._database = database
        self._waiting: set[int] = set()
        self._any = False
        self._sending: asyncio.Task[None] | None = None
        self._closed = False
        self._hurry = asyncio.Event()

    def put(self, ids: Iterable[int]) -> None:
        """Report a committed change of these batches."""
        ids = frozenset(ids)
        self._any = self._any or not ids
        self._waiting |= ids
        if self._sending is None and not self._closed:
            # Use an empty context: the hint is sent for everybody, and must not count against the
            # borrower that was first.
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
        """Wait until every hint is sent, because the process is about to end."""
        self._hurry.set()
        while self._sending is not None:
            await asyncio.wait([self._sending])
        self._hurry.clear()

    def close(self) -> None:
        """Stop sending hints."""
        self._closed = True
        if self._sending is not None:
            self._sending.cancel()


async def hear(url: str, settings: Settings, heard: Callable[[frozenset[int]], None]) -> None:
    """Call *heard* with the ids of batches that changed (an empty set means any), forever, across lost connections.
    Behind a transaction pooler no notification arrives.
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

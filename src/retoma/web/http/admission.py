"""Who may use the database, when more want to than there are connections. Looking may not take all of them: a share is
kept for changes, and one connection for probes and for the reader of the streams. Whoever would wait too long is told
at once, and truly, to come again.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Any

import psycopg

from retoma.postgres.borrowing import BORROWER
from retoma.postgres.deadlines import DEADLINES
from retoma.system.settings import Settings
from retoma.telemetry import emit
from retoma.telemetry.events import RequestsRefused
from retoma.web.http.errors import Refusal

_WEIGHT = 0.1  # of the last look among all that came before it
_TOLD_EVERY = 1.0  # seconds between two lines about it in the log


class Admission:
    """The places in front of the connections of one process."""

    def __init__(self, settings: Settings) -> None:
        connections = settings.pool_connections
        self._most = max(1, connections - 1)
        self._most_reads = max(1, connections - max(2, connections * 3 // 10))
        self._most_waiting = settings.web_waiting
        self._patience = settings.web_wait_seconds
        self._patience_of_changes = settings.web_deadline_seconds
        self._used = self._reads = 0
        self._reads_since = 0.0  # the sum of the moments at which those that look came in
        self._usual = 0.0  # seconds that a look takes, lately
        self._changes_waiting: deque[asyncio.Future[float]] = deque()
        self._reads_waiting: deque[asyncio.Future[float]] = deque()
        self._refused = 0
        self._told_at = 0.0

    @property
    def full(self) -> bool:
        """Whether not even a change would be let in now."""
        return self._used >= self._most

    async def enter(self, *, read: bool, patience: float | None = None) -> float:
        """Take a place, perhaps after a short wait, and say since when; refused when that would last too long. Who has
        a *patience* of their own waits as long as that, whatever can be foreseen.
        """
        waiting = self._reads_waiting if read else self._changes_waiting
        if not waiting and self._has_place(read=read):
            return self._take(read=read)
        if len(waiting) >= self._most_waiting or (read and patience is None and self._foreseen() > self._patience):
            raise self._refusal(read=read)
        turn: asyncio.Future[float] = asyncio.get_running_loop().create_future()
        waiting.append(turn)
        try:
            async with asyncio.timeout(patience or (self._patience if read else self._patience_of_changes)):
                return await turn
        except BaseException as error:
            if turn.done() and not turn.cancelled():
                self.leave(read=read, since=turn.result())  # it came at the very moment in which we left
            with contextlib.suppress(ValueError):
                waiting.remove(turn)
            if isinstance(error, TimeoutError):
                raise self._refusal(read=read) from None
            raise

    def _foreseen(self) -> float:
        """Seconds until one more look would have its turn: as long as they take lately, or have taken already."""
        so_far = time.monotonic() - self._reads_since / self._reads if self._reads else 0.0
        return (len(self._reads_waiting) + 1) / self._most_reads * max(self._usual, so_far)

    def leave(self, *, read: bool, since: float) -> None:
        """Give a place back that was taken at *since*; whoever has waited longest takes it, and changes come first."""
        self._used -= 1
        if read:
            self._reads -= 1
            self._reads_since -= since
            self._usual += _WEIGHT * (time.monotonic() - since - self._usual)
        for waiting, reads in ((self._changes_waiting, False), (self._reads_waiting, True)):
            while waiting and self._has_place(read=reads):
                turn = waiting.popleft()
                if not turn.done():
                    turn.set_result(self._take(read=reads))

    def _has_place(self, *, read: bool) -> bool:
        return self._used < self._most and not (read and self._reads >= self._most_reads)

    def _take(self, *, read: bool) -> float:
        now = time.monotonic()
        self._used += 1
        if read:
            self._reads += 1
            self._reads_since += now
        return now

    def _refusal(self, *, read: bool) -> Refusal:
        self._refused += 1
        if time.monotonic() - self._told_at >= _TOLD_EVERY:
            emit(RequestsRefused(kind="reads" if read else "changes", requests=self._refused))
            self._refused, self._told_at = 0, time.monotonic()
        return Refusal("overloaded")


class Ticket:
    """What one request may borrow: a place in front of the connections, and which of them it has at the moment."""

    def __init__(self, admission: Admission | None = None, *, read: bool = True, patience: float | None = None) -> None:
        self._admission = admission
        self._read = read
        self._patience = patience
        self._wanted = 0
        self._since: float | None = None
        self._retired = False
        self.held: set[psycopg.AsyncConnection[Any]] = set()

    def again(self) -> Ticket:
        """Another for the same caller, for something that may have to be given up by itself."""
        return Ticket(self._admission, read=self._read, patience=self._patience)

    async def enter(self) -> None:
        """Wait for a place, unless the request has one: it needs only one, however many queries it makes."""
        self._wanted += 1
        if self._wanted == 1 and self._admission is not None and not self._retired:
            try:
                self._since = await self._admission.enter(read=self._read, patience=self._patience)
            except BaseException:
                self._wanted -= 1
                raise

    def leave(self) -> None:
        self._wanted -= 1
        if not self._wanted and self._since is not None and self._admission is not None:
            self._admission.leave(read=self._read, since=self._since)
            self._since = None

    async def __aenter__(self) -> None:
        await self.enter()

    async def __aexit__(self, *_: object) -> None:
        self.leave()

    def retire(self) -> None:
        """The request has been answered; what it left behind, such as a hint, waits for nobody."""
        self._retired = True

    def hang_up(self) -> None:
        """End what it waits for. A server that is stopped, or a network that swallows everything, would let it wait as
        long as a statement may take, which is longer than the caller does.
        """
        for connection in self.held:
            DEADLINES.give_up(connection)


def current_ticket() -> Ticket:
    """That of the request that is being answered."""
    borrower = BORROWER.get()
    return borrower if isinstance(borrower, Ticket) else Ticket()

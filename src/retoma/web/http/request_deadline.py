"""A request is attended: it ends when it takes too long, and when nobody waits for it any more."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Awaitable, Callable, Coroutine, MutableMapping
from types import TracebackType
from typing import Any, TypeVar

from starlette.requests import ClientDisconnect

from retoma.postgres.borrowing import BORROWER
from retoma.web.http.admission import Ticket, current_ticket
from retoma.web.http.errors import Refusal

T = TypeVar("T")
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]

_SLOW = 0.2  # seconds after which a request is looked after; most have been answered by then
_PARTING = 1.0  # seconds that the database has to call a query off, before its connection is given up


class Attended:
    """What is asked of the database inside ends after *seconds*, and when *receive* tells that the caller has gone. The
    query is called off on the server, and its connection goes back; if the server does not answer even to that, the
    connection is given up, in the way of a statement whose deadline is over. That deadline is another one: it is for
    each statement by itself, is longer, and calls nothing off.
    """

    def __init__(self, ticket: Ticket, seconds: float, receive: Receive | None = None) -> None:
        self._ticket = ticket
        self._seconds = seconds
        self._receive = receive
        self._watcher: asyncio.Task[None] | None = None
        self._gone = self._late = False

    async def __aenter__(self) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._asking = task
        self._borrower = BORROWER.set(self._ticket)
        self._timer = asyncio.get_running_loop().call_later(min(_SLOW, self._seconds), self._watch)

    def _watch(self) -> None:
        self._watcher = asyncio.get_running_loop().create_task(self._look(), context=contextvars.Context())

    async def _look(self) -> None:
        try:
            async with asyncio.timeout(max(0.0, self._seconds - _SLOW)):
                await _departure(self._receive)
            self._gone = True
        except TimeoutError:
            self._late = True
        self._asking.cancel()
        await asyncio.sleep(_PARTING)
        self._ticket.hang_up()

    async def __aexit__(
        self, kind: type[BaseException] | None, _error: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self._timer.cancel()
        if self._watcher is not None:
            self._watcher.cancel()
        if not (self._gone or self._late):
            return
        if self._asking.uncancel() and kind is asyncio.CancelledError:
            return  # somebody else wants it to end, too
        if self._gone:
            raise ClientDisconnect from None
        raise Refusal("deadline_exceeded") from None


async def _departure(receive: Receive | None) -> None:
    while receive is not None:
        if (await receive())["type"] == "http.disconnect":
            return
    await asyncio.Event().wait()


async def bounded(asked: Coroutine[Any, Any, T], seconds: float) -> T:
    """What was *asked* of the database, within *seconds* or not at all; in the share of whoever asks."""
    async with Attended(current_ticket().again(), seconds):
        return await asked

"""Limits how many connections of the pool one borrower may hold at once."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

import psycopg


class Borrower(Protocol):
    """A borrower of connections, such as the requests of one caller. It may have to wait for its turn, and knows
    which connections it holds.
    """

    held: set[psycopg.AsyncConnection[Any]]

    async def enter(self) -> None: ...

    def leave(self) -> None: ...


BORROWER: ContextVar[Borrower | None] = ContextVar("borrower", default=None)
"""The current borrower, where connections are shared out: in the requests of a server."""

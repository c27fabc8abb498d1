"""On whose behalf connections are borrowed, where not everybody may have as many as there are."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any, Protocol

import psycopg


class Borrower(Protocol):
    """On whose behalf connections are borrowed. It may have to wait for its turn, and knows which it holds."""

    held: set[psycopg.AsyncConnection[Any]]

    async def enter(self) -> None: ...

    def leave(self) -> None: ...


BORROWER: ContextVar[Borrower | None] = ContextVar("borrower", default=None)
"""Who asks, where not everybody may have as many connections as there are: the requests of a server."""

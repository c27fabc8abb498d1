"""What a provider allows, held to by all workers together. An executor takes small slices ahead, so that a call does
not cost a round trip; whoever would have to wait long gives up its place and comes back.
"""

from __future__ import annotations

import asyncio
import random
import time
from dataclasses import dataclass, field

from retoma.database import Database
from retoma.steps import Suspend
from retoma.store import limits

_LONGEST_WAIT = 1.5  # seconds to wait in place; past that a job waits in its queue, and holds no slot
_FRESH = 1.0  # seconds for which a slice may be used: by then somebody may have been told to cool
_MOST_AHEAD = 10


@dataclass(slots=True)
class _Purse:
    """What this executor has of one limit."""

    requests: float = 0.0
    tokens: float = 0.0
    places: int = 0
    busy: int = 0
    waiting: int = 0
    seated: bool = False
    fresh_until: float = 0.0
    refilling: asyncio.Lock = field(default_factory=asyncio.Lock)

    def has(self, tokens: float) -> bool:
        return (
            self.requests >= 1
            and self.tokens >= tokens
            and self.busy < self.places
            and time.monotonic() < self.fresh_until
        )


class Limiter:
    """The limits of one executor's calls."""

    def __init__(self, database: Database, worker_id: int) -> None:
        self._database = database
        self._worker_id = worker_id
        self._purses: dict[str, _Purse] = {}

    async def enter(self, name: str, tokens: float) -> None:
        """Come back when a request of so many *tokens* may be made; Suspend when that takes too long to wait for."""
        purse = self._purses.setdefault(name, _Purse())
        purse.waiting += 1
        until = time.monotonic() + _LONGEST_WAIT
        try:
            while not purse.has(tokens):
                if wait := await self._refill(name, purse, tokens):
                    if time.monotonic() > until:  # many short waits are a long one
                        wait = max(wait, _LONGEST_WAIT + 0.1)
                    if wait > _LONGEST_WAIT:
                        raise Suspend("postponed", delay=wait * random.uniform(1.0, 1.2), reason=f"limited: {name}")  # noqa: S311
                    await asyncio.sleep(wait * random.uniform(1.0, 1.5))  # noqa: S311 - not all at once
        finally:
            purse.waiting -= 1
        purse.requests -= 1
        purse.tokens -= tokens
        purse.busy += 1

    async def _refill(self, name: str, purse: _Purse, tokens: float) -> float:
        """How long to wait before there is more; 0 when there is."""
        async with purse.refilling:
            if purse.has(tokens):
                return 0.0
            await self._hand_back(name, purse)
            ahead = max(1, min(purse.waiting, _MOST_AHEAD))
            query = limits.take(
                name,
                worker_id=self._worker_id,
                requests=ahead,
                tokens=tokens * ahead,
                least_tokens=tokens,
                places=purse.busy + ahead,
                busy=purse.busy,
            )
            rows = await self._database.all(query)
            if not rows:  # nobody has limited it so far: then there is nothing but its breaker
                await self._database.all(limits.put(name, requests=None, tokens=None, at_once=None, keep=True))
                rows = await self._database.all(query)
            got = rows[0]
            purse.requests += got.requests
            purse.tokens += got.tokens
            purse.places, purse.seated = got.places, got.seated
            purse.fresh_until = time.monotonic() + _FRESH
            return got.wait

    async def _hand_back(self, name: str, purse: _Purse) -> None:
        if purse.requests > 0 or purse.tokens:
            requests, tokens = purse.requests, purse.tokens
            purse.requests = purse.tokens = 0.0
            await self._database.all(limits.give_back(name, requests=requests, tokens=tokens))

    async def leave(self, name: str, *, guessed: float, used: float) -> None:
        """The request is over, and took so many tokens in fact: what was guessed too high serves the next."""
        purse = self._purses[name]
        purse.busy -= 1
        purse.tokens += guessed - used
        if purse.tokens < 0:
            owed, purse.tokens = purse.tokens, 0.0
            await self._database.all(limits.give_back(name, requests=0, tokens=owed))
        if purse.seated and not purse.busy and not purse.waiting:
            purse.places = 0
            await self._database.all(limits.leave(name, self._worker_id))

    async def cool(self, name: str, seconds: float, reason: str) -> None:
        """The provider said when to come back: nobody asks it before."""
        self._purses[name].fresh_until = 0.0
        await self._database.all(limits.cool(name, seconds=seconds, reason=reason))

    async def tell(self, name: str, *, good: bool, reason: str | None = None) -> None:
        """How a call went, for the breaker."""
        if not good:
            self._purses[name].fresh_until = 0.0
        await self._database.all(limits.tell(name, good=good, reason=reason))

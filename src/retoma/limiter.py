"""What a provider allows, held to by all workers together. An executor takes small slices ahead, so that a call does
not cost a round trip; whoever would have to wait long gives up its place and comes back when it is its turn.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

from retoma.call import Slice
from retoma.database import Database
from retoma.steps import Suspend
from retoma.store import limits

_LONGEST_WAIT = 1.5  # seconds to wait in place; past that a job waits in its queue, and holds no slot
_FRESH = 1.0  # seconds for which what was given may be used: by then somebody may have been told to cool
_AT_LEAST = 0.2  # of them, however long it was on its way: else nobody would get on where all is slow
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
    warnings: int = 0
    """How often this executor was told to stop; what was given before counts no longer."""
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def spend(self, tokens: float) -> bool:
        """Whether a request of so many *tokens* may be made at once; then it is under way."""
        fits = self.requests >= 1 and self.tokens >= tokens and self.busy < self.places
        if not fits or time.monotonic() >= self.fresh_until:
            return False
        self.requests -= 1
        self.tokens -= tokens
        self.busy += 1
        return True

    def fill(self, got: Slice, began: float) -> None:
        """What was asked for at *began* and given."""
        self.requests += got.requests
        self.tokens += got.tokens
        self.places, self.seated = got.places, got.seated
        self.fresh_until = max(began + _FRESH, time.monotonic() + _AT_LEAST)

    def warn(self) -> None:
        self.fresh_until = 0.0
        self.warnings += 1


class Limiter:
    """The limits of one executor's calls."""

    def __init__(self, database: Database, worker_id: int) -> None:
        self._database = database
        self._worker_id = worker_id
        self._purses: dict[str, _Purse] = {}
        self._chosen: dict[str, str] = {}  # which limit counts for the narrowest name, as far as is known

    async def enter(self, names: Sequence[str], tokens: float) -> str:
        """Come back when a request of so many *tokens* may be made, with the one of *names* that it counts against;
        Suspend when that takes too long to wait for.
        """
        until = time.monotonic() + _LONGEST_WAIT
        while True:
            name = self._chosen.get(names[0], names[0])
            purse = self._purses.setdefault(name, _Purse())
            purse.waiting += 1
            try:
                async with purse.asking:
                    if purse.spend(tokens):
                        return name
                    got = await self._take(names, name, purse, tokens)
                    if got.name != name:
                        continue
                    if not got.wait and purse.spend(tokens):
                        return name
            finally:
                purse.waiting -= 1
            if got.requests:
                if await self._hold(purse, got):
                    return name
            elif got.wait:
                # Many short waits are a long one.
                await _sit_out(name, got.wait if time.monotonic() < until else max(got.wait, _LONGEST_WAIT + 0.1))

    async def _take(self, names: Sequence[str], name: str, purse: _Purse, tokens: float) -> Slice:
        """What the database gives; unless it is for later, it is in the purse of its limit."""
        ahead = max(1, min(purse.waiting, _MOST_AHEAD))
        back, purse.requests, purse.tokens = (name, purse.requests, purse.tokens), 0.0, 0.0
        query = limits.take(
            *names,
            worker_id=self._worker_id,
            requests=ahead,
            least_tokens=tokens,
            places=purse.busy + ahead,
            busy=purse.busy,
            back=back,
            horizon=_FRESH,
        )
        began = time.monotonic()
        rows = await self._database.all(query)
        if not rows:  # nobody has limited it so far: then there is nothing but its breaker
            await self._database.all(limits.put(names[0], requests=None, tokens=None, at_once=None, keep=True))
            rows = await self._database.all(query)
        got = rows[0]
        if got.name != name:
            await self._change(names[0], name, purse, got, began)
        elif got.wait:
            purse.places, purse.seated = got.places, got.seated
        else:
            purse.fill(got, began)
        return got

    async def _hold(self, purse: _Purse, got: Slice) -> bool:
        """Whether a request that was given for a moment later may be made, once it is that moment."""
        warnings = purse.warnings
        purse.busy += 1
        try:
            await asyncio.sleep(got.wait)
        except BaseException:
            purse.busy -= 1
            purse.requests += got.requests
            purse.tokens += got.tokens
            raise
        if purse.warnings != warnings:  # a cooled bucket was emptied: there is nothing to give back
            purse.busy -= 1
            return False
        return True

    async def _change(self, narrowest: str, name: str, purse: _Purse, got: Slice, began: float) -> None:
        """Another limit counts from now on: what was given of it goes to its own purse."""
        self._chosen[narrowest] = got.name
        other = self._purses.setdefault(got.name, _Purse())
        if got.requests and (got.wait or other.busy or other.asking.locked()):
            await self._database.all(limits.give_back(got.name, requests=got.requests, tokens=got.tokens))
        elif got.requests:
            other.fill(got, began)
        if purse.seated and not purse.busy:
            purse.places = 0
            await self._database.all(limits.leave(name, self._worker_id))

    async def leave(self, name: str, *, guessed: float, used: float) -> None:
        """The request is over, and took so many tokens in fact: what was guessed too high serves the next."""
        purse = self._purses[name]
        purse.busy -= 1
        purse.tokens += guessed - used
        if purse.tokens < 0:
            owed, purse.tokens = purse.tokens, 0.0
            await self._database.all(limits.give_back(name, requests=0, tokens=owed))
        if purse.seated:
            await self._free_places(name, purse)

    async def _free_places(self, name: str, purse: _Purse) -> None:
        """Places that nobody here needs are for other executors."""
        async with purse.asking:
            needed = purse.busy + purse.waiting
            if needed >= purse.places:
                return
            purse.places = needed
            if needed:
                await self._database.all(limits.sit(name, self._worker_id, taken=needed))
            else:
                await self._database.all(limits.leave(name, self._worker_id))

    async def cool(self, name: str, seconds: float, reason: str) -> None:
        """The provider said when to come back: nobody asks it before."""
        self._purses[name].warn()
        await self._database.all(limits.cool(name, seconds=seconds, reason=reason))

    async def tell(self, name: str, *, good: bool, reason: str | None = None) -> None:
        """How a call went, for the breaker."""
        if not good:
            self._purses[name].warn()
        await self._database.all(limits.tell(name, good=good, reason=reason))


async def _sit_out(name: str, seconds: float) -> None:
    """Wait here when it is short; else the job waits in its queue."""
    if seconds > _LONGEST_WAIT:
        raise Suspend("postponed", delay=seconds * random.uniform(1.0, 1.1), reason=f"limited: {name}")  # noqa: S311
    await asyncio.sleep(seconds * random.uniform(1.0, 1.5))  # noqa: S311 - not all at once

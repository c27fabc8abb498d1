"""What a provider allows, held to by all workers together. An executor takes small slices ahead, so that a call does
not cost a round trip; whoever would have to wait long gives up its place and comes back when it is its turn.
"""

from __future__ import annotations

import asyncio
import functools
import math
import random
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from retoma.model.call import Grant
from retoma.model.endings import Suspend
from retoma.postgres.database import Database
from retoma.postgres.faults import UNAVAILABLE
from retoma.postgres.group_commit import GroupCommit
from retoma.store import limits
from retoma.store.query import Query

_LONGEST_WAIT = 1.5  # seconds to wait in place; past that a job waits in its queue, and holds no slot
_FRESH = 1.0  # seconds for which what was given may be used: by then somebody may have been told to cool
_AT_LEAST = 0.2  # of them, however long it was on its way: else nobody would get on where all is slow
_MOST_AHEAD = 100
_PLENTY = 1 << 30  # places, where nobody counts them
_SPREAD = 10.0  # seconds over which one piece of those who sleep is woken
_PIECE = 1000


@dataclass(slots=True)
class _LocalBudget:
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
    failed_at: float = 0.0
    """When the last failure was known here: what was sent before was under way together with it."""
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

    def back(self) -> tuple[float, float]:
        """What is left of requests and tokens, or owed of them, and is here no longer."""
        left = (self.requests, self.tokens) if self.requests != math.inf else (0.0, 0.0)
        self.requests = self.tokens = 0.0
        return left

    def fill(self, got: Grant, began: float) -> None:
        """What was asked for at *began* and given. What nobody counts need not be asked for again while it is fresh."""
        free = not got.counted and not got.probe
        self.requests += math.inf if free else got.requests
        self.tokens += math.inf if free else got.tokens
        self.sit(got)
        self.fresh_until = max(began + _FRESH, time.monotonic() + _AT_LEAST)

    def sit(self, got: Grant) -> None:
        self.places, self.seated = got.places if got.seated else _PLENTY, got.seated

    def warn(self) -> None:
        self.fresh_until = 0.0
        self.warnings += 1


class Limiter:
    """The limits of one executor's calls."""

    def __init__(self, database: Database, worker_id: int) -> None:
        self._database = database
        self._worker_id = worker_id
        self._budgets: dict[str, _LocalBudget] = {}
        self._chosen: dict[str, str] = {}  # which limit counts for the narrowest name, as far as is known
        self._restated: GroupCommit[str] = GroupCommit(self._restate)
        self._waking: dict[str, asyncio.Task[None]] = {}

    async def acquire(self, names: Sequence[str], tokens: float) -> str:
        """Come back when a request of so many *tokens* may be made, with the one of *names* that it counts against;
        Suspend when that takes too long to wait for.
        """
        until = time.monotonic() + _LONGEST_WAIT
        while True:
            name = self._chosen.get(names[0], names[0])
            budget = self._budgets.setdefault(name, _LocalBudget())
            if not budget.asking.locked() and budget.spend(tokens):
                return name
            budget.waiting += 1
            try:
                async with budget.asking:
                    await asyncio.sleep(0)  # those who come at this very moment are asked for along with us
                    if budget.spend(tokens):
                        return name
                    got = await self._take(names, name, budget, tokens)
                    if got.name != name:
                        continue
                    if not got.wait and budget.spend(tokens):
                        return name
            finally:
                budget.waiting -= 1
            if got.requests:
                if await self._hold(budget, got):
                    return name
            elif got.wait:
                # Many short waits are a long one.
                await _sit_out(name, got.wait if time.monotonic() < until else max(got.wait, _LONGEST_WAIT + 0.1))

    async def _take(self, names: Sequence[str], name: str, budget: _LocalBudget, tokens: float) -> Grant:
        """What the database gives; unless it is for later, it is in the budget of its limit."""
        ahead = max(1, min(budget.waiting, _MOST_AHEAD))
        query = functools.partial(
            limits.take,
            *names,
            worker_id=self._worker_id,
            requests=ahead,
            spare=_MOST_AHEAD,
            least_tokens=tokens,
            places=budget.busy + ahead,
            busy=budget.busy,
            horizon=_FRESH,
        )
        began = time.monotonic()
        taking = asyncio.ensure_future(self._taken(names[0], query, (name, *budget.back())))
        try:
            got = await asyncio.shield(taking)
        except asyncio.CancelledError:
            taking.add_done_callback(functools.partial(self._untaken, budget))
            raise
        if got.name != name:
            await self._change(names[0], name, budget, got, began)
        elif got.wait:
            budget.sit(got)
        else:
            budget.fill(got, began)
        return got

    async def _taken(self, narrowest: str, query: Callable[..., Query[Grant]], back: tuple[str, float, float]) -> Grant:
        try:
            rows = await self._database.all(query(back=back))
        except UNAVAILABLE:
            # Whether it was given is unknown: what was left is not given back twice, and what was given is lost.
            rows = await self._database.persist(query())
        if not rows:  # nobody has limited it so far: then there is nothing but its breaker
            await self._database.persist(limits.put(narrowest, requests=None, tokens=None, at_once=None, keep=True))
            rows = await self._database.persist(query())
        return rows[0]

    def _untaken(self, budget: _LocalBudget, taking: asyncio.Future[Grant]) -> None:
        """Who asked went away before it was given: its places are for others."""
        if not taking.cancelled() and taking.exception() is None and (got := taking.result()).seated:
            seated = self._budgets.setdefault(got.name, budget)
            seated.sit(got)
            self._restated.put(got.name)

    async def _hold(self, budget: _LocalBudget, got: Grant) -> bool:
        """Whether a request that was given for a moment later may be made, once it is that moment."""
        warnings = budget.warnings
        budget.busy += 1
        try:
            await asyncio.sleep(got.wait)
        except BaseException:
            budget.busy -= 1
            budget.requests += got.requests
            budget.tokens += got.tokens
            raise
        if budget.warnings != warnings:  # a cooled bucket was emptied: there is nothing to give back
            budget.busy -= 1
            return False
        return True

    async def _change(self, narrowest: str, name: str, budget: _LocalBudget, got: Grant, began: float) -> None:
        """Another limit counts from now on: what was given of it goes to its own budget."""
        self._chosen[narrowest] = got.name
        other = self._budgets.setdefault(got.name, _LocalBudget())
        if got.requests and (got.wait or other.busy or other.asking.locked()):
            await self._database.persist(limits.give_back(got.name, requests=got.requests, tokens=got.tokens))
        elif got.requests:
            other.fill(got, began)
        if budget.seated:
            self._restated.put(name)

    def release(self, name: str, *, guessed: float, used: float) -> None:
        """The request is over, and took so many tokens in fact: what was guessed too high serves the next."""
        budget = self._budgets[name]
        budget.busy -= 1
        budget.tokens += guessed - used
        if budget.seated or budget.tokens < 0:
            self._restated.put(name)

    async def _restate(self, names: list[str]) -> None:
        """Say again how much is under way, where places are held that nobody here needs, until it was heard; and what
        was used beyond what was given.
        """
        for name in dict.fromkeys(names):
            budget = self._budgets[name]
            async with budget.asking:
                if budget.tokens < 0:
                    owed, budget.tokens = budget.tokens, 0.0
                    await self._database.persist(limits.give_back(name, requests=0, tokens=owed))
                needed = budget.busy + budget.waiting
                if budget.seated and needed < budget.places:
                    budget.places = needed
                    await self._database.persist(limits.sit(name, self._worker_id, taken=needed))

    async def cool(self, name: str, seconds: float, reason: str) -> None:
        """The provider said when to come back: nobody asks it before."""
        self._budgets[name].warn()
        await self._database.persist(limits.cool(name, seconds=seconds, reason=reason))

    async def failed(self, name: str, *, sent: float, reason: str) -> None:
        """A call that was *sent* then failed. Those that were under way together count once for the breaker."""
        budget = self._budgets[name]
        budget.warn()
        if sent < budget.failed_at:
            return
        budget.failed_at = time.monotonic()
        age = budget.failed_at - sent
        await self._database.persist(limits.tell(name, good=False, reason=reason, age=age))

    async def answered(self, name: str) -> None:
        """A call went well, for the breaker."""
        if await self._database.persist(limits.tell(name, good=True)):
            self.closed(name)

    def closed(self, name: str) -> None:
        """The breaker was closed by an answer of ours: who sleeps for it is woken."""
        if name not in self._waking:
            self._waking[name] = asyncio.ensure_future(self._wake(name))
            self._waking[name].add_done_callback(lambda _: self._waking.pop(name))

    async def _wake(self, name: str) -> None:
        after = 0.0
        while len(await self._database.persist(limits.wake(name, after=after, limit=_PIECE))) == _PIECE:
            after += _SPREAD

    async def settled(self) -> None:
        """Come back when all has been said."""
        await self._restated.idle()
        while self._waking:
            await asyncio.wait(self._waking.values())


async def _sit_out(name: str, seconds: float) -> None:
    """Wait here when it is short; else the job waits in its queue."""
    if seconds > _LONGEST_WAIT:
        raise Suspend("postponed", delay=seconds * random.uniform(1.0, 1.1), reason=f"limited: {name}")  # noqa: S311
    await asyncio.sleep(seconds * random.uniform(1.0, 1.5))  # noqa: S311 - not all at once

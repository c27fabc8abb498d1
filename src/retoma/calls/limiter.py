"""Enforces provider limits across all workers. An executor acquires small grants in advance, so that most calls need no
round trip. A job that would wait too long is rescheduled instead of blocking its slot.
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
from retoma.model.job import AttemptEnding
from retoma.postgres.database import Database
from retoma.postgres.faults import UNAVAILABLE
from retoma.postgres.group_commit import GroupCommit
from retoma.store import limits
from retoma.store.query import Query
from retoma.telemetry import emit
from retoma.telemetry.events import LimitWaited

_LONGEST_WAIT = 1.5  # seconds to wait in place; past that the job goes back to its queue and holds no slot
_FRESH = 1.0  # seconds for which a grant may be used: after that another worker may have cooled the limit
_AT_LEAST = 0.2  # seconds of them, however long the statement took: else a slow database stops every call
_MOST_AHEAD = 100
_PLENTY = 1 << 30  # slots when they are not counted
_SPREAD = 10.0  # seconds over which one group of sleeping jobs is woken
_PIECE = 1000


@dataclass(slots=True)
class _LocalBudget:
    """What this executor holds of one limit."""

    requests: float = 0.0
    tokens: float = 0.0
    places: int = 0
    busy: int = 0
    waiting: int = 0
    seated: bool = False
    fresh_until: float = 0.0
    warnings: int = 0
    """How often this executor was told to stop; grants from before are void."""
    failed_at: float = 0.0
    """When this executor last learned of a failure; calls sent before that were in flight
    together with the failed one.
    """
    asking: asyncio.Lock = field(default_factory=asyncio.Lock)

    def spend(self, tokens: float) -> bool:
        """Start a request of that many *tokens* if the grant covers it; False if it does not."""
        fits = self.requests >= 1 and self.tokens >= tokens and self.busy < self.places
        if not fits or time.monotonic() >= self.fresh_until:
            return False
        self.requests -= 1
        self.tokens -= tokens
        self.busy += 1
        return True

    def back(self) -> tuple[float, float]:
        """Empty the budget and return what was left, or owed, of requests and tokens."""
        left = (self.requests, self.tokens) if self.requests != math.inf else (0.0, 0.0)
        self.requests = self.tokens = 0.0
        return left

    def fill(self, got: Grant, began: float) -> None:
        """Add a grant that was requested at *began*. An uncounted limit becomes unlimited while the grant is fresh."""
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
        self._chosen: dict[str, str] = {}  # by the narrowest name: which limit applies, as far as known
        self._restated: GroupCommit[str] = GroupCommit(self._restate)
        self._waking: dict[str, asyncio.Task[None]] = {}

    async def acquire(self, names: Sequence[str], tokens: float) -> str:
        """Wait until a request of that many *tokens* may be sent, and return the name among *names* that it counts
        against. Raises Suspend when the wait would be too long.
        """
        name = self._chosen.get(names[0], names[0])
        budget = self._budgets.setdefault(name, _LocalBudget())
        if not budget.asking.locked() and budget.spend(tokens):
            return name
        began = time.monotonic()
        try:
            name = await self._wait_for(names, tokens, began + _LONGEST_WAIT)
        finally:
            emit(LimitWaited(limit=name, seconds=time.monotonic() - began))
        return name

    async def _wait_for(self, names: Sequence[str], tokens: float, until: float) -> str:
        while True:
            name = self._chosen.get(names[0], names[0])
            budget = self._budgets.setdefault(name, _LocalBudget())
            if not budget.asking.locked() and budget.spend(tokens):
                return name
            budget.waiting += 1
            try:
                async with budget.asking:
                    await asyncio.sleep(0)  # let concurrent callers join, so that one statement asks for all
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
                # Repeated short waits add up: past the deadline the job is suspended.
                await _sit_out(name, got.wait if time.monotonic() < until else max(got.wait, _LONGEST_WAIT + 0.1))

    async def _take(self, names: Sequence[str], name: str, budget: _LocalBudget, tokens: float) -> Grant:
        """Ask the database for a grant. A grant for now goes into the budget of its limit; one for later does not."""
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
            # Whether the first statement committed is unknown. The leftovers are not returned twice,
            # and its grant is lost.
            rows = await self._database.persist(query())
        if not rows:  # the name has no limit yet: create a row without one, for its circuit breaker
            await self._database.persist(limits.put(narrowest, requests=None, tokens=None, at_once=None, keep=True))
            rows = await self._database.persist(query())
        return rows[0]

    def _untaken(self, budget: _LocalBudget, taking: asyncio.Future[Grant]) -> None:
        """The caller was cancelled before the grant arrived: release its slots."""
        if not taking.cancelled() and taking.exception() is None and (got := taking.result()).seated:
            seated = self._budgets.setdefault(got.name, budget)
            seated.sit(got)
            self._restated.put(got.name)

    async def _hold(self, budget: _LocalBudget, got: Grant) -> bool:
        """Wait for the time of a grant that starts later, and return whether the request may then be sent."""
        warnings = budget.warnings
        budget.busy += 1
        try:
            await asyncio.sleep(got.wait)
        except BaseException:
            budget.busy -= 1
            budget.requests += got.requests
            budget.tokens += got.tokens
            raise
        if budget.warnings != warnings:  # the cooled bucket was emptied: there is nothing to return
            budget.busy -= 1
            return False
        return True

    async def _change(self, narrowest: str, name: str, budget: _LocalBudget, got: Grant, began: float) -> None:
        """Switch to another limit, and move the grant to the budget of that limit."""
        self._chosen[narrowest] = got.name
        other = self._budgets.setdefault(got.name, _LocalBudget())
        if got.requests and (got.wait or other.busy or other.asking.locked()):
            await self._database.persist(limits.give_back(got.name, requests=got.requests, tokens=got.tokens))
        elif got.requests:
            other.fill(got, began)
        if budget.seated:
            self._restated.put(name)

    def release(self, name: str, *, guessed: float, used: float) -> None:
        """End a request that used that many tokens; the tokens guessed in excess serve the next one."""
        budget = self._budgets[name]
        budget.busy -= 1
        budget.tokens += guessed - used
        if budget.seated or budget.tokens < 0:
            self._restated.put(name)

    async def _restate(self, names: list[str]) -> None:
        """Report to the database how many slots are in use, when this executor holds more than it needs, and the tokens
        used beyond the grant.
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
        """Stop all callers until the time that the provider named."""
        self._budgets[name].warn()
        await self._database.persist(limits.cool(name, seconds=seconds, reason=reason))

    async def failed(self, name: str, *, sent: float, reason: str) -> None:
        """Record a failed call, *sent* at that time. Calls in flight together count as one failure for the breaker."""
        budget = self._budgets[name]
        budget.warn()
        if sent < budget.failed_at:
            return
        budget.failed_at = time.monotonic()
        age = budget.failed_at - sent
        await self._database.persist(limits.tell(name, good=False, reason=reason, age=age))

    async def answered(self, name: str) -> None:
        """Record a successful call for the breaker."""
        if await self._database.persist(limits.tell(name, good=True)):
            self.closed(name)

    def closed(self, name: str) -> None:
        """Wake the jobs that sleep for this limit, after an answer has closed its breaker."""
        if name not in self._waking:
            self._waking[name] = asyncio.ensure_future(self._wake(name))
            self._waking[name].add_done_callback(lambda _: self._waking.pop(name))

    async def _wake(self, name: str) -> None:
        after = 0.0
        while len(await self._database.persist(limits.wake(name, after=after, limit=_PIECE))) == _PIECE:
            after += _SPREAD

    async def settled(self) -> None:
        """Wait until every report is written."""
        await self._restated.idle()
        while self._waking:
            await asyncio.wait(self._waking.values())


async def _sit_out(name: str, seconds: float) -> None:
    """Sleep here when the wait is short; otherwise suspend the job, which then waits in its queue."""
    if seconds > _LONGEST_WAIT:
        raise Suspend(AttemptEnding.POSTPONED, delay=seconds * random.uniform(1.0, 1.1), reason=f"limited: {name}")  # noqa: S311
    await asyncio.sleep(seconds * random.uniform(1.0, 1.5))  # noqa: S311 - jitter

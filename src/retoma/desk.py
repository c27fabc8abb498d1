"""The desk where calls are made: intent first, then the provider's leave, then the request, then the answer as it came,
and only then is it read. What was answered once is not asked again, and what was handed in once is not handed in again.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import TypeVar

from retoma.call import Opened, Price, Request
from retoma.database import Database
from retoma.endings import Reject
from retoma.intents import Intents
from retoma.limiter import Limiter
from retoma.model import Claim
from retoma.pricing import Prices, cost
from retoma.providers import (
    Allowance,
    Answer,
    AnswerUnreadable,
    ProviderError,
    ProviderRefused,
    ProviderTimeout,
    RateLimited,
    RequestRejected,
)
from retoma.providers.later import Pending, ResultLost
from retoma.steps import Suspend
from retoma.store import batches, calls
from retoma.store.calls import Settled

T = TypeVar("T")

_COOL_SECONDS = 5.0
_LONGEST_COOLING = 3600.0  # whatever a provider says: a wrong clock must not stop a model for years
_MINUTE = 60.0
_LEAST_PAUSE = 0.1  # seconds between two looks, whatever a service says
_NOBODY = 0  # the worker of those who ask for no job: its places are not counted


@dataclass(frozen=True, slots=True)
class Errand:
    """A request that is handed in and answered later."""

    submit: Callable[[], Awaitable[str]]
    look: Callable[[str, float], Awaitable[Answer | Pending]]
    """Its answer, if it is there by now: what *submit* gave, and how many seconds the look may take."""


class Desk:
    """Makes calls for the jobs of one executor; without a *worker_id*, for those who ask for no job."""

    def __init__(self, database: Database, worker_id: int | None, *, tenant: str = "") -> None:
        self.database = database
        self._intents = Intents(database, worker_id, tenant=tenant)
        self._limiter = Limiter(database, _NOBODY if worker_id is None else worker_id)
        self._prices = Prices(database)

    async def call(
        self, claim: Claim | None, step: str, request: Request, send: Callable[[], Awaitable[Answer]]
    ) -> Answer:
        """The answer to *request*: from the store, when an equal one was answered, else from the provider."""
        price = await self._prices.of(request.provider, request.model)

        async def make(found: Opened, key: str) -> Answer:
            id = _number(found)

            async def keep(answer: Answer) -> Answer:
                return await self._answered(id, answer, price)

            return await self._ask(claim, request, id, key, send, keep)

        return await self._intents.once(claim, step, request, price, make)

    async def fetch(self, claim: Claim | None, step: str, request: Request, errand: Errand) -> Answer:
        """As *call*, for a request that is handed in and answered later. Where it was handed in is written down: after
        a crash, whoever asks the same looks for that answer and pays for no other.
        """
        price = await self._prices.of(request.provider, request.model)

        async def make(found: Opened, key: str) -> Answer | None:
            id, until, operation = _number(found), time.monotonic() + request.timeout, found.operation

            async def keep(operation: str) -> str:
                await self.database.persist(calls.accept(id, operation))
                return operation

            if operation is None:
                operation = await self._ask(claim, request, id, key, errand.submit, keep)
            look = _Look(request, id, key, price, operation, errand.look, until)
            try:
                return await self._result(claim, look)
            except ResultLost:
                if found.operation is None:
                    raise
                return None  # it was handed in too long ago, or in vain: once more

        return await self._intents.once(claim, step, request, price, make)

    async def settled(self) -> None:
        """Come back when no answer is awaited any more."""
        await self._intents.settled()

    # — the request itself —

    async def _ask(
        self,
        claim: Claim | None,
        request: Request,
        id: int,
        key: str,
        send: Callable[[], Awaitable[T]],
        keep: Callable[[T], Awaitable[T]],
    ) -> T:
        guessed = max(1, request.input_tokens + request.output_tokens)
        try:
            limit = await self._limiter.enter(request.limits, guessed)
        except asyncio.CancelledError:
            _ = self._intents.beside(key, self._intents.withdraw(id))
            raise
        except BaseException:
            await self._intents.withdraw(id)
            raise
        # A handler that is stopped meanwhile does not take the answer along, for it is paid.
        exchange = self._intents.beside(key, self._exchange(id, limit, send, keep, guessed))
        try:
            return await asyncio.shield(exchange)
        except ProviderError as error:
            raise await self._ending(claim, request, limit, error) from error

    async def _exchange(
        self,
        id: int,
        limit: str,
        send: Callable[[], Awaitable[T]],
        keep: Callable[[T], Awaitable[T]],
        guessed: int,
    ) -> T:
        used = float(guessed)
        try:
            got = await send()
        except BaseException as error:
            if isinstance(error, ProviderError) and error.paid is False:
                used = 0.0
            await self._failed(id, error)
            raise
        else:
            if isinstance(got, Answer):
                used = got.usage.input_tokens + got.usage.output_tokens or used
            kept = await keep(got)
            await self._limiter.tell(limit, good=True)
            if isinstance(got, Answer) and got.allowance is not None:
                await self._heed(limit, got.allowance)
            return kept
        finally:
            await self._limiter.leave(limit, guessed=guessed, used=used)

    async def _heed(self, limit: str, left: Allowance) -> None:
        """Ask nothing of a provider that says nothing is left, until it says there is again. Some tell the time at
        which all will be back, so it is tried after a minute at the latest.
        """
        if 0 in (left.requests, left.tokens) and left.resets_in is not None and left.resets_in > 0:
            await self._limiter.cool(limit, min(left.resets_in, _MINUTE), "the provider says that nothing is left")

    async def _answered(self, id: int, answer: Answer, price: Price | None) -> Answer:
        """The answer as it came, once it is written down."""
        usage = answer.usage
        settled = Settled(
            answer=_kept(answer.raw),
            text=_kept(answer.text),
            finish=answer.finish,
            request_id=answer.request_id,
            cost=cost(usage, price),
            input_tokens=usage.input_tokens,
            output_tokens=usage.output_tokens,
            cached_tokens=usage.cached_tokens,
            units=usage.units,
        )
        await self.database.persist(calls.answer(id, settled))
        return replace(answer, text=settled.text)

    async def _failed(self, id: int, error: BaseException) -> None:
        paid = error.paid if isinstance(error, ProviderError) else None
        status, said, raw = _words(error)
        await self.database.persist(calls.fail(id, paid=paid, status=status, error=said, text=raw))

    # — what was handed in —

    async def _result(self, claim: Claim | None, look: _Look) -> Answer:
        """What is found in the end. No place of a limit is held in between, and who is stopped, or runs out of time,
        leaves it where the next finds it.
        """
        request, limit = look.request, look.request.looks[0]
        try:
            while True:
                limit = await self._limiter.enter(request.looks, 1)
                found = await self._looked(limit, look)
                if isinstance(found, Answer):
                    keeping = self._intents.beside(look.key, self._answered(look.id, found, look.price))
                    return await asyncio.shield(keeping)
                pause = max(found.seconds, _LEAST_PAUSE)
                if time.monotonic() + pause > look.until:
                    break
                await asyncio.sleep(pause)
        except ProviderError as error:
            await self._unfound(look.id, error)
            raise await self._ending(claim, request, limit, error) from error
        except BaseException:
            _ = self._intents.beside(look.key, self._intents.rest(look.id))
            raise
        await self._intents.rest(look.id)
        raise ProviderTimeout(
            f"{request.limit} has had it for {request.timeout:g} s and is not done.",
            next="It is handed in, and the next attempt waits for the same result. "
            "Give it more time if this happens often.",
            provider=request.provider,
            retry_after=pause,
        )

    async def _looked(self, limit: str, look: _Look) -> Answer | Pending:
        try:
            found = await look.at(look.operation, max(look.until - time.monotonic(), _LEAST_PAUSE))
        finally:
            await self._limiter.leave(limit, guessed=1, used=1)
        await self._limiter.tell(limit, good=True)
        return found

    async def _unfound(self, id: int, error: ProviderError) -> None:
        """A look that failed: when there will never be a result the call has failed, else the next may find it."""
        if isinstance(error, ResultLost | RequestRejected):
            await self._failed(id, error)
        else:
            status, said, raw = _words(error)
            await self._intents.rest(id, status=status, error=said, text=raw)

    # — after —

    async def _ending(self, claim: Claim | None, request: Request, limit: str, error: ProviderError) -> BaseException:
        """What a refused or failed request means for everybody, and for the job that made it."""
        if isinstance(error, RateLimited):
            seconds = min(max(error.retry_after or _COOL_SECONDS, 0.1), _LONGEST_COOLING)
            await self._limiter.cool(limit, seconds, "the provider limits requests")
            return error if claim is None else Suspend("postponed", delay=seconds, reason=f"limited: {limit}")
        if isinstance(error, ProviderRefused):
            if claim is None:
                return error
            if claim.batch_id is None:
                return Reject(str(error))
            await self.database.all(batches.pause(claim.batch_id, reason=f"refused by {request.provider}"))
            return Suspend("released", reason=f"refused by {request.provider}")
        if isinstance(error, RequestRejected):
            return error if claim is None else Reject(str(error))
        await self._limiter.tell(limit, good=False, reason=f"{type(error).__name__}")
        return error


@dataclass(frozen=True, slots=True)
class _Look:
    """What was handed in, and until when it is looked for."""

    request: Request
    id: int
    key: str
    price: Price | None
    operation: str
    at: Callable[[str, float], Awaitable[Answer | Pending]]
    until: float


def _number(found: Opened) -> int:
    assert found.opened is not None
    return found.opened


def _words(error: BaseException) -> tuple[int | None, str, str | None]:
    """The status of *error*, its words, and what came in place of an answer, as they can be kept."""
    status = error.status if isinstance(error, ProviderError) else None
    raw = error.raw if isinstance(error, AnswerUnreadable) else None
    return status, _kept(f"{type(error).__name__}: {error}"[:2000]), raw and _kept(raw)


def _kept(text: str) -> str:
    """*text* without what PostgreSQL cannot hold."""
    return text.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

"""Makes provider calls: record the intent, acquire the limit, send the request, record the raw answer, and only then
parse it. An answered request is not sent again, and a submitted one is not submitted again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from retoma.calls.call_events import CallEvents
from retoma.calls.consequences import Consequences
from retoma.calls.limiter import Limiter
from retoma.calls.planned_call import PlannedCall
from retoma.calls.prices import Prices
from retoma.calls.writer import CallWriter
from retoma.errors import LeaseLost
from retoma.model.call import Opened
from retoma.model.endings import Suspend
from retoma.model.job import AttemptEnding, Claim
from retoma.postgres.database import Database
from retoma.providers import Answer, ProviderError, ProviderTimeout, RequestRejected
from retoma.providers.deferred import Pending, ResultLost
from retoma.providers.request import DeferredRequest, Request
from retoma.store.calls import Intent

T = TypeVar("T")

_LONGEST_WAIT = 2.0  # seconds to wait in place for another caller's answer; past that the job goes back to its queue
_LEAST_PAUSE = 0.1  # seconds between two polls, whatever the service says
_NOBODY = 0  # the worker id for calls outside a job; its slots are not counted


class Caller:
    """Makes calls for the jobs of one executor, or, without a *worker_id*, for programs outside a job."""

    def __init__(
        self, database: Database, worker_id: int | None, *, tenant: str = "", unknown_price: str = "ask"
    ) -> None:
        self.database = database
        self._prices = Prices(database)
        self._limiter = Limiter(database, _NOBODY if worker_id is None else worker_id)
        self._writer = CallWriter(database, self._limiter, worker_id, tenant=tenant)
        self._consequences = Consequences(database, self._limiter, unknown_price=unknown_price)
        self._events = CallEvents(worker_id)
        self._opening: Counter[str] = Counter()
        self._under_way: dict[asyncio.Task[Any], str] = {}

    async def call(self, claim: Claim | None, step: str, request: Request[Any], *, kind: str = "first") -> Answer:
        """The answer to *request*: from the store when an equal request was answered before,
        otherwise from the provider.
        """
        price = await self._prices.of(request)
        key = request.key()
        call = PlannedCall(claim=claim, step=step, request=request, kind=kind, key=key, price=price)
        until = time.monotonic() + _LONGEST_WAIT
        while True:
            self._opening[key] += 1
            try:
                found = await self._open(call)
                if found.opened is not None:
                    answer = await self._make(call, found.opened, found.operation)
                    if answer is not None:
                        return answer
                    call = replace(call, kind="again")
                    continue
            finally:
                self._opening[key] -= 1
                if not self._opening[key]:
                    del self._opening[key]
            if found.known is not None:
                return await self._writer.known(found.known)
            if time.monotonic() > until and not found.ours:
                delay = random.uniform(1.0, 2.0)  # noqa: S311 - jitter
                raise Suspend(AttemptEnding.POSTPONED, delay=delay, reason=f"asked already: {request.limit}")
            await self._wait(key, found)

    async def unfit(self, numbers: Sequence[int]) -> None:
        """Mark these answers as unfit, so that no other job reuses them."""
        await self._writer.unfit(numbers)

    async def settled(self) -> None:
        """Wait until no call is in flight."""
        while self._under_way:
            await asyncio.wait(self._under_way)
        await self._limiter.settled()

    def _beside(self, key: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """Run *work* in a task that outlives the handler. The handler need not wait for it."""
        doing = asyncio.create_task(work)
        self._under_way[doing] = key
        doing.add_done_callback(self._under_way.pop)
        return doing

    # — the intent —

    async def _open(self, call: PlannedCall) -> Opened:
        """Record the intent. The result says whether it was written, or an equal request was
        answered or is in flight.
        """
        intent, claim = call.intent(), call.claim
        found = await self._written(intent)
        if claim is None or found.operation is not None:
            return found
        if not found.mine:
            raise LeaseLost(f"Job {claim.id} was given to another worker; {call.request.limit} was not asked.")
        if found.known is not None or found.asked is not None:
            return found
        if found.opened is None:
            raise await self._consequences.unpaid(claim.batch_id or 0, intent.reserved)
        if self._consequences.must_not_ask(call, found):
            await self._writer.withdraw(found.opened)
            raise await self._consequences.refusal(claim, call, found)
        return found

    async def _written(self, intent: Intent) -> Opened:
        """Write the intent. If the handler is cancelled first, the intent is deleted, because no request was sent."""
        writing = self._writer.open(intent)
        try:
            found = await asyncio.shield(writing)
        except asyncio.CancelledError:
            _ = self._beside(intent.key, self._unwritten(writing))
            raise
        if isinstance(found, Exception):
            raise found
        return found

    async def _unwritten(self, writing: Awaitable[Opened | Exception]) -> None:
        with contextlib.suppress(Exception):  # an error here means that nothing was written
            found = await writing
            if isinstance(found, Opened) and found.opened is not None:
                await self._writer.take_back(found.opened)

    async def _wait(self, key: str, found: Opened) -> None:
        """Wait a moment while an equal request is in flight. An open call of this worker without a local task was never
        sent, or is no longer polled: it is taken back.
        """
        if found.here and found.asked and not self._opening[key] and key not in self._under_way.values():
            await self._writer.take_back(found.asked)
        else:
            await asyncio.sleep(random.uniform(0.1, 0.3))  # noqa: S311 - jitter

    # — the request —

    async def _make(self, call: PlannedCall, id: int, operation: str | None) -> Answer | None:
        """The answer for a recorded intent, or for an *operation* that was submitted before; None when that operation
        will never have a result.
        """
        request = call.request
        if not isinstance(request, DeferredRequest):
            return await self._ask(call, id, request.send, self._keep_answer)
        until = time.monotonic() + request.timeout
        submitted = operation
        if submitted is None:
            submitted = await self._ask(call, id, request.submit, self._keep_operation)
        try:
            return await self._poll(call, request, id, submitted, until)
        except ResultLost:
            if operation is None:
                raise
            return None  # submitted too long ago, or without success: submit again

    async def _ask(
        self,
        call: PlannedCall,
        id: int,
        send: Callable[[], Awaitable[T]],
        keep: Callable[[PlannedCall, int, T, str], Awaitable[T]],
    ) -> T:
        guessed = call.tokens
        try:
            limit = await self._limiter.acquire(call.request.limits, guessed)
        except asyncio.CancelledError:
            _ = self._beside(call.key, self._writer.withdraw(id))
            raise
        except BaseException:
            await self._writer.withdraw(id)
            raise
        # The exchange runs in its own task: the answer is paid for, so it is recorded even when the
        # handler is cancelled.
        sent = time.monotonic()
        exchange = self._beside(call.key, self._exchange(call, id, limit, guessed, send, keep))
        try:
            return await asyncio.shield(exchange)
        except ProviderError as error:
            raise await self._consequences.failure(call, limit, error, sent) from error

    async def _exchange(
        self,
        call: PlannedCall,
        id: int,
        limit: str,
        guessed: int,
        send: Callable[[], Awaitable[T]],
        keep: Callable[[PlannedCall, int, T, str], Awaitable[T]],
    ) -> T:
        used = float(guessed)
        request_sent = self._events.started(call, id)
        try:
            got = await send()
        except BaseException as error:
            if isinstance(error, ProviderError) and error.paid is False:
                used = 0.0
            await self._writer.fail(id, error)
            request_sent.failed(error)
            raise
        else:
            if isinstance(got, Answer):
                used = got.usage.input_tokens + got.usage.output_tokens or used
            kept = await keep(call, id, got, limit)
            request_sent.answered(got)
            return kept
        finally:
            self._limiter.release(limit, guessed=guessed, used=used)

    async def _keep_answer(self, call: PlannedCall, id: int, answer: Answer, limit: str) -> Answer:
        kept = await self._writer.answer(id, answer, call.price, limit)
        if answer.allowance is not None:
            await self._consequences.heed(limit, answer.allowance)
        return kept

    async def _keep_operation(self, _: PlannedCall, id: int, operation: str, limit: str) -> str:
        await self._writer.accept(id, operation)
        await self._limiter.answered(limit)
        return operation

    # — submitted operations —

    async def _poll(
        self, call: PlannedCall, request: DeferredRequest[Any], id: int, operation: str, until: float
    ) -> Answer:
        """Poll until the answer is there. Between two polls no slot of a limit is held. A cancelled or timed-out poll
        leaves the operation recorded, so that the next attempt continues it.
        """
        limit, sent = request.looks[0], time.monotonic()
        request_sent = self._events.started(call, id)
        try:
            while True:
                limit = await self._limiter.acquire(request.looks, 1)
                sent = time.monotonic()
                found = await self._look(request, limit, operation, until)
                if isinstance(found, Answer):
                    keeping = self._beside(call.key, self._writer.answer(id, found, call.price, limit))
                    kept = await asyncio.shield(keeping)
                    request_sent.answered(found)
                    return kept
                pause = max(found.seconds, _LEAST_PAUSE)
                if time.monotonic() + pause > until:
                    break
                await asyncio.sleep(pause)
        except ProviderError as error:
            # When there will never be a result, the call has failed. Otherwise the next poll may find it.
            request_sent.failed(error)
            lost = isinstance(error, ResultLost | RequestRejected)
            await (self._writer.fail(id, error) if lost else self._writer.rest(id, error))
            raise await self._consequences.failure(call, limit, error, sent) from error
        except BaseException as error:
            request_sent.failed(error)
            _ = self._beside(call.key, self._writer.rest(id))
            raise
        await self._writer.rest(id)
        request_sent.submitted()
        raise ProviderTimeout(
            f"{request.limit} has had it for {request.timeout:g} s and is not done.",
            next="It is handed in, and the next attempt waits for the same result. "
            "Give it more time if this happens often.",
            provider=request.provider,
            retry_after=pause,
        )

    async def _look(self, request: DeferredRequest[Any], limit: str, operation: str, until: float) -> Answer | Pending:
        try:
            found = await request.look(operation, timeout=max(until - time.monotonic(), _LEAST_PAUSE))
        finally:
            self._limiter.release(limit, guessed=1, used=1)
        await self._limiter.answered(limit)
        return found

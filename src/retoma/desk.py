"""The desk where calls are made: intent first, then the provider's leave, then the request, then the answer as it came,
and only then is it read. What was answered once is not asked again.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from decimal import Decimal
from typing import Any, TypeVar

import orjson
from psycopg.errors import UniqueViolation

from retoma.call import Opened, Price, Request
from retoma.database import Database
from retoma.endings import Reject, Review
from retoma.errors import ConfigurationError, LeaseLost
from retoma.limiter import Limiter
from retoma.model import Claim
from retoma.pricing import Prices, cost
from retoma.providers import (
    Answer,
    AnswerUnreadable,
    ProviderError,
    ProviderRefused,
    RateLimited,
    RequestRejected,
    Usage,
)
from retoma.steps import Suspend
from retoma.store import batches, calls
from retoma.store.calls import Intent, Settled

T = TypeVar("T")

_COOL_SECONDS = 5.0
_LONGEST_WAIT = 2.0  # seconds to wait in place for another's answer; past that a job waits in its queue
_SLACK = 10.0  # seconds that a request may take beside its own: the limiter's wait, and the writing down


class Desk:
    """Makes calls for the jobs of one executor."""

    def __init__(self, database: Database, worker_id: int, *, tenant: str = "") -> None:
        self._database = database
        self._worker_id = worker_id
        self._tenant = tenant
        self._limiter = Limiter(database, worker_id)
        self._prices = Prices(database)
        self._opening: Counter[str] = Counter()
        self._under_way: dict[asyncio.Task[Any], str] = {}

    async def call(self, claim: Claim, step: str, request: Request, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer to *request*: from the store, when an equal one was answered, else from the provider."""
        price = await self._prices.of(request.provider, request.model)
        key = request.key()
        until = time.monotonic() + _LONGEST_WAIT
        while True:
            self._opening[key] += 1
            try:
                found = await self._open(claim, step, request, key, price)
                if found.opened is not None:
                    return await self._ask(claim, request, found.opened, key, send, price)
            finally:
                self._opening[key] -= 1
                self._opening += Counter()  # forgets what is zero
            if found.known is not None:
                return await self._known(found.known)
            if time.monotonic() > until and not found.ours:
                raise Suspend("postponed", delay=random.uniform(1.0, 2.0), reason=f"asked already: {request.limit}")  # noqa: S311
            await self._wait(key, found)

    async def settled(self) -> None:
        """Come back when no answer is awaited any more."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    # — before —

    async def _open(self, claim: Claim, step: str, request: Request, key: str, price: Price | None) -> Opened:
        """What became of the intent: it was written, or an equal request was answered, or is asked now."""
        guess = Usage(input_tokens=request.input_tokens, output_tokens=request.output_tokens, units=request.units)
        intent = Intent(
            tenant=self._tenant,
            key=key,
            provider=request.provider,
            model=request.model,
            job_id=claim.id,
            fence=claim.fence,
            worker_id=self._worker_id,
            step=step,
            kind=request.kind,
            request=orjson.dumps(request.body).decode(),
            reserved=cost(guess, price),
            reuse=request.reuse,
            patience=request.timeout + _SLACK,
        )
        found = await self._written(intent)
        if not found.mine:
            raise LeaseLost(f"Job {claim.id} was given to another worker; {request.limit} was not asked.")
        if found.known is not None or found.asked is not None:
            return found
        if found.opened is None:
            await self._database.all(batches.pause(claim.batch_id or 0, reason="budget"))
            raise Suspend("released", reason="budget")
        if found.budget is not None and price is None and request.bills:
            await self._database.all(calls.withdraw(found.opened))
            per = "--unit …" if request.units else "--input … --output …"
            raise ConfigurationError(
                f"Batch {claim.batch_id} has a budget, and nobody knows what {request.limit} costs.",
                next=f"Say so: retoma prices set {request.provider} {request.model} {per}",
            )
        if found.doubts and request.in_doubt == "hold":
            await self._database.all(calls.withdraw(found.opened))
            raise Review(None, reason=f"the answer of {request.limit} to step {step!r} is in doubt")
        return found

    async def _written(self, intent: Intent) -> Opened:
        """What the statement says. Who is stopped meanwhile takes the intent back: nothing was asked."""
        writing = asyncio.ensure_future(self._database.all(calls.open(intent)))
        try:
            return (await asyncio.shield(writing))[0]
        except asyncio.CancelledError:
            _ = self._beside(intent.key, self._unwritten(writing))
            raise
        except UniqueViolation:  # another was quicker by less than a statement
            return Opened(mine=True, known=None, opened=None, doubts=0, budget=None, asked=0, here=False, ours=False)

    async def _unwritten(self, writing: Awaitable[list[Opened]]) -> None:
        with contextlib.suppress(Exception):  # then nothing was written, or who asks next takes it back
            if (id := (await writing)[0].opened) is not None:
                await self._database.persist(calls.withdraw(id))

    async def _withdraw(self, id: int) -> None:
        await self._database.persist(calls.withdraw(id))

    def _beside(self, key: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """*work*, seen through whatever becomes of the handler, which need not wait for it."""
        doing = asyncio.create_task(work)
        self._under_way[doing] = key
        doing.add_done_callback(self._under_way.pop)
        return doing

    async def _wait(self, key: str, found: Opened) -> None:
        """A moment, while an equal request is under way. One of our own that nobody here knows of was never made."""
        if found.here and found.asked and not self._opening[key] and key not in self._under_way.values():
            await self._withdraw(found.asked)
        else:
            await asyncio.sleep(random.uniform(0.1, 0.3))  # noqa: S311 - not all at once

    async def _known(self, id: int) -> Answer:
        call = (await self._database.all(calls.one(id)))[0]
        return Answer(
            raw=call.answer or "",
            text=call.text or "",
            model=call.model,
            usage=Usage(cost=Decimal(0)),
            request_id=call.request_id,
            finish=call.finish,
        )

    # — the request itself —

    async def _ask(
        self,
        claim: Claim,
        request: Request,
        id: int,
        key: str,
        send: Callable[[], Awaitable[Answer]],
        price: Price | None,
    ) -> Answer:
        guessed = max(1, request.input_tokens + request.output_tokens)
        try:
            limit = await self._limiter.enter(request.limits, guessed)
        except asyncio.CancelledError:
            _ = self._beside(key, self._withdraw(id))
            raise
        except BaseException:
            await self._withdraw(id)
            raise
        # A handler that is stopped meanwhile does not take the answer along, for it is paid.
        exchange = self._beside(key, self._exchange(id, limit, send, price, guessed))
        try:
            return await asyncio.shield(exchange)
        except ProviderError as error:
            raise await self._ending(claim, request, limit, error) from error

    async def _exchange(
        self, id: int, limit: str, send: Callable[[], Awaitable[Answer]], price: Price | None, guessed: int
    ) -> Answer:
        used = float(guessed)
        try:
            answer = await send()
        except BaseException as error:
            paid = error.paid if isinstance(error, ProviderError) else None
            status = error.status if isinstance(error, ProviderError) else None
            used = 0.0 if paid is False else used
            said = f"{type(error).__name__}: {error}"[:2000]
            raw = error.raw if isinstance(error, AnswerUnreadable) else None
            failed = calls.fail(id, paid=paid, status=status, error=_kept(said), text=raw and _kept(raw))
            await self._database.persist(failed)
            raise
        else:
            usage = answer.usage
            used = usage.input_tokens + usage.output_tokens or used
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
            await self._database.persist(calls.answer(id, settled))
            await self._limiter.tell(limit, good=True)
            return replace(answer, text=settled.text)
        finally:
            await self._limiter.leave(limit, guessed=guessed, used=used)

    async def _ending(self, claim: Claim, request: Request, limit: str, error: ProviderError) -> BaseException:
        """What a refused or failed request means for the job that made it."""
        if isinstance(error, RateLimited):
            seconds = max(error.retry_after or _COOL_SECONDS, 0.1)
            await self._limiter.cool(limit, seconds, "the provider limits requests")
            return Suspend("postponed", delay=seconds, reason=f"limited: {limit}")
        if isinstance(error, ProviderRefused):
            if claim.batch_id is None:
                return Reject(str(error))
            await self._database.all(batches.pause(claim.batch_id, reason=f"refused by {request.provider}"))
            return Suspend("released", reason=f"refused by {request.provider}")
        if isinstance(error, RequestRejected):
            return Reject(str(error))
        await self._limiter.tell(limit, good=False, reason=f"{type(error).__name__}")
        return error


def _kept(text: str) -> str:
    """*text* without what PostgreSQL cannot hold."""
    return text.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")

"""The desk where calls are made: intent first, then the provider's leave, then the request, then the answer as it came,
and only then is it read. What was answered once is not asked again.
"""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Any

import orjson

from retoma.call import Price
from retoma.database import Database
from retoma.endings import Reject, Review
from retoma.errors import ConfigurationError, LeaseLost
from retoma.limiter import Limiter
from retoma.model import Claim
from retoma.pricing import publicly_known
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

_COOL_SECONDS = 5.0
_PRICE_SECONDS = 60.0  # how long a price that was read is taken for today's


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """A request to a provider, as far as the desk cares."""

    provider: str
    model: str
    body: Mapping[str, Any]
    """What makes it equal to another: plain JSON."""
    input_tokens: int
    output_tokens: int
    """At most."""
    units: int = 0
    kind: str = "first"
    reuse: bool = True
    in_doubt: str = "retry"
    """What to do when an earlier attempt asked and nobody knows the answer: "retry" or "hold"."""

    @property
    def limit(self) -> str:
        """The name of the limit that it counts against."""
        return f"{self.provider}/{self.model}"

    def key(self) -> str:
        """The same for equal requests, whoever makes them."""
        said = {"provider": self.provider, "model": self.model, "body": self.body}
        return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()


class Desk:
    """Makes calls for the jobs of one executor."""

    def __init__(self, database: Database, worker_id: int, *, tenant: str = "") -> None:
        self._database = database
        self._worker_id = worker_id
        self._tenant = tenant
        self._limiter = Limiter(database, worker_id)
        self._prices: dict[tuple[str, str], tuple[float, Price | None]] = {}
        self._under_way: set[asyncio.Task[Answer]] = set()

    async def call(self, claim: Claim, step: str, request: Request, send: Callable[[], Awaitable[Answer]]) -> Answer:
        """The answer to *request*: from the store, when an equal one was answered, else from the provider."""
        price = await self._price(request)
        opened = await self._open(claim, step, request, price)
        if isinstance(opened, Answer):
            return opened
        guessed = request.input_tokens + request.output_tokens
        try:
            await self._limiter.enter(request.limit, guessed)
        except BaseException:
            await self._database.persist(calls.withdraw(opened))
            raise
        # A task of its own: a handler that is stopped meanwhile does not take the answer along, for it is paid.
        exchange = asyncio.create_task(self._exchange(opened, request, send, price, guessed))
        self._under_way.add(exchange)
        exchange.add_done_callback(self._under_way.discard)
        try:
            return await asyncio.shield(exchange)
        except ProviderError as error:
            raise await self._ending(claim, request, error) from error

    async def settled(self) -> None:
        """Come back when no answer is awaited any more."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    # — before —

    async def _price(self, request: Request) -> Price | None:
        """The price that holds; one that nobody set is taken from what is publicly known, and written down."""
        key = (request.provider, request.model)
        read_at, price = self._prices.get(key, (0.0, None))
        if time.monotonic() > read_at + _PRICE_SECONDS:
            rows = await self._database.all(calls.price(*key))
            if not rows and (known := publicly_known(*key)):
                fresh, cached, output = known
                new = calls.set_price(
                    *key, input=fresh, cached=cached, output=output, source="genai-prices", replace=False
                )
                await self._database.all(new)
                rows = await self._database.all(calls.price(*key))
            price = rows[0] if rows else None
            self._prices[key] = (time.monotonic(), price)
        return price

    async def _open(self, claim: Claim, step: str, request: Request, price: Price | None) -> int | Answer:
        """The number of the intent that was written, or the answer to an equal request."""
        guess = Usage(input_tokens=request.input_tokens, output_tokens=request.output_tokens, units=request.units)
        intent = Intent(
            tenant=self._tenant,
            key=request.key(),
            provider=request.provider,
            model=request.model,
            job_id=claim.id,
            fence=claim.fence,
            worker_id=self._worker_id,
            step=step,
            kind=request.kind,
            request=orjson.dumps(request.body).decode(),
            reserved=_cost(guess, price),
            reuse=request.reuse,
        )
        found = (await self._database.all(calls.open(intent)))[0]
        if not found.mine:
            raise LeaseLost(f"Job {claim.id} was given to another worker; {request.limit} was not asked.")
        if found.known is not None:
            return await self._known(found.known)
        if found.opened is None:
            await self._database.all(batches.pause(claim.batch_id or 0, reason="budget"))
            raise Suspend("released", reason="budget")
        if found.budget is not None and price is None:
            await self._database.all(calls.withdraw(found.opened))
            raise ConfigurationError(
                f"Batch {claim.batch_id} has a budget, and nobody knows what {request.limit} costs.",
                next=f"Say so: retoma prices set {request.provider} {request.model} --input … --output …",
            )
        if found.doubts and request.in_doubt == "hold":
            await self._database.all(calls.withdraw(found.opened))
            raise Review(None, reason=f"the answer of {request.limit} to step {step!r} is in doubt")
        return found.opened

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

    async def _exchange(
        self, id: int, request: Request, send: Callable[[], Awaitable[Answer]], price: Price | None, guessed: int
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
                cost=_cost(usage, price),
                input_tokens=usage.input_tokens,
                output_tokens=usage.output_tokens,
                cached_tokens=usage.cached_tokens,
                units=usage.units,
            )
            await self._database.persist(calls.answer(id, settled))
            await self._limiter.tell(request.limit, good=True)
            return replace(answer, text=settled.text)
        finally:
            await self._limiter.leave(request.limit, guessed=guessed, used=used)

    async def _ending(self, claim: Claim, request: Request, error: ProviderError) -> BaseException:
        """What a refused or failed request means for the job that made it."""
        name = request.limit
        if isinstance(error, RateLimited):
            seconds = max(error.retry_after or _COOL_SECONDS, 0.1)
            await self._limiter.cool(name, seconds, "the provider limits requests")
            return Suspend("postponed", delay=seconds, reason=f"limited: {name}")
        if isinstance(error, ProviderRefused):
            if claim.batch_id is None:
                return Reject(str(error))
            await self._database.all(batches.pause(claim.batch_id, reason=f"refused by {request.provider}"))
            return Suspend("released", reason=f"refused by {request.provider}")
        if isinstance(error, RequestRejected):
            return Reject(str(error))
        await self._limiter.tell(name, good=False, reason=f"{type(error).__name__}")
        return error


def _kept(text: str) -> str:
    """*text* without what PostgreSQL cannot hold."""
    return text.replace("\0", "\ufffd").encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _cost(usage: Usage, price: Price | None) -> Decimal:
    """What the provider says it cost, else what the table of prices says, else nothing."""
    if usage.cost is not None:
        return usage.cost
    if price is None:
        return Decimal(0)
    return price.cost(
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        units=usage.units,
    )

"""What is written down before a provider is asked, and what is found there instead of asking."""

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
from retoma.database import Database, fetch
from retoma.endings import Review
from retoma.errors import ConfigurationError, LeaseLost
from retoma.model import Claim
from retoma.pricing import cost
from retoma.providers import Answer, Usage
from retoma.steps import Suspend
from retoma.store import batches, calls
from retoma.store.calls import Intent

T = TypeVar("T")

_LONGEST_WAIT = 2.0  # seconds to wait in place for another's answer; past that a job waits in its queue
_SLACK = 10.0  # seconds that a request may take beside its own: the limiter's wait, and the writing down


class Intents:
    """The intents of one executor, or of a program that asks for no job: then there is no *worker_id*."""

    def __init__(self, database: Database, worker_id: int | None, *, tenant: str) -> None:
        self._database = database
        self._worker_id = worker_id
        self._tenant = tenant
        self._opening: Counter[str] = Counter()
        self._under_way: dict[asyncio.Task[Any], str] = {}

    async def once(
        self,
        claim: Claim | None,
        step: str,
        request: Request,
        price: Price | None,
        make: Callable[[Opened, str], Awaitable[Answer | None]],
    ) -> Answer:
        """The answer to *request*: from the store, when an equal one was answered, else what *make* gets for the
        intent; when that is None it came to nothing, and another is opened.
        """
        key = request.key()
        until = time.monotonic() + _LONGEST_WAIT
        while True:
            self._opening[key] += 1
            try:
                found = await self._open(claim, step, request, key, price)
                if found.opened is not None:
                    if (answer := await make(found, key)) is not None:
                        return answer
                    request = replace(request, kind="again")
                    continue
            finally:
                self._opening[key] -= 1
                self._opening += Counter()  # forgets what is zero
            if found.known is not None:
                return await self._known(found.known)
            if time.monotonic() > until and not found.ours:
                raise Suspend("postponed", delay=random.uniform(1.0, 2.0), reason=f"asked already: {request.limit}")  # noqa: S311
            await self._wait(key, found)

    def beside(self, key: str, work: Coroutine[Any, Any, T]) -> asyncio.Task[T]:
        """*work*, seen through whatever becomes of the handler, which need not wait for it."""
        doing = asyncio.create_task(work)
        self._under_way[doing] = key
        doing.add_done_callback(self._under_way.pop)
        return doing

    async def settled(self) -> None:
        """Come back when nothing is under way any more."""
        while self._under_way:
            await asyncio.wait(self._under_way)

    async def withdraw(self, id: int) -> None:
        """Take an intent back: nothing was asked."""
        await self._database.persist(calls.withdraw(id))

    async def rest(self, id: int, **why: Any) -> None:
        """Leave what was handed in to whoever asks for it next."""
        if self._worker_id is not None:
            await self._database.persist(calls.rest(id, worker_id=self._worker_id, **why))

    async def _open(self, claim: Claim | None, step: str, request: Request, key: str, price: Price | None) -> Opened:
        """What became of the intent: it was written, or an equal request was answered, or is asked now."""
        guess = Usage(input_tokens=request.input_tokens, output_tokens=request.output_tokens, units=request.units)
        intent = Intent(
            tenant=self._tenant,
            key=key,
            provider=request.provider,
            model=request.model,
            job_id=claim.id if claim else None,
            fence=claim.fence if claim else None,
            worker_id=self._worker_id,
            step=step,
            kind=request.kind,
            request=orjson.dumps(request.body).decode(),
            reserved=cost(guess, price),
            reuse=request.reuse,
            patience=request.timeout + _SLACK,
            kept=request.kept,
        )
        found = await self._written(intent)
        if claim is None or found.operation is not None:
            return found
        if not found.mine:
            raise LeaseLost(f"Job {claim.id} was given to another worker; {request.limit} was not asked.")
        if found.known is not None or found.asked is not None:
            return found
        if found.opened is None:
            raise await self._unpaid(claim.batch_id or 0, intent.reserved)
        await self._judge(claim, step, request, found, found.opened, price)
        return found

    async def _unpaid(self, batch_id: int, needed: Decimal) -> Suspend:
        """The batch is paused when its budget is used up. While others hold what they may not need, it is only waited
        for: most requests cost less than was reserved for them.
        """
        async with self._database.transaction() as connection:
            await fetch(connection, batches.hold(batch_id))
            paused = await fetch(connection, batches.pause(batch_id, reason="budget", needed=needed))
        if paused:
            return Suspend("released", reason="budget")
        return Suspend("postponed", delay=random.uniform(0.5, 1.5), reason="budget: others are under way")  # noqa: S311

    async def _judge(
        self, claim: Claim, step: str, request: Request, found: Opened, opened: int, price: Price | None
    ) -> None:
        """Take the intent back, and say why, when it must not become a request."""
        if found.budget is not None and price is None and request.bills:
            await self._database.all(calls.withdraw(opened))
            per = "--unit …" if request.units else "--input … --output …"
            raise ConfigurationError(
                f"Batch {claim.batch_id} has a budget, and nobody knows what {request.limit} costs.",
                next=f"Say so: retoma prices set {request.provider} {request.model} {per}",
            )
        if found.doubts and request.in_doubt == "hold":
            await self._database.all(calls.withdraw(opened))
            raise Review(None, reason=f"the answer of {request.limit} to step {step!r} is in doubt")

    async def _written(self, intent: Intent) -> Opened:
        """What the statement says. Who is stopped meanwhile takes the intent back: nothing was asked."""
        writing = asyncio.ensure_future(self._database.all(calls.open(intent)))
        try:
            return (await asyncio.shield(writing))[0]
        except asyncio.CancelledError:
            _ = self.beside(intent.key, self._unwritten(writing))
            raise
        except UniqueViolation:  # another was quicker by less than a statement
            return Opened(
                mine=True,
                known=None,
                opened=None,
                doubts=0,
                budget=None,
                asked=0,
                here=False,
                ours=False,
                operation=None,
            )

    async def _unwritten(self, writing: Awaitable[list[Opened]]) -> None:
        with contextlib.suppress(Exception):  # then nothing was written, or who asks next takes it back
            if (id := (await writing)[0].opened) is not None:
                await self._take_back(id)

    async def _take_back(self, id: int) -> None:
        """Nobody here is about to ask: what was never a request goes, and what was handed in waits for the next."""
        await self.withdraw(id)
        await self.rest(id)

    async def _wait(self, key: str, found: Opened) -> None:
        """A moment, while an equal request is under way. One of our own that nobody here knows of was never made, or is
        not looked for.
        """
        if found.here and found.asked and not self._opening[key] and key not in self._under_way.values():
            await self._take_back(found.asked)
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

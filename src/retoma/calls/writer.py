"""Writes the record of calls. Concurrent intents share a statement, and so do concurrent answers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
from psycopg.errors import UniqueViolation

from retoma.calls.limiter import Limiter
from retoma.calls.prices import Tariff
from retoma.model.call import Opened
from retoma.postgres.database import Database
from retoma.postgres.faults import UNAVAILABLE
from retoma.providers import Answer, AnswerUnreadable, ProviderError, Usage
from retoma.store import calls
from retoma.store.calls import Intent, Settled
from retoma.store.query import Query
from retoma.system.concurrency import Coalescer
from retoma.values.text import storable

_MOST_TOGETHER = 100
_MOST_BYTES = 8_000_000  # bytes of requests, or of answers, in one statement
NOT_OURS = Opened(
    mine=False,
    known=None,
    opened=None,
    doubts=0,
    budget=None,
    asked=None,
    here=False,
    ours=False,
    operation=None,
)
"""Another worker holds the job, so nothing was written."""
_TOO_LATE = NOT_OURS._replace(mine=True, asked=0)
"""A concurrent statement recorded an equal call first."""


class CallWriter:
    """Writes the calls of one executor, or, without a *worker_id*, of a program outside a job."""

    def __init__(self, database: Database, limiter: Limiter, worker_id: int | None, *, tenant: str) -> None:
        self._database = database
        self._limiter = limiter
        self._worker_id = worker_id
        self._tenant = tenant
        self._opened: Coalescer[Intent, Opened | Exception] = Coalescer(self._open, most=_MOST_TOGETHER)
        self._answered: Coalescer[tuple[Settled, str], Exception | None] = Coalescer(self._answer)

    # — before the request —

    def open(self, intent: Intent) -> asyncio.Future[Opened | Exception]:
        """Record *intent*. The future completes even when the caller is cancelled."""
        return self._opened.put(intent)

    async def withdraw(self, id: int) -> None:
        """Delete an intent whose request was not sent."""
        await self._database.persist(calls.withdraw(id))

    async def take_back(self, id: int) -> None:
        """Give up a call that has no local task: delete it if it was never sent, and leave it to the next
        attempt if it was submitted.
        """
        await self.withdraw(id)
        await self.rest(id)

    async def _open(self, intents: list[Intent]) -> list[Opened | Exception]:
        """Record the intents in as few statements as possible. Those that cannot share a statement follow one another:
        two that could share an answer, two of one step, and those beyond the size limit.
        """
        found: dict[int, Opened | Exception] = {}
        left = dict(enumerate(intents))
        while left:
            now: dict[object, int] = {}
            size = 0
            for place, each in left.items():
                same = each.key if each.reuse else (each.key, each.job_id, each.step)
                if same in now or (now and size + len(each.request) > _MOST_BYTES):
                    continue
                now[same] = place
                size += len(each.request)
            places = list(now.values())
            found.update(zip(places, await self._open_piece([left.pop(place) for place in places]), strict=True))
        return [found[place] for place in range(len(intents))]

    async def _open_piece(self, intents: list[Intent]) -> list[Opened | Exception]:
        try:
            rows = await self._repeated(intents)
        except (psycopg.Error, ValueError, TypeError) as error:
            if len(intents) > 1:  # one of them is invalid: write each alone, so that the others succeed
                return [found for each in intents for found in await self._open_piece([each])]
            return [_TOO_LATE if isinstance(error, UniqueViolation) else error]
        return [rows.get(place, NOT_OURS) for place in range(1, len(intents) + 1)]

    async def _repeated(self, intents: list[Intent]) -> dict[int, Opened]:
        """Record the intents, and repeat the statement when its outcome is unknown. A repeated statement may find the
        intent that it wrote itself; no task makes that call, so it is taken back.
        """
        try:
            rows = await self._database.all(self._query(intents))
        except UNAVAILABLE:
            rows = await self._database.persist(self._query([replace(each, before=True) for each in intents]))
        return dict(rows)

    def _query(self, intents: list[Intent]) -> Query[tuple[int, Opened]]:
        return calls.open(intents, tenant=self._tenant, worker_id=self._worker_id)

    # — after the request —

    async def known(self, id: int) -> Answer:
        """The recorded answer of call *id*."""
        call = (await self._database.persist(calls.one(id)))[0]
        return Answer(
            raw=call.answer or "",
            text=call.text or "",
            model=call.model,
            usage=Usage(cost=Decimal(0)),
            request_id=call.request_id,
            finish=call.finish,
            call=id,
        )

    async def accept(self, id: int, operation: str) -> None:
        """Record that the provider accepted the request and will answer under *operation*."""
        await self._database.persist(calls.accept(id, operation))

    async def rest(self, id: int, error: ProviderError | None = None) -> None:
        """Leave a submitted operation to the next attempt; *error* is why the last poll failed."""
        if self._worker_id is not None:
            why = {} if error is None else _words(error)
            await self._database.persist(calls.rest(id, worker_id=self._worker_id, **why))

    async def fail(self, id: int, error: BaseException) -> None:
        """Record that there is no answer. Whether the call was billed may be unknown."""
        paid = error.paid if isinstance(error, ProviderError) else None
        await self._database.persist(calls.fail(id, paid=paid, **_words(error)))

    async def unfit(self, numbers: Sequence[int]) -> None:
        """Mark these answers as unfit, so that no other job reuses them."""
        if numbers:
            await self._database.persist(calls.unfit(numbers))

    async def answer(self, id: int, answer: Answer, price: Tariff, limit: str) -> Answer:
        """Record the raw answer and return it. It counts as a success for *limit*."""
        settled = _settled(id, answer, price)
        error = await self._answered((settled, limit))
        if error is not None:
            raise error
        return replace(answer, text=settled.text, call=id)

    async def _answer(self, answers: list[tuple[Settled, str]]) -> list[Exception | None]:
        """Record answers together, in statements of bounded size. A refused answer does not affect the others."""
        results: dict[int, Exception | None] = {}
        left = sorted(answers, key=lambda each: each[0].id)
        while left:
            size = 0
            for many, (settled, _) in enumerate(left):
                size += len(settled.answer) + len(settled.text)
                if many and size > _MOST_BYTES:
                    break
            else:
                many = len(left)
            piece, left = left[:many], left[many:]
            results.update(await self._answer_piece(piece))
        return [results[settled.id] for settled, _ in answers]

    async def _answer_piece(self, piece: list[tuple[Settled, str]]) -> dict[int, Exception | None]:
        limits = sorted({limit for _, limit in piece})
        try:
            rows = await self._database.persist(calls.answer([settled for settled, _ in piece], limits=limits))
        except Exception as error:  # noqa: BLE001 - passed on to the caller that waits for it
            if len(piece) == 1:
                return {piece[0][0].id: error}
            found: dict[int, Exception | None] = {}
            for each in piece:
                found.update(await self._answer_piece([each]))
            return found
        for _, closed in rows:
            if closed is not None:
                self._limiter.closed(closed)
        return dict.fromkeys((settled.id for settled, _ in piece), None)


def _settled(id: int, answer: Answer, price: Tariff) -> Settled:
    usage = answer.usage
    cost = price.cost(usage, model=answer.model)
    return Settled(
        id=id,
        answer=storable(answer.raw),
        text=storable(answer.text),
        finish=answer.finish,
        request_id=answer.request_id,
        cost=cost.amount,
        input_tokens=usage.input_tokens,
        output_tokens=usage.output_tokens,
        cached_tokens=usage.cached_tokens,
        units=usage.units,
        tier=usage.tier,
        cost_basis=cost.basis,
        cache_write_tokens=usage.cache_write_tokens,
        cache_write_1h_tokens=usage.cache_write_1h_tokens,
        reasoning_tokens=usage.reasoning_tokens,
        audio_input_tokens=usage.audio_input_tokens,
        audio_output_tokens=usage.audio_output_tokens,
    )


def _words(error: BaseException) -> dict[str, Any]:
    """The status, the message and the response body of *error*, as text that can be stored."""
    raw = error.raw if isinstance(error, AnswerUnreadable) else None
    return {
        "status": error.status if isinstance(error, ProviderError) else None,
        "error": storable(f"{type(error).__name__}: {error}"[:2000]),
        "text": raw and storable(raw),
    }

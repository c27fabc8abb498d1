"""Provider calls over HTTP: what was asked and answered, what it cost, what is allowed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypedDict, Unpack

from retoma.client.async_transport import Transport
from retoma.client.values import Repriced, given, value_of, values_of
from retoma.model.call import Call, Limit, Price, Spend
from retoma.model.ids import CallId
from retoma.model.machine import Budget, LimitState
from retoma.values.cursors import cursor_of

_PAGE, _SPENDS = 200, 1000


class Kinds(TypedDict, total=False):
    """Prices in US dollars: per million tokens of each kind, and per unit."""

    input: Decimal
    cached: Decimal
    cache_write: Decimal
    cache_write_1h: Decimal
    output: Decimal
    reasoning: Decimal
    audio_input: Decimal
    audio_output: Decimal
    unit: Decimal


class Calls:
    """Provider calls of a server: requests, answers, costs, prices and limits."""

    def __init__(self, transport: Transport) -> None:
        self._server = transport

    async def find(
        self,
        *,
        job: int | None = None,
        batch: int | None = None,
        state: str | None = None,
        provider: str | None = None,
        model: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Call]:
        """Provider calls, newest first, *before* an id for the next page, without their content."""
        query = {"job": job, "batch": batch, "state": state, "provider": provider, "model": model}
        query["cursor"] = None if before is None else cursor_of(before)
        return [
            _call(each) for each in await self._server.pages("listCalls", "calls", most=limit, page=_PAGE, query=query)
        ]

    async def get(self, id: CallId) -> Call:
        """One provider call; its request is null, and its answer None, where the key may not see content."""
        return _call(await self._server.ask("getCall", id=id))

    async def spend(
        self,
        by: str = "model",
        *,
        batch: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        limit: int = 200,
    ) -> list[Spend]:
        """What was paid, by provider, model, day, pipeline, step, batch, job or label of a batch ("name=value"). Most
        expensive first, days newest first; under labels the sums overlap.
        """
        query = {"by": by, "batch": batch, **given(since=since, until=until)}
        return values_of(Spend, await self._server.pages("getSpend", "spend", most=limit, page=_SPENDS, query=query))

    async def prices(self) -> list[Price]:
        """The prices of today, for the models that were used or set."""
        return values_of(Price, (await self._server.ask("listPrices"))["prices"])

    async def price_story(self, provider: str, model: str) -> list[Price]:
        """Every price that a model had, has and will have, by service tier and day."""
        query = {"provider": provider, "model": model}
        return values_of(Price, (await self._server.ask("listPriceHistory", query=query))["prices"])

    async def budgets(self) -> list[Budget]:
        """The newest batches that have a budget, those under way first."""
        return values_of(Budget, (await self._server.ask("listBudgets"))["budgets"])

    async def set_price(
        self, provider: str, model: str, *, tier: str = "", since: date | None = None, **kinds: Unpack[Kinds]
    ) -> Price:
        """Set what a model costs from a day on (today)."""
        day = None if since is None else since.isoformat()
        body = {"provider": provider, "model": model, "tier": tier, **given(since=day, **kinds)}
        return value_of(Price, await self._server.ask("setPrice", body=body))

    async def reprice(self, *, after: int = 0) -> Repriced:
        """Price 500 calls whose cost is unknown, where a price is known by now, from the call *after* on."""
        return value_of(Repriced, await self._server.ask("repriceCalls", body={"after": after}))

    async def limits(self) -> list[Limit]:
        """The limits of providers, and their current state."""
        return values_of(Limit, (await self._server.ask("listLimits"))["limits"])

    async def limits_now(self) -> list[LimitState]:
        """The limits of providers, what was used of them in the last minute, and how many jobs wait for them."""
        return values_of(LimitState, (await self._server.ask("listLimits"))["limits"])

    async def close_breaker(self, name: str) -> int:
        """Let a provider be tried again now: its breaker closes, its cool-down ends, and the jobs that wait for it
        wake. Returns how many did.
        """
        return int((await self._server.ask("closeBreaker", name=name))["woken"])

    async def remove_limit(self, name: str) -> None:
        """Forget a limit with its pause and its breaker; the jobs that wait for it wake."""
        await self._server.ask("removeLimit", name=name)

    async def set_limit(
        self, name: str, *, requests: int | None = None, tokens: int | None = None, at_once: int | None = None
    ) -> Limit:
        """Set what a provider allows in a minute, and at once; None means no limit. *name* is "provider/model"."""
        body = {"requests": requests, "tokens": tokens, "at_once": at_once}
        return value_of(Limit, await self._server.ask("setLimit", name=name, body=body))


def _call(told: Mapping[str, Any]) -> Call:
    # The tenant and the key by which equal calls are found stay on the server.
    hidden = {"tenant": "", "key": "", "answer": None, "text": None, "error": None}
    return value_of(Call, {**hidden, **told, "request": json.dumps(told.get("request"), ensure_ascii=False)})

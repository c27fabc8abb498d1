"""Provider calls over HTTP: what was asked and answered, what it cost, what is allowed."""

# Made by tools/sync.py from client/calls.py; change that one.

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, TypedDict, Unpack

from retoma.client.sync.async_transport import Transport
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

    def find(
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
        return [_call(each) for each in self._server.pages("listCalls", "calls", most=limit, page=_PAGE, query=query)]

    def get(self, id: CallId) -> Call:
        """One provider call; its request is null, and its answer None, where the key may not see content."""
        return _call(self._server.ask("getCall", id=id))

    def spend(
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
        return values_of(Spend, self._server.pages("getSpend", "spend", most=limit, page=_SPENDS, query=query))

    def prices(self) -> list[Price]:
        """The prices of today, for the models that were used or set."""
        return values_of(Price, (self._server.ask("listPrices"))["prices"])

    def price_story(self, provider: str, model: str) -> list[Price]:
        """Every price that a model had, has and will have, by service tier and day."""
        query = {"provider": provider, "model": model}
        return values_of(Price, (self._server.ask("listPriceHistory", query=query))["prices"])

    def budgets(self) -> list[Budget]:
        """The newest batches that have a budget, those under way first."""
        return values_of(Budget, (self._server.ask("listBudgets"))["budgets"])

    def set_price(
        self, provider: str, model: str, *, tier: str = "", since: date | None = None, **kinds: Unpack[Kinds]
    ) -> Price:
        """Set what a model costs from a day on (today)."""
        day = None if since is None else since.isoformat()
        body = {"provider": provider, "model": model, "tier": tier, **given(since=day, **kinds)}
        return value_of(Price, self._server.ask("setPrice", body=body))

    def reprice(self, *, after: int = 0) -> Repriced:
        """Price 500 calls whose cost is unknown, where a price is known by now, from the call *after* on."""
        return value_of(Repriced, self._server.ask("repriceCalls", body={"after": after}))

    def limits(self) -> list[Limit]:
        """The limits of providers, and their current state."""
        return values_of(Limit, (self._server.ask("listLimits"))["limits"])

    def limits_now(self) -> list[LimitState]:
        """The limits of providers, what was used of them in the last minute, and how many jobs wait for them."""
        return values_of(LimitState, (self._server.ask("listLimits"))["limits"])

    def close_breaker(self, name: str) -> int:
        """Let a provider be tried again now: its breaker closes, its cool-down ends, and the jobs that wait for it
        wake. Returns how many did.
        """
        return int((self._server.ask("closeBreaker", name=name))["woken"])

    def remove_limit(self, name: str) -> None:
        """Forget a limit with its pause and its breaker; the jobs that wait for it wake."""
        self._server.ask("removeLimit", name=name)

    def set_limit(
        self, name: str, *, requests: int | None = None, tokens: int | None = None, at_once: int | None = None
    ) -> Limit:
        """Set what a provider allows in a minute, and at once; None means no limit. *name* is "provider/model"."""
        body = {"requests": requests, "tokens": tokens, "at_once": at_once}
        return value_of(Limit, self._server.ask("setLimit", name=name, body=body))


def _call(told: Mapping[str, Any]) -> Call:
    # The tenant and the key by which equal calls are found stay on the server.
    hidden = {"tenant": "", "key": "", "answer": None, "text": None, "error": None}
    return value_of(Call, {**hidden, **told, "request": json.dumps(told.get("request"), ensure_ascii=False)})

"""Provider calls of an app: requests, answers, costs, prices and limits."""

# Made by tools/sync.py from app/calls.py; change that one.

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Unpack

from retoma.calls.prices import Tariff, tariff_of
from retoma.commands import prices as price_commands
from retoma.commands.jobs import only
from retoma.commands.prices import Kinds, Repriced
from retoma.errors import ConfigurationError, NotFound
from retoma.model import validation
from retoma.model.call import Call, Limit, Price, Spend
from retoma.model.ids import CallId
from retoma.model.machine import Budget, LimitState
from retoma.store import calls, limits
from retoma.sync.runner import Runner

_BY = ("provider", "model", "day", "pipeline", "step", "batch", "job", "label")


class Calls:
    """Provider calls of an app: requests, answers, costs, prices and limits."""

    def __init__(self, run: Runner) -> None:
        self._run = run

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
        """Provider calls, newest first, *before* an id for the next page."""
        query = calls.page(
            job_id=job, batch_id=batch, state=state, provider=provider, model=model, before=before, limit=limit
        )
        return self._run.ask(only(query))

    def get(self, id: CallId) -> Call:
        """One provider call, with its raw answer."""
        rows = self._run.ask(only(calls.one(id))) if validation.is_id(id) else []
        if not rows:
            raise NotFound(f"There is no call {id}.", next="'retoma calls list' shows what is there.")
        return rows[0]

    def spend(
        self,
        by: str = "model",
        *,
        batch: int | None = None,
        since: datetime | None = None,
        until: datetime | None = None,
        after: tuple[Decimal, str] | None = None,
        limit: int | None = None,
    ) -> list[Spend]:
        """What was paid, by provider, model, day, pipeline, step, batch, job or label of a batch ("name=value"), split
        into useful, paid again, in doubt and unknown. Most expensive first, days newest first; *after* is the amount (0
        for days) and the name of the last row seen. Under labels the sums overlap.
        """
        if by not in _BY:
            raise ConfigurationError(f"Spend cannot be grouped by {by!r}.", next=f"By {', '.join(_BY)}.")
        if by == "label":
            query = calls.spend_by_label(batch_id=batch, since=since, until=until, after=after, limit=limit)
        else:
            query = calls.spend(by, batch_id=batch, since=since, until=until, after=after, limit=limit)
        return self._run.ask(only(query))

    def budgets(self, *, limit: int = 20) -> list[Budget]:
        """The newest batches that have a budget, those under way first, with what is spent of it."""
        return self._run.ask(only(calls.budgets(limit=limit)))

    def price_story(self, provider: str, model: str) -> list[Price]:
        """Every past, present and future price of a model, by tier and day."""
        return self._run.ask(only(calls.price_story(provider, model)))

    def prices(self) -> list[Price]:
        """The prices of today, for the models that were used or set."""
        return self._run.ask(only(calls.prices()))

    def tariff(self, provider: str, model: str) -> Tariff:
        """How the usage of a model is priced today: by the table of prices, else by published prices."""
        asked = (provider, model)
        return tariff_of(*asked, [each for each in self.prices() if (each.provider, each.model) == asked])

    def set_price(
        self,
        provider: str,
        model: str,
        *,
        tier: str = "",
        since: date | None = None,
        conn: object = None,
        **kinds: Unpack[Kinds],
    ) -> Price:
        """Set what a model costs from a day on (today): *input*, *cached*, *cache_write*, *cache_write_1h*, *output*,
        *reasoning*, *audio_input* and *audio_output* per million tokens, and per *unit*. A kind that is left out costs
        as much as the kind that it is part of. *tier* is a service tier with a price of its own, such as "batch".
        """
        return self._run.ask(price_commands.set_price(provider, model, tier, since, kinds), conn)

    def reprice(self, *, after: int = 0, pieces: int | None = None) -> Repriced:
        """Price the calls whose cost is unknown, where a price is known by now, in short transactions: all of them, or
        that many *pieces* of 500, from the call *after* on.
        """
        done = Repriced(after=after)
        while done.after is not None and (pieces is None or pieces > 0):
            more = self._run.ask(price_commands.reprice(done.after))
            done = Repriced(done.calls + more.calls, done.cost + more.cost, done.left + more.left, more.after)
            pieces = None if pieces is None else pieces - 1
        return done

    def limits(self) -> list[Limit]:
        """The limits of providers, and their current state."""
        return self._run.ask(only(limits.all()))

    def limits_now(self) -> list[LimitState]:
        """The same with what was used in the last minute, who waits, and the state of each breaker."""
        return self._run.ask(only(limits.stand()))

    def close_breaker(self, name: str, *, conn: object = None) -> int:
        """Let a provider be tried again now: its breaker closes, its cool-down ends, and the jobs that sleep for it
        wake. Returns how many did.
        """
        if not self._run.ask(only(limits.close(name)), conn):
            raise NotFound(f"There is no limit {name!r}.", next="'retoma limits list' shows them.")
        return len(self._run.ask(only(limits.wake(name, limit=10_000)), conn))

    def remove_limit(self, name: str, *, conn: object = None) -> int:
        """Forget a limit with its pause and its breaker, and wake the jobs that sleep for it. Returns how many did. One
        that the program declares is there again when a worker starts.
        """
        if not self._run.ask(only(limits.remove(name)), conn):
            raise NotFound(f"There is no limit {name!r}.", next="'retoma limits list' shows them.")
        return len(self._run.ask(only(limits.wake(name, limit=10_000)), conn))

    def set_limit(
        self,
        name: str,
        *,
        requests: int | None = None,
        tokens: int | None = None,
        at_once: int | None = None,
        conn: object = None,
    ) -> Limit:
        """Set what a provider allows in a minute, and at once, over all workers; None means no limit.
        *name* is "provider/model".
        """
        validation.text("limit's name", name)
        for what, number in (("requests", requests), ("tokens", tokens), ("at_once", at_once)):
            if number is not None and number < 1:
                raise ConfigurationError(
                    f"{what} must be at least 1, and is {number}.", next="Leave it out for no limit."
                )
        self._run.ask(only(limits.put(name, requests=requests, tokens=tokens, at_once=at_once)), conn)
        # Setting a limit also resets its pauses, so wake the jobs that sleep for it.
        self._run.ask(only(limits.wake(name, limit=10_000)), conn)
        rows = self._run.ask(only(limits.all()), conn)
        return next(each for each in rows if each.name == name)

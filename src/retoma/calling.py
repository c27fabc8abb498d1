"""What the front door says of calls, prices and limits."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import date, datetime
from decimal import Decimal
from typing import TypeVar

from retoma import asking, checks
from retoma.call import Call, Limit, Price, Spend
from retoma.commands import Command, only
from retoma.database import Database
from retoma.desk import Desk
from retoma.errors import ConfigurationError, NotFound
from retoma.providers import Chat, Embedder, Prompt, RateLimited
from retoma.settings import Settings
from retoma.steps import Suspend
from retoma.store import calls, limits

T = TypeVar("T")

_BY = ("provider", "model", "day", "step", "batch", "job")


class Calls:
    """Calls, as an app offers them."""

    _desk: Desk | None = None

    @property
    def database(self) -> Database:
        """The open database."""
        raise NotImplementedError

    @property
    def settings(self) -> Settings:
        """What can be set from outside."""
        raise NotImplementedError

    async def _ask(self, command: Command[T], conn: object = None) -> T:
        raise NotImplementedError

    async def calls(
        self,
        *,
        job: int | None = None,
        batch: int | None = None,
        state: str | None = None,
        provider: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Call]:
        """Requests to providers, newest first, *before* an id for the next page."""
        query = calls.page(job_id=job, batch_id=batch, state=state, provider=provider, before=before, limit=limit)
        return await self._ask(only(query))

    async def call(self, id: int) -> Call:
        """One request to a provider, with the answer as it came."""
        rows = await self._ask(only(calls.one(id))) if checks.is_id(id) else []
        if not rows:
            raise NotFound(f"There is no call {id}.", next="'retoma calls list' shows what is there.")
        return rows[0]

    async def spend(self, by: str = "model", *, batch: int | None = None, since: datetime | None = None) -> list[Spend]:
        """What was paid, by provider, model, day, step, batch or job; useful, paid again and in doubt told apart."""
        if by not in _BY:
            raise ConfigurationError(f"Spend cannot be told by {by!r}.", next=f"By {', '.join(_BY)}.")
        return await self._ask(only(calls.spend(by, batch_id=batch, since=since)))

    async def prices(self) -> list[Price]:
        """What models cost today, as far as it was needed or set."""
        return await self._ask(only(calls.prices()))

    async def set_price(
        self,
        provider: str,
        model: str,
        *,
        input: Decimal = Decimal(0),
        cached: Decimal | None = None,
        output: Decimal = Decimal(0),
        unit: Decimal = Decimal(0),
        since: date | None = None,
        conn: object = None,
    ) -> Price:
        """What a model costs from a day on (today): per million tokens, and per unit. Cached tokens cost as much as
        others unless said.
        """
        for what, price in (("input", input), ("cached", cached), ("output", output), ("unit", unit)):
            checks.money(f"The price of {what}", price)
        query = calls.set_price(
            provider,
            model,
            input=input,
            cached=input if cached is None else cached,
            output=output,
            unit=unit,
            since=since,
        )
        return (await self._ask(only(query), conn))[0]

    async def limits(self) -> list[Limit]:
        """What providers allow, and how that stands."""
        return await self._ask(only(limits.all()))

    async def set_limit(
        self,
        name: str,
        *,
        requests: int | None = None,
        tokens: int | None = None,
        at_once: int | None = None,
        conn: object = None,
    ) -> Limit:
        """What a provider allows in a minute, and at once, over all workers; None is no limit. *name* is
        "provider/model".
        """
        checks.text("limit's name", name)
        for what, number in (("requests", requests), ("tokens", tokens), ("at_once", at_once)):
            if number is not None and number < 1:
                raise ConfigurationError(
                    f"{what} must be at least 1, and is {number}.", next="Leave it out for no limit."
                )
        await self._ask(only(limits.put(name, requests=requests, tokens=tokens, at_once=at_once)), conn)
        rows = await self._ask(only(limits.all()), conn)
        return next(each for each in rows if each.name == name)

    async def ask(
        self,
        name: str,
        chat: Chat,
        prompt: str | Prompt,
        *,
        into: type[T] = str,  # type: ignore[assignment]
        repairs: int = 2,
        timeout: float = 60.0,
        reuse: bool = True,
    ) -> T:
        """What a model answers to who asks in no job, as ``run.ask`` does it: written down as *name*, limited, and paid
        once. No batch pays for it. Who would have to wait for its turn is told so: RateLimited.
        """
        with _told(chat.provider):
            answered: T = await asking.ask(
                self._own_desk(),
                None,
                name,
                chat,
                asking.as_prompt(prompt),
                into,
                repairs=repairs,
                timeout=timeout,
                reuse=reuse,
                in_doubt="retry",
            )
        return answered

    async def embed(
        self, name: str, embedder: Embedder, texts: Sequence[str], *, timeout: float = 30.0, reuse: bool = True
    ) -> list[list[float]]:
        """One vector per text for who asks in no job, as ``ask`` does it."""
        with _told(embedder.provider):
            return await asking.embed(self._own_desk(), None, name, embedder, texts, timeout=timeout, reuse=reuse)

    def _own_desk(self) -> Desk:
        if self._desk is None or self._desk.database is not self.database:
            self._desk = Desk(self.database, None, tenant=self.settings.tenant)
        return self._desk


@contextmanager
def _told(provider: str) -> Iterator[None]:
    """A job would rest until it can ask; who asks in no job is told how long that is."""
    try:
        yield
    except Suspend as wait:
        raise RateLimited(
            f"{provider} cannot be asked now ({wait}).",
            next="Ask again later.",
            provider=provider,
            retry_after=wait.delay,
            paid=False,
        ) from None

"""A request to a provider is a value: who is asked, for what, how it is sent, and how its answer is read.

The engine records, limits, prices and repeats requests, and knows nothing else of them. So a new kind of provider is
one file: the protocol of the service, and a frozen dataclass that derives from ``Request``. ``run.call`` makes it.
"""

from __future__ import annotations

import asyncio
import hashlib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Generic, Literal, Protocol, TypeVar

import orjson

from retoma.errors import AnswerUnfit, Unstorable
from retoma.providers import Answer, Usage
from retoma.providers.deferred import Pending

T = TypeVar("T")

LOCAL = "local"
"""The provider that is this machine itself: what it does costs nothing."""


class Service(Protocol):
    """Who is asked. A *model*, and an *account* that tells one key from another, count when it has any."""

    @property
    def provider(self) -> str:
        """Its name in limits and prices."""


@dataclass(frozen=True, kw_only=True)
class Request(ABC, Generic[T]):
    """A request whose answer is read as a value of T. Equal requests have equal keys and are paid for once."""

    verb: ClassVar[str]
    """What is asked of the service, in a word. It stands in the place of the model where there is none."""
    verb_in_key: ClassVar[bool] = True
    """Whether requests of two kinds with the same body differ. The first kinds have keys that are older than this."""

    timeout: float = 60.0
    """Seconds for one request."""
    reuse: bool = True
    """Whether the answer to an equal request of another job is taken."""
    in_doubt: Literal["retry", "hold"] = "retry"
    """What to do when an earlier attempt asked and nobody knows the answer: ask again, or let a person decide."""

    # — what a kind says —

    @property
    @abstractmethod
    def service(self) -> Service:
        """Who is asked."""

    @property
    @abstractmethod
    def answer_type(self) -> type[T]:
        """The type of what ``read`` gives: the checkpoint is written by it."""

    @property
    @abstractmethod
    def body(self) -> Mapping[str, Any]:
        """What makes it equal to another of its kind: plain JSON. It is recorded."""

    @property
    def estimate(self) -> Usage:
        """What it will use at most: that much is reserved. One that uses nothing is free."""
        return Usage(units=1)

    @abstractmethod
    async def send(self) -> Answer:
        """Ask once, without retries. The answer is recorded as it is, before anybody reads it."""

    @abstractmethod
    def read(self, answer: Answer, *, step: str) -> T:
        """The value in *answer*, which may come from the store; AnswerUnfit when there is none. *step* is for words."""

    def repaired(self, answer: Answer, error: AnswerUnfit) -> Request[T] | None:  # noqa: ARG002
        """The request to make after an answer that does not fit; None to give up."""
        return None

    @property
    def recorded(self) -> bool:
        """Whether it is written down. What is done on this machine is not."""
        return self.provider != LOCAL

    async def compute(self) -> T:
        """The value, where nothing is written down."""
        return self.read(await self.send(), step="")

    # — what follows from it —

    @property
    def provider(self) -> str:
        """Who is asked, by name."""
        return self.service.provider

    @property
    def model(self) -> str:
        """Which model is asked."""
        return getattr(self.service, "model", self.verb)

    @property
    def account(self) -> str:
        """Whose key it is, where the provider says so; never the key."""
        return getattr(self.service, "account", "")

    @property
    def limit(self) -> str:
        """Who is asked, in the words of limits and prices."""
        return f"{self.provider}/{self.model}"

    @property
    def limits(self) -> tuple[str, ...]:
        """The names of the limits that it may count against, the narrowest first."""
        limit, account = self.limit, self.account
        narrow = (f"{limit}/{account}",) if account else ()
        return (*narrow, limit, self.provider)

    def key(self) -> str:
        """The same for equal requests, whoever makes them."""
        said = {"provider": self.provider, "model": self.model, "body": self.body}
        if self.verb_in_key:
            said["verb"] = self.verb
        try:
            return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()
        except TypeError as error:  # half of a character, or a parameter that is no JSON
            raise Unstorable(
                f"What {self.limit} was to be asked cannot be written down: {error}.",
                next="Ask for text and JSON alone; text.encode('utf-8', 'replace').decode() mends broken text.",
            ) from None


@dataclass(frozen=True, kw_only=True)
class DeferredRequest(Request[T]):
    """A request that is submitted now and answered later. Where it was submitted is recorded: after a crash the same
    result is polled, and no other is paid for.
    """

    @property
    @abstractmethod
    def kept_seconds(self) -> float:
        """For how long a result can be looked for, from when it was submitted."""

    @abstractmethod
    async def submit(self) -> str:
        """Submit it once; what comes back leads to its result, also from another process."""

    @abstractmethod
    async def look(self, operation: str, *, timeout: float) -> Answer | Pending:
        """The answer to what was submitted as *operation*, if it is there by now. One look, which does not wait."""

    @property
    def recorded(self) -> bool:
        """Always: another process can find its result."""
        return True

    @property
    def looks(self) -> tuple[str, ...]:
        """The limits of looks, the narrowest first: services allow more of them, and count them apart."""
        return tuple(f"{name}/results" for name in self.limits)

    async def send(self) -> Answer:
        """Submit it and look until the answer is there, where nothing is written down."""
        operation = await self.submit()
        while isinstance(found := await self.look(operation, timeout=self.timeout), Pending):
            await asyncio.sleep(found.seconds)
        return found

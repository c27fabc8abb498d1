"""A request to a provider is a value: the service, the content, how it is sent, and how its answer is parsed.

The engine records, limits, prices and repeats requests, and knows nothing else about them. So a new kind of provider is
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
"""The provider name of this machine itself: its work costs nothing."""


class Service(Protocol):
    """The service that is asked. A *model*, and an *account* that distinguishes keys, count when it has any."""

    @property
    def provider(self) -> str:
        """Its name in limits and prices."""


@dataclass(frozen=True, kw_only=True)
class Request(ABC, Generic[T]):
    """A request whose answer is parsed as a value of T. Equal requests have equal keys and are paid for once."""

    verb: ClassVar[str]
    """The kind of request, as one word. It replaces the model in names when there is none."""
    verb_in_key: ClassVar[bool] = True
    """Whether the verb is part of the key. The first kinds have keys that are older than this rule."""

    timeout: float = 60.0
    """Seconds for one request."""
    reuse: bool = True
    """Whether the answer to an equal request of another job is reused."""
    in_doubt: Literal["retry", "hold"] = "retry"
    """What to do when an earlier attempt sent the request and its answer is unknown: send it again,
    or let a person decide.
    """

    # — what each kind defines —

    @property
    @abstractmethod
    def service(self) -> Service:
        """The service that is asked."""

    @property
    @abstractmethod
    def answer_type(self) -> type[T]:
        """The type of what ``read`` returns, by which the checkpoint is written."""

    @property
    @abstractmethod
    def body(self) -> Mapping[str, Any]:
        """What makes it equal to another of its kind, as plain JSON. It is recorded."""

    @property
    def estimate(self) -> Usage:
        """The most it will use: that much is reserved. A request that uses nothing is free."""
        return Usage(units=1)

    @abstractmethod
    async def send(self) -> Answer:
        """Send it once, without retries. The raw answer is recorded before it is parsed."""

    @abstractmethod
    def read(self, answer: Answer, *, step: str) -> T:
        """The value in *answer*, which may come from the store; raises AnswerUnfit when there is none.
        *step* is for messages.
        """

    def repaired(self, answer: Answer, error: AnswerUnfit) -> Request[T] | None:  # noqa: ARG002
        """The request to send after an answer that does not fit; None to give up."""
        return None

    @property
    def recorded(self) -> bool:
        """Whether it is recorded. Local work is not."""
        return self.provider != LOCAL

    async def compute(self) -> T:
        """The value, when nothing is recorded."""
        return self.read(await self.send(), step="")

    # — what follows from it —

    @property
    def provider(self) -> str:
        """The name of the service."""
        return self.service.provider

    @property
    def model(self) -> str:
        """The name of the model."""
        return getattr(self.service, "model", self.verb)

    @property
    def account(self) -> str:
        """An identifier of the key, if the provider has one; never the key itself."""
        return getattr(self.service, "account", "")

    @property
    def limit(self) -> str:
        """Provider and model, as limits and prices name them."""
        return f"{self.provider}/{self.model}"

    @property
    def limits(self) -> tuple[str, ...]:
        """The names of the limits that may apply, narrowest first."""
        limit, account = self.limit, self.account
        narrow = (f"{limit}/{account}",) if account else ()
        return (*narrow, limit, self.provider)

    def key(self) -> str:
        """Equal for equal requests, whoever sends them."""
        said = {"provider": self.provider, "model": self.model, "body": self.body}
        if self.verb_in_key:
            said["verb"] = self.verb
        try:
            return hashlib.sha256(orjson.dumps(said, option=orjson.OPT_SORT_KEYS)).hexdigest()
        except TypeError as error:  # a lone surrogate, or a parameter that is not JSON
            raise Unstorable(
                f"What {self.limit} was to be asked cannot be written down: {error}.",
                next="Ask for text and JSON alone; text.encode('utf-8', 'replace').decode() mends broken text.",
            ) from None


@dataclass(frozen=True, kw_only=True)
class DeferredRequest(Request[T]):
    """A request that is submitted now and answered later. The submission is recorded: after a crash the same result is
    polled, and no other is paid for.
    """

    @property
    @abstractmethod
    def kept_seconds(self) -> float:
        """For how long after the submission a result can be polled."""

    @abstractmethod
    async def submit(self) -> str:
        """Submit it once; the returned operation leads to its result, also from another process."""

    @abstractmethod
    async def look(self, operation: str, *, timeout: float) -> Answer | Pending:
        """The answer to *operation*, if it is there. One poll, which does not wait."""

    @property
    def recorded(self) -> bool:
        """Always, because another process can continue it."""
        return True

    @property
    def looks(self) -> tuple[str, ...]:
        """The limits of polls, narrowest first: services allow more of them, and count them separately."""
        return tuple(f"{name}/results" for name in self.limits)

    async def send(self) -> Answer:
        """Submit it and poll until the answer is there, when nothing is recorded."""
        operation = await self.submit()
        while isinstance(found := await self.look(operation, timeout=self.timeout), Pending):
            await asyncio.sleep(found.seconds)
        return found

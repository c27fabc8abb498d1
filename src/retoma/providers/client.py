"""The connection to one service: its client, its time limit, and the translation of its errors."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable
from typing import Any, Generic, TypeVar
from weakref import WeakKeyDictionary

from retoma.errors import ConfigurationError
from retoma.providers import ProviderError
from retoma.providers.http import Reply, failure, late

C = TypeVar("C")
T = TypeVar("T")

CONNECT_SECONDS = 10.0
SILENCE_SECONDS = 300.0


class Line(Generic[C]):
    """One service and its client. Every failure becomes a ProviderError that contains no secret.

    *make* creates a client when it is first needed, one per event loop, because connections belong to the loop
    that opened them. The SDK's errors are neither cause nor context of ours, because their messages, frames and
    requests contain keys.
    """

    def __init__(
        self,
        provider: str,
        make: Callable[[], C],
        *,
        secrets: tuple[str, ...],
        bills: bool = True,
        silence: float = SILENCE_SECONDS,
    ) -> None:
        if not all(secret.isascii() and secret.isprintable() and secret.strip() == secret for secret in secrets):
            raise ConfigurationError(
                f"The key of {provider} has characters that no key has: spaces, line ends or letters beyond ASCII.",
                next="Copy it again, without what stands around it.",
            )
        self.provider = provider
        self.account = hashlib.sha256(secrets[0].encode()).hexdigest()[:8] if secrets else ""
        """Distinguishes one key from another without revealing it, because limits are per key."""
        self._make = make
        # In a function, because an attribute could be printed.
        self._hidden: Callable[[], tuple[str, ...]] = lambda: secrets
        self._bills = bills
        self._silence = silence  # seconds after which the client itself gives up
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, C] = WeakKeyDictionary()

    async def ask(self, say: Callable[[C], Awaitable[T]], *, timeout: float | None) -> T:
        """The result of *say* with the client, within *timeout* seconds; None waits without limit."""
        failed: ProviderError
        try:
            async with asyncio.timeout(timeout):
                return await say(self.client())
        except TimeoutError:
            if timeout is None:
                raise
            failed = late(self.provider, timeout)
        except ProviderError as error:
            self.priced(error)
            raise
        except Exception as error:
            told = self._told(error)
            if told is None:
                raise
            failed = told
        raise self.priced(failed)

    def client(self) -> C:
        """The client of this event loop."""
        loop = asyncio.get_running_loop()
        client = self._clients.get(loop)
        if client is None:
            client = self._clients[loop] = self._make()
        return client

    def failure(self, reply: Reply) -> ProviderError:
        """The error that *reply* stands for."""
        return self.priced(failure(self.provider, reply, secrets=self._hidden()))

    def priced(self, error: ProviderError) -> ProviderError:
        """*error*; a free service marks it as not paid."""
        if not self._bills:
            error.paid = False
        return error

    async def close(self) -> None:
        """Close what this event loop has opened."""
        client: Any = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await (client.aclose if hasattr(client, "aclose") else client.close)()

    def _told(self, error: Exception) -> ProviderError | None:
        """Our error for one of the client's; None for any other error."""
        raise NotImplementedError

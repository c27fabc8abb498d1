"""The way to one service: its client, the time it may take, and its failures as ours."""

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
    """One service and its client. Whatever goes wrong comes out as a ProviderError, and no secret with it.

    A client is made by *make* when it is first needed, one per event loop, because connections belong to the loop
    that opened them. The errors of the SDK are neither cause nor context of ours: their words, their frames and
    their requests hold keys.
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
        """Tells one key from another, and does not tell it: what is limited is limited by key."""
        self._make = make
        # In a function: an attribute could be printed.
        self._hidden: Callable[[], tuple[str, ...]] = lambda: secrets
        self._bills = bills
        self._silence = silence  # seconds after which the client itself gives up
        self._clients: WeakKeyDictionary[asyncio.AbstractEventLoop, C] = WeakKeyDictionary()

    async def ask(self, say: Callable[[C], Awaitable[T]], *, timeout: float | None) -> T:
        """What *say* gets from the client within *timeout* seconds; None is for ever."""
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
        """The error that *reply* means."""
        return self.priced(failure(self.provider, reply, secrets=self._hidden()))

    def priced(self, error: ProviderError) -> ProviderError:
        """*error*, and what costs nothing was not paid."""
        if not self._bills:
            error.paid = False
        return error

    async def close(self) -> None:
        """Close what this event loop has opened."""
        client: Any = self._clients.pop(asyncio.get_running_loop(), None)
        if client is not None:
            await (client.aclose if hasattr(client, "aclose") else client.close)()

    def _told(self, error: Exception) -> ProviderError | None:
        """Our error for one of the client's; None when it is somebody else's."""
        raise NotImplementedError

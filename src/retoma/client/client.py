"""The two clients: the same namespaces with ``await`` and without."""

from __future__ import annotations

from typing import Self

import httpx2

from retoma.client import sync
from retoma.client.async_transport import Transport
from retoma.client.batches import Batches
from retoma.client.calls import Calls
from retoma.client.jobs import Jobs
from retoma.client.queues import Queues
from retoma.client.reviews import Reviews
from retoma.client.schedules import Schedules
from retoma.client.sync.async_transport import Transport as SyncTransport
from retoma.client.system import System
from retoma.client.transport import Address, Again
from retoma.client.workers import Workers

_TIMEOUT = 30.0


class AsyncClient:
    """A server's API: ``async with AsyncClient("https://host", api_key="rtm_…") as client``. Without arguments it uses
    RETOMA_API_URL and RETOMA_API_KEY. *tries* is how often a request is sent at most; *http* brings connections of
    one's own, such as through a proxy.
    """

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = _TIMEOUT,
        tries: int = 5,
        http: httpx2.AsyncClient | None = None,
    ) -> None:
        self._transport = Transport(
            Address.of(url, api_key), timeout=timeout, again=Again(max(0, tries - 1)), http=http
        )
        self.batches = Batches(self._transport)
        self.jobs = Jobs(self._transport)
        self.calls = Calls(self._transport)
        self.queues = Queues(self._transport)
        self.reviews = Reviews(self._transport)
        self.workers = Workers(self._transport)
        self.schedules = Schedules(self._transport)
        self.system = System(self._transport)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._transport.address.url

    async def close(self) -> None:
        """Close the connections."""
        await self._transport.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()


class Client:
    """The same without ``await``: ``with Client("https://host", api_key="rtm_…") as client``."""

    def __init__(
        self,
        url: str | None = None,
        *,
        api_key: str | None = None,
        timeout: float = _TIMEOUT,
        tries: int = 5,
        http: httpx2.Client | None = None,
    ) -> None:
        self._transport = SyncTransport(
            Address.of(url, api_key), timeout=timeout, again=Again(max(0, tries - 1)), http=http
        )
        self.batches = sync.Batches(self._transport)
        self.jobs = sync.Jobs(self._transport)
        self.calls = sync.Calls(self._transport)
        self.queues = sync.Queues(self._transport)
        self.reviews = sync.Reviews(self._transport)
        self.workers = sync.Workers(self._transport)
        self.schedules = sync.Schedules(self._transport)
        self.system = sync.System(self._transport)

    @property
    def url(self) -> str:
        """Where the server is."""
        return self._transport.address.url

    def close(self) -> None:
        """Close the connections."""
        self._transport.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

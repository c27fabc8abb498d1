"""What the two official sources share: a free service that answers JSON over HTTP, and records with a date."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import httpx2

from retoma.providers.http import Reply, unreadable
from retoma.providers.web import WebLine, reply_of, web


class OfficialService:
    """A line to a service without a key and without a bill."""

    def __init__(self, provider: str, base_url: str) -> None:
        self._provider = provider
        self._line = WebLine(provider, lambda: web(base_url=base_url), secrets=(), bills=False)

    async def get(self, path: str, params: Mapping[str, Any], *, timeout: float) -> Any:
        """The JSON at *path*; nothing there is an empty list."""

        async def say(client: httpx2.AsyncClient) -> Reply:
            return reply_of(await client.get(path, params=dict(params)))

        reply = await self._line.ask(say, timeout=timeout)
        if reply.status in {httpx2.codes.NO_CONTENT, httpx2.codes.NOT_FOUND}:
            return []
        if reply.status != httpx2.codes.OK:
            raise self._line.failure(reply)
        try:
            return json.loads(reply.body)
        except (ValueError, RecursionError):
            raise self._line.priced(unreadable(self._provider, reply.body, "it is not JSON")) from None

    def unreadable(self, value: Any, why: str) -> Exception:
        """The error for an answer of another shape."""
        return self._line.priced(unreadable(self._provider, json.dumps(value), why))

    async def aclose(self) -> None:
        await self._line.close()


def day(told: Any) -> datetime | None:
    """The day that a record names, as in "2026-04-20" or "2026-04-20T10:00:00"."""
    try:
        moment = datetime.fromisoformat(str(told))
    except ValueError:
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=UTC)

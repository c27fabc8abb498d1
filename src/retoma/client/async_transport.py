"""Sends requests with ``await``. Its twin in ``sync`` is made by tools/sync.py."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import httpx2

from retoma.client.transport import Address, Again, Asked, answer, asked, refusal, silence


class Transport:
    """A connection to a server, shared by the namespaces of a client."""

    def __init__(self, address: Address, *, timeout: float, again: Again, http: httpx2.AsyncClient | None) -> None:
        self.address = address
        self._again = again
        self._own = http is None
        self._http = http or httpx2.AsyncClient(timeout=timeout, follow_redirects=False)

    async def close(self) -> None:
        """Close the connections, unless somebody else brought them."""
        if self._own:
            await self._http.aclose()

    async def sleep(self, seconds: float) -> None:
        """Wait."""
        await asyncio.sleep(seconds)

    async def ask(
        self, operation: str, *, query: dict[str, Any] | None = None, body: Any = None, **path: object
    ) -> Any:
        """The answer to *operation*, decoded; None when it has no body."""
        response = await self._sent(asked(self.address, operation, path, query=query, body=body))
        return answer(response.status_code, response.content)

    async def ask_unless(
        self, tag: str | None, operation: str, *, query: dict[str, Any] | None = None, **path: object
    ) -> tuple[Any, str | None]:
        """The answer and its tag; the answer is None when it has the same *tag* as before."""
        known = {"If-None-Match": tag} if tag else {}
        response = await self._sent(asked(self.address, operation, path, query=query, headers=known))
        if response.status_code == httpx2.codes.NOT_MODIFIED:
            return None, tag
        return answer(response.status_code, response.content), response.headers.get("ETag")

    async def pages(
        self, operation: str, name: str, *, most: int, page: int, query: dict[str, Any], **path: object
    ) -> list[dict[str, Any]]:
        """The rows under *name*, page by page of at most *page* rows, until there are *most* of them or no more."""
        found: list[dict[str, Any]] = []
        query = dict(query)
        while len(found) < most:
            told = await self.ask(operation, query={**query, "limit": min(page, most - len(found))}, **path)
            found += told[name]
            query["cursor"] = told["next"]
            if told["next"] is None:
                break
        return found

    async def lines(self, operation: str, *, query: dict[str, Any] | None = None, **path: object) -> AsyncIterator[str]:
        """The lines of a stream, as they come, until the server ends it."""
        request = asked(self.address, operation, path, query=query, headers={"Accept": "application/x-ndjson"})
        headers = {**self.address.headers(), **request.headers}
        try:
            async with self._http.stream(
                request.method, request.url, params=request.query, headers=headers, timeout=60.0
            ) as response:
                if refusal(response.status_code, b"") is not None:
                    answer(response.status_code, await response.aread())
                async for line in response.aiter_lines():
                    yield line
        except httpx2.TransportError as error:
            raise silence(self.address, error) from error

    async def _sent(self, request: Asked) -> httpx2.Response:
        """The last answer, once no more tries help."""
        tried = 0
        while True:
            problem, wait_for = None, None
            try:
                response = await self._http.request(
                    request.method,
                    request.url,
                    params=request.query,
                    headers={**self.address.headers(), **request.headers},
                    content=request.content,
                )
            except httpx2.TransportError as error:
                if (seconds := self._again.wait(tried, None, None)) is None:
                    raise silence(self.address, error) from error
            else:
                problem, wait_for = refusal(response.status_code, response.content), response.headers.get("Retry-After")
                if problem is None or (seconds := self._again.wait(tried, problem, wait_for)) is None:
                    return response
            tried += 1
            await self.sleep(seconds)

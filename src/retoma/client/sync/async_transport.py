"""Sends requests without ``await``."""

# Made by tools/sync.py from client/async_transport.py; change that one.

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import Any

import httpx2

from retoma.client.transport import Address, Again, Asked, answer, asked, refusal, silence


class Transport:
    """A connection to a server, shared by the namespaces of a client."""

    def __init__(self, address: Address, *, timeout: float, again: Again, http: httpx2.Client | None) -> None:
        self.address = address
        self._again = again
        self._own = http is None
        self._http = http or httpx2.Client(timeout=timeout, follow_redirects=False)

    def close(self) -> None:
        """Close the connections, unless somebody else brought them."""
        if self._own:
            self._http.close()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def ask(self, operation: str, *, query: dict[str, Any] | None = None, body: Any = None, **path: object) -> Any:
        """The answer to *operation*, decoded; None when it has no body."""
        response = self._sent(asked(self.address, operation, path, query=query, body=body))
        return answer(response.status_code, response.content)

    def ask_unless(
        self, tag: str | None, operation: str, *, query: dict[str, Any] | None = None, **path: object
    ) -> tuple[Any, str | None]:
        """The answer and its tag; the answer is None when it has the same *tag* as before."""
        known = {"If-None-Match": tag} if tag else {}
        response = self._sent(asked(self.address, operation, path, query=query, headers=known))
        if response.status_code == httpx2.codes.NOT_MODIFIED:
            return None, tag
        return answer(response.status_code, response.content), response.headers.get("ETag")

    def pages(
        self, operation: str, name: str, *, most: int, page: int, query: dict[str, Any], **path: object
    ) -> list[dict[str, Any]]:
        """The rows under *name*, page by page of at most *page* rows, until there are *most* of them or no more."""
        found: list[dict[str, Any]] = []
        query = dict(query)
        while len(found) < most:
            told = self.ask(operation, query={**query, "limit": min(page, most - len(found))}, **path)
            found += told[name]
            query["cursor"] = told["next"]
            if told["next"] is None:
                break
        return found

    def lines(self, operation: str, *, query: dict[str, Any] | None = None, **path: object) -> Iterator[str]:
        """The lines of a stream, as they come, until the server ends it."""
        request = asked(self.address, operation, path, query=query, headers={"Accept": "application/x-ndjson"})
        headers = {**self.address.headers(), **request.headers}
        try:
            with self._http.stream(
                request.method, request.url, params=request.query, headers=headers, timeout=60.0
            ) as response:
                if refusal(response.status_code, b"") is not None:
                    answer(response.status_code, response.read())
                yield from response.iter_lines()
        except httpx2.TransportError as error:
            raise silence(self.address, error) from error

    def _sent(self, request: Asked) -> httpx2.Response:
        """The last answer, once no more tries help."""
        tried = 0
        while True:
            problem, wait_for = None, None
            try:
                response = self._http.request(
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
            self.sleep(seconds)

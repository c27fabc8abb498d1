"""Lines whose client is httpx2, or an SDK built on it."""

from __future__ import annotations

from functools import cache
from ssl import SSLContext
from typing import Any, TypeVar

import httpx2

from retoma.providers import ProviderError
from retoma.providers.client import CONNECT_SECONDS, Line
from retoma.providers.http import Reply, down, misled

C = TypeVar("C")


class WebLine(Line[C]):
    """A line over httpx2."""

    def _told(self, error: Exception) -> ProviderError | None:
        response = getattr(error, "response", None)
        if isinstance(response, httpx2.Response):
            return self.failure(reply_of(response))
        match error if isinstance(error, httpx2.HTTPError | httpx2.InvalidURL) else error.__cause__:
            case httpx2.ConnectError() | httpx2.ConnectTimeout() | httpx2.ProxyError():
                return down(self.provider, "cannot be reached", sent=False)
            case httpx2.UnsupportedProtocol() | httpx2.LocalProtocolError() | httpx2.InvalidURL():
                return misled(self.provider, "its address or its key is not well formed")
            case httpx2.HTTPError():
                return down(self.provider, "broke off in the middle of its answer", sent=True)
        return None


def reply_of(response: httpx2.Response) -> Reply:
    """An httpx2 response as a Reply."""
    return Reply.of(response.status_code, response.headers, response.text)


def web(**options: Any) -> httpx2.AsyncClient:
    """A client that follows no redirect, because the key would be sent along, and never waits for a free connection.

    It has no time-out except for connecting: Line limits the whole.
    """
    return httpx2.AsyncClient(
        verify=_certificates(),
        timeout=patience(),
        limits=httpx2.Limits(max_connections=None, max_keepalive_connections=100),
        follow_redirects=False,
        **options,
    )


@cache
def _certificates() -> SSLContext:
    return httpx2.create_ssl_context()  # reading the certificates takes longer than many requests


def patience(seconds: float = 2 * CONNECT_SECONDS) -> httpx2.Timeout:
    """Half of *seconds* for connecting, so that an unsent request can be told from an unanswered one."""
    return httpx2.Timeout(None, connect=min(CONNECT_SECONDS, seconds / 2))

"""Lines whose client is httpx2, or an SDK that stands on it."""

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
    """What an httpx2 response says."""
    return Reply.of(response.status_code, response.headers, response.text)


def web(**options: Any) -> httpx2.AsyncClient:
    """A client that follows no redirect, for the key would go along, and never waits for a free connection.

    It has no time-out but for connecting: Line limits the whole.
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
    return httpx2.create_ssl_context()  # reading them takes longer than many a request


def patience(seconds: float = 2 * CONNECT_SECONDS) -> httpx2.Timeout:
    """Half of *seconds* for connecting, so that what could not be sent is told from what was not answered."""
    return httpx2.Timeout(None, connect=min(CONNECT_SECONDS, seconds / 2))

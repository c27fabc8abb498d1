"""Translates the errors of Azure's clients into ours."""

from __future__ import annotations

from typing import Any, TypeVar

from aiohttp import ClientConnectorError
from azure.core.exceptions import (
    AzureError,
    HttpResponseError,
    IncompleteReadError,
    ServiceRequestError,
    ServiceRequestTimeoutError,
    ServiceResponseError,
    ServiceResponseTimeoutError,
)

from retoma.providers import ProviderError
from retoma.providers.client import CONNECT_SECONDS, SILENCE_SECONDS, Line
from retoma.providers.http import Reply, down, late

C = TypeVar("C")

# The SDK must neither retry nor follow redirects.
OPTIONS: dict[str, Any] = {
    "retry_total": 0,
    "permit_redirects": False,
    "connection_timeout": CONNECT_SECONDS,
    "read_timeout": SILENCE_SECONDS,
}


class AzureLine(Line[C]):
    """A line whose client is built on azure.core."""

    def _told(self, error: Exception) -> ProviderError | None:
        match error:
            case ServiceResponseTimeoutError():
                return late(self.provider, self._silence)
            case ServiceRequestTimeoutError() | ServiceRequestError(__cause__=ClientConnectorError()):
                return down(self.provider, "cannot be reached", sent=False)
            case ServiceRequestError() | ServiceResponseError() | IncompleteReadError():
                return down(self.provider, "broke off in the middle of its answer", sent=True)
            case HttpResponseError(response=response) if response is not None:
                return self.failure(azure_reply(response))
            case AzureError():
                return down(self.provider, f"failed ({type(error).__name__})", sent=True)
        return None


def azure_reply(response: Any) -> Reply:
    """A response of azure.core as a Reply."""
    try:
        body = response.text()
    except Exception:  # noqa: BLE001 - without a readable body the status still tells
        body = ""
    return Reply.of(response.status_code, response.headers, body)

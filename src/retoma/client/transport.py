"""What the two clients share: where a request goes, when it is sent again, and what an answer says. No I/O."""

from __future__ import annotations

import json
import os
import random
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote, urlsplit

from retoma.client.errors import Problem, ServerUnreachable, error_of, problem_of
from retoma.client.operations import OPERATIONS
from retoma.errors import ConfigurationError, RetomaError

API = "/api/v1"
_TRIES = 5
_FIRST_WAIT, _LONGEST_WAIT = 0.2, 30.0
_SUCCESS = 300
_MOST_SHOWN = 200


@dataclass(frozen=True, slots=True)
class Address:
    """Where the server is, and the key that opens it."""

    url: str
    api_key: str | None = None
    language: str = "en"

    @classmethod
    def of(cls, url: str | None, api_key: str | None, *, language: str = "en") -> Address:
        """The address that was given, or that of RETOMA_API_URL, with the key of RETOMA_API_KEY."""
        place = url or os.environ.get("RETOMA_API_URL") or ""
        parts = urlsplit(place)
        if parts.scheme not in ("http", "https") or not parts.hostname:
            raise ConfigurationError(
                f"{_without_password(place)!r} is not the address of a server."
                if place
                else "No server is named: url is missing and RETOMA_API_URL is not set.",
                next="Write it as https://host:port, or http://host:port/prefix.",
            )
        place = place.rstrip("/").removesuffix(API)
        return cls(place, api_key or os.environ.get("RETOMA_API_KEY") or None, language)

    def headers(self) -> dict[str, str]:
        """What every request carries."""
        key = {"Authorization": f"Bearer {self.api_key}"} if self.api_key else {}
        return {"Accept": "application/json", "Accept-Language": self.language, "User-Agent": "retoma-client", **key}


def _without_password(url: str) -> str:
    scheme, sign, rest = url.partition("://")
    return f"{scheme}{sign}…@{rest.rpartition('@')[2]}" if "@" in rest else url


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it is sent, the first time and again."""

    method: str
    url: str
    query: Mapping[str, Any]
    headers: Mapping[str, str]
    content: bytes | None


def asked(
    address: Address,
    operation: str,
    path: Mapping[str, object],
    *,
    query: Mapping[str, Any] | None = None,
    body: Any = None,
    headers: Mapping[str, str] | None = None,
) -> Asked:
    """The request of *operation*. A change has an Idempotency-Key, the same one whenever it is sent again."""
    method, template = OPERATIONS[operation]
    place = template.format(**{name: quote(str(value), safe="") for name, value in path.items()})
    sent = dict(headers or {})
    if method != "GET":
        sent["Idempotency-Key"] = str(uuid.uuid4())
    content = None
    if body is not None:
        sent["Content-Type"] = "application/json"
        content = json.dumps(body, ensure_ascii=False).encode()
    said = {name: _written(value) for name, value in (query or {}).items() if value is not None}
    return Asked(method, f"{address.url}{API}{place}", said, sent, content)


def _written(value: Any) -> Any:
    """A value in a query; yes and no are words there."""
    if isinstance(value, bool):
        return "true" if value else "false"
    return [str(each) for each in value] if isinstance(value, list | tuple) else str(value)


@dataclass(frozen=True, slots=True)
class Again:
    """When a request that was not answered is sent again, and how long to wait before."""

    tries: int = _TRIES

    def wait(self, tried: int, problem: Problem | None, retry_after: str | None) -> float | None:
        """Seconds before the next try; None when there is none. What the server asks for is the least."""
        if tried >= self.tries or (problem is not None and not problem.retryable):
            return None
        told = float(retry_after) if retry_after and retry_after.isdecimal() else 0.0
        grown: float = min(_LONGEST_WAIT, _FIRST_WAIT * 2.0**tried) * random.uniform(0.5, 1.0)  # noqa: S311 - not a secret
        return max(grown, min(told, _LONGEST_WAIT))


def refusal(status: int, content: bytes) -> Problem | None:
    """Why the server did not do it; None when it did."""
    if status < _SUCCESS:
        return None
    try:
        body = json.loads(content)
    except ValueError:
        body = None
    return problem_of(status, body)


def answer(status: int, content: bytes) -> Any:
    """What the server says, or the error that its problem is."""
    if problem := refusal(status, content):
        raise error_of(problem)
    if not content:
        return None
    try:
        return json.loads(content)
    except ValueError:
        raise unfit(content) from None


def unfit(content: bytes) -> RetomaError:
    """What answers is no server of ours."""
    return ConfigurationError(
        f"What answers there is not the API of Retoma: {content[:_MOST_SHOWN].decode(errors='replace')!r}.",
        next="Give the address of 'retoma serve', with its prefix if it has one.",
    )


def silence(address: Address, error: Exception) -> ServerUnreachable:
    """Nobody answers."""
    return ServerUnreachable(
        f"Nobody answers at {_without_password(address.url)}: {str(error) or type(error).__name__}.",
        next="Look whether 'retoma serve' runs there, and at the address.",
    )

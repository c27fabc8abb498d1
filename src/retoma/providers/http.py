"""What HTTP services share: their errors, retry times, remaining limits, and what must not be logged."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import quote, quote_plus

from pydantic import BaseModel, ValidationError

from retoma.providers import (
    Allowance,
    AnswerUnreadable,
    ProviderDown,
    ProviderError,
    ProviderRefused,
    ProviderTimeout,
    RateLimited,
    RequestRejected,
)

W = TypeVar("W", bound=BaseModel)

_WORDS = 300  # characters of a service's error message
_HIDDEN = "***"
_LOOKS_LIKE_A_KEY = re.compile(r"\b(?:sk-|Bearer )[\w.*-]{6,}")
_TAGS = re.compile(r"<[^<>]*>")

_BY_STATUS: dict[int, type[ProviderError]] = {
    401: ProviderRefused,
    402: ProviderRefused,
    403: ProviderRefused,
    408: ProviderTimeout,
    409: ProviderDown,  # a conflict, or too early: the same request may succeed
    412: ProviderDown,
    425: ProviderDown,
    429: RateLimited,
}
_BY_HUNDRED: dict[int, type[ProviderError]] = {
    3: ProviderRefused,  # a redirect is not followed, because the key would be sent along
    4: RequestRejected,
    5: ProviderDown,
}
# What only the message tells, and not the status.
_SAID: tuple[tuple[int, str, type[ProviderError]], ...] = (
    (429, "insufficient_quota", ProviderRefused),  # OpenAI: the credit is used up, and waiting does not help
    (429, "billing", ProviderRefused),
    (429, "run out of searches", ProviderRefused),  # SerpAPI
    (400, "credit balance is too low", ProviderRefused),  # Anthropic
    (403, "flagged", RequestRejected),  # OpenRouter: moderation of this one input
)
_SERVER = 5
_NOT_TAKEN = frozenset({503, 529})  # the service says that it did not start
_NEXT: dict[type[ProviderError], str] = {
    ProviderRefused: "Check the key, the credit and the address of {provider}; no request will succeed before.",
    RateLimited: "Ask again later; a lower limit for {provider} would avoid this.",
    RequestRejected: "Change this request; others are not affected.",
    ProviderTimeout: "It may have been billed. Give it more time if this happens often.",
    ProviderDown: "Try again later.",
    AnswerUnreadable: "It was kept as it came. Check that the address leads to {provider}.",
}


@dataclass(frozen=True, slots=True)
class Reply:
    """One HTTP response, from whichever client; the names of *headers* are in lower case."""

    status: int
    headers: Mapping[str, str]
    body: str = field(repr=False)

    @classmethod
    def of(cls, status: int, headers: Mapping[str, str], body: str) -> Reply:
        return cls(status, {name.lower(): value for name, value in headers.items()}, body)

    @property
    def now(self) -> datetime:
        """The service's own clock, to which its dates refer; ours when it does not say."""
        return _date(self.headers.get("date")) or datetime.now(UTC)

    @property
    def allowance(self) -> Allowance | None:
        """What the limit headers say is left; None when there are none."""
        requests = list(_left(self, _REQUESTS))
        tokens = list(_left(self, _TOKENS))
        if not requests and not tokens:
            return None
        every = requests + tokens
        # The limit that is used up decides when a retry makes sense.
        resets = [after for left, after in every if left == 0] or [after for _, after in every]
        return Allowance(
            requests=min((left for left, _ in requests), default=None),
            tokens=min((left for left, _ in tokens), default=None),
            resets_in=max((after for after in resets if after is not None), default=None),
        )

    @property
    def retry_after(self) -> float | None:
        """Seconds to wait at least, from Retry-After (a number or a date), else from the limit that is used up."""
        if (milliseconds := _number(self.headers.get("retry-after-ms"))) is not None:
            return max(0.0, milliseconds / 1000)
        asked = self.headers.get("retry-after")
        if (seconds := _number(asked)) is not None:
            return max(0.0, seconds)
        if date := _date(asked):
            return max(0.0, (date - self.now).total_seconds())
        left = self.allowance
        return left.resets_in if left and 0 in (left.requests, left.tokens) else None


def failure(provider: str, reply: Reply, *, secrets: Collection[str] = ()) -> ProviderError:
    """The error that *reply* stands for: the service's own words, without secrets."""
    words = _words_of(reply.body)
    kind = _kind(reply.status, words)
    told = redacted(words, secrets)
    told = told if len(told) <= _WORDS else f"{told[: _WORDS - 1]}…"
    doubtful = kind is ProviderTimeout or (reply.status // 100 == _SERVER and reply.status not in _NOT_TAKEN)
    error = kind(
        f"{provider} answered {reply.status}" + (f": {told.rstrip('.')}." if told else "."),
        next=_NEXT[kind].format(provider=provider),
        provider=provider,
        status=reply.status,
        retry_after=reply.retry_after,
        paid=None if doubtful else kind is AnswerUnreadable,
    )
    if isinstance(error, AnswerUnreadable):
        error.raw = reply.body
    return error


def late(provider: str, seconds: float) -> ProviderTimeout:
    """The error for no answer within *seconds*."""
    return ProviderTimeout(
        f"{provider} did not answer within {seconds:g} s.",
        next=_NEXT[ProviderTimeout],
        provider=provider,
    )


def down(provider: str, what: str, *, sent: bool) -> ProviderDown:
    """The error for an unreachable service or a broken connection; a request that was never *sent* was never billed."""
    return ProviderDown(
        f"{provider} {what}.", next=_NEXT[ProviderDown], provider=provider, paid=None if sent else False
    )


def misled(provider: str, what: str) -> ProviderRefused:
    """The error for an invalid URL or key, with which no request can be sent."""
    next = _NEXT[ProviderRefused].format(provider=provider)
    return ProviderRefused(f"{provider} cannot be asked: {what}.", next=next, provider=provider, paid=False)


def rejected(provider: str, why: str, *, status: int | None = None) -> RequestRejected:
    """The error for a request that is not worth sending."""
    return RequestRejected(why, next=_NEXT[RequestRejected], provider=provider, status=status, paid=False)


def unreadable(provider: str, body: str, why: str) -> AnswerUnreadable:
    """The error for a paid answer that does not follow the protocol; it carries the body."""
    error = AnswerUnreadable(
        f"{provider} gave an answer that cannot be read: {why}.",
        next=_NEXT[AnswerUnreadable].format(provider=provider),
        provider=provider,
        status=200,
        paid=True,
    )
    error.raw = body
    return error


def read(kind: type[W], body: str, *, provider: str) -> W:
    """*body* as a value of *kind*, or AnswerUnreadable with the first difference."""
    try:
        return kind.model_validate_json(body)
    except ValidationError as error:
        first = error.errors(include_url=False, include_context=False, include_input=False)[0]
    place = ".".join(str(part) for part in first["loc"])
    raise unreadable(provider, body, f"{place}: {first['msg']}" if place else first["msg"])


def redacted(text: str, secrets: Collection[str]) -> str:
    """*text* without *secrets*, in any encoding, and without anything that looks like a key."""
    forms = {form for secret in secrets if secret for form in (secret, quote(secret, safe=""), quote_plus(secret))}
    for form in sorted(forms, key=len, reverse=True):
        text = text.replace(form, _HIDDEN)
    return _LOOKS_LIKE_A_KEY.sub(_HIDDEN, text)


def _kind(status: int, words: str) -> type[ProviderError]:
    said = words.lower()
    told = (kind for each, word, kind in _SAID if status == each and word in said)
    return next(told, None) or _BY_STATUS.get(status) or _BY_HUNDRED.get(status // 100, AnswerUnreadable)


def _words_of(body: str) -> str:
    """Code and message of an error, whatever the service names them; HTML or XML without its tags."""
    try:
        told: Any = json.loads(body)
    except (ValueError, RecursionError):
        return " ".join(_TAGS.sub(" ", body[: 10 * _WORDS]).split())
    if isinstance(told, dict):
        told = told.get("error") or told.get("erro") or told
    if isinstance(told, dict):
        inner = told.get("innererror")
        parts = [told.get("code"), told.get("type"), told.get("message")]
        parts += [inner.get("message")] if isinstance(inner, dict) else []
        told = " ".join(str(part) for part in parts if part not in (None, ""))
    return " ".join(str(told).split())


# — limit headers; the header of the reset time has the same name with another word —

_REQUESTS = (
    "x-ratelimit-remaining-requests",
    "anthropic-ratelimit-requests-remaining",
    "x-ratelimit-remaining",  # OpenRouter
)
_TOKENS = (
    "x-ratelimit-remaining-tokens",
    "anthropic-ratelimit-tokens-remaining",
    "anthropic-ratelimit-input-tokens-remaining",
    "anthropic-ratelimit-output-tokens-remaining",
)
_DURATION = re.compile(r"(?:(\d+)h)?(?:(\d+)m)?(?:([\d.]+)s)?(?:([\d.]+)ms)?")
_EPOCH_SECONDS = 1e9  # a larger number is a time, not a duration
_EPOCH_MILLISECONDS = 1e12


def _left(reply: Reply, names: tuple[str, ...]) -> Iterator[tuple[int, float | None]]:
    for name in names:
        if (left := _number(reply.headers.get(name))) is not None:
            yield int(left), _until(reply.headers.get(name.replace("remaining", "reset"), ""), reply.now)


def _until(text: str, now: datetime) -> float | None:
    """Seconds until *text*: "6m0s", "20ms", "1.5", an ISO 8601 time, or (milli)seconds since 1970."""
    if (number := _number(text)) is not None:
        if number >= _EPOCH_MILLISECONDS:
            number /= 1000
        return max(0.0, number - now.timestamp() if number >= _EPOCH_SECONDS else number)
    if text and (parts := _DURATION.fullmatch(text)):
        hours, minutes, seconds, milliseconds = (_number(part) or 0.0 for part in parts.groups())
        return hours * 3600 + minutes * 60 + seconds + milliseconds / 1000
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        return None
    return max(0.0, (moment - now).total_seconds()) if moment.tzinfo else None


def _number(text: str | None) -> float | None:
    try:
        number = float(text) if text else math.nan
    except ValueError:
        return None
    return number if math.isfinite(number) else None


def _date(text: str | None) -> datetime | None:
    try:
        date = parsedate_to_datetime(text) if text else None
    except ValueError:
        return None
    return date if date is None or date.tzinfo else date.replace(tzinfo=UTC)

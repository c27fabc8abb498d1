"""The events of requests to providers."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal
from typing import ClassVar

from retoma.telemetry.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class CallEvent(Event):
    """Something about a request to a provider; without a job when a program asked outside one."""

    call: int
    provider: str
    model: str
    operation: str
    step: str
    kind: str = "first"
    worker: int | None = None
    job: int | None = None
    pipeline: str | None = None
    attempt: int | None = None
    correlation: str | None = None
    queue: str | None = None
    batch: int | None = None
    fence: int | None = None
    state: str = "running"
    duration_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class CallStarted(CallEvent):
    """A request is sent to a provider."""

    weight: ClassVar[str] = "debug"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallSubmitted(CallEvent):
    """A provider has a request, and answers later."""

    weight: ClassVar[str] = "debug"


@dataclass(frozen=True, slots=True, kw_only=True)
class CallAnswered(CallEvent):
    """A provider answered, and the answer is written."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    cache_write_tokens: int = 0
    reasoning_tokens: int = 0
    cost_usd: Decimal | None = None
    answered_by: str | None = None
    finish: str | None = None
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class CallFailed(CallEvent):
    """A provider did not answer; *cost_usd* is what was reserved, when the provider bills it all the same."""

    weight: ClassVar[str] = "warning"
    error: str
    http_status: int | None = None
    cost_usd: Decimal | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerMisfit(Event):
    """An answer does not fit what was asked for; it is sent back for repair, or the step fails."""

    weight: ClassVar[str] = "warning"
    provider: str
    model: str
    step: str
    repaired: bool
    job: int | None = None
    pipeline: str | None = None

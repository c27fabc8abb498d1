"""Events about messages that leave the house: alerts to people, webhooks to programs."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from retoma.telemetry.event import Event


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDelivered(Event):
    """A webhook arrived."""

    weight: ClassVar[str] = "debug"
    endpoint: str
    message: str
    kind: str
    attempt: int
    status: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertOpened(Event):
    """A rule of the watchdog found something wrong, and an incident was opened."""

    weight: ClassVar[str] = "warning"

    alert: int
    rule: str
    subject: str
    severity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertResolved(Event):
    """What an incident was about has not been found for a while."""

    alert: int
    rule: str
    subject: str
    severity: str


@dataclass(frozen=True, slots=True, kw_only=True)
class AlertUnsent(Event):
    """A message about an incident could not be sent; it is tried again, up to eight times."""

    weight: ClassVar[str] = "error"

    alert: int
    channel: str
    tries: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookFailed(Event):
    """A webhook did not arrive; it is sent again later, unless this was *final*."""

    weight: ClassVar[str] = "warning"
    endpoint: str
    message: str
    kind: str
    attempt: int
    status: int | None
    error: str | None
    final: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class WebhookDisabled(Event):
    """An endpoint is disabled: its messages failed for days, or it answered that it wants no more."""

    weight: ClassVar[str] = "error"
    endpoint: str
    reason: str

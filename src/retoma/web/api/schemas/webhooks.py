"""Webhooks over the wire: endpoints, messages and requests; never a secret but the one that was just made."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from retoma.web.api.schemas.access import GraceHours
from retoma.web.api.schemas.requests import WHOLE, Asked, Cursor, Wanted
from retoma.web.api.schemas.responses import Opened, Schema, Time

Kind = Literal[
    "batch.started",
    "batch.progress_25",
    "batch.progress_50",
    "batch.progress_75",
    "batch.stalled",
    "batch.paused",
    "batch.resumed",
    "batch.completed",
    "batch.failed",
    "batch.cancelled",
    "budget.reached",
    "job.failed",
    "worker.lost",
]
DeliveryState = Literal["pending", "delivered", "failed"]


class NewWebhook(Asked):
    """Where messages are to go; without kinds all but job.failed."""

    url: Annotated[str, Field(min_length=1, max_length=2000, pattern=r"^https?://[\x21-\x7e]+$")]
    kinds: Annotated[list[Kind], Field(min_length=1, max_length=20)] | None = None
    description: Annotated[str, Field(max_length=200)] = ""


class SecretRotation(Asked):
    """How long messages carry a signature of the secret of before, too."""

    grace_hours: GraceHours = 24


class Webhook(Schema):
    """Where messages go, and how they arrive there."""

    id: str
    url: str
    description: str
    kinds: list[str]
    created_at: Time
    succeeded_at: Time | None
    failed_at: Time | None
    failures: int
    disabled_at: Time | None
    disabled_reason: str | None
    previous_until: Time | None
    waiting: int
    failed: int


class Webhooks(Schema):
    """Every endpoint, the oldest first."""

    webhooks: list[Webhook]


class MadeWebhook(Schema):
    """An endpoint that was just made, with the secret that signs its messages."""

    id: str
    secret: str
    webhook: Webhook


class MadeSecret(Schema):
    """The new secret of an endpoint."""

    id: str
    secret: str


class WebhookDelivery(Schema):
    """A message, and how it stands. Its id is the webhook-id."""

    id: str
    endpoint_id: str
    kind: str
    body: Opened
    state: DeliveryState
    attempts: int
    status: int | None
    error: str | None
    created_at: Time
    next_at: Time | None
    ended_at: Time | None


class WebhookAttempt(Schema):
    """One request of a message."""

    attempt: int
    at: Time
    status: int | None
    error: str | None
    seconds: float


class DeliveryLog(WebhookDelivery):
    """A message with every request of it."""

    log: list[WebhookAttempt]


class WebhookDeliveries(Schema):
    """Messages, the newest first."""

    deliveries: list[WebhookDelivery]
    next: str | None


class DeliveryFilter(Wanted):
    """Which messages."""

    state: DeliveryState | None = None
    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=200), WHOLE] = 50


class Written(Schema):
    """A message that was written, and is delivered soon."""

    id: str

"""The whole system at a glance, on the wire."""

from __future__ import annotations

from decimal import Decimal
from typing import Self

from retoma.model import overview
from retoma.web.api.schemas.operations import FailureGroup
from retoma.web.api.schemas.responses import Schema, Time


class Overview(Schema):
    """What runs, what waits, what failed, what it costs today, who works."""

    batches: dict[str, int]
    running: int
    queued: int
    oldest_wait_seconds: float | None
    failed_lately: int
    review: int
    spent_today: Decimal
    again_today: Decimal
    doubtful_today: Decimal
    unpriced_today: int
    workers_alive: int
    workers_silent: int
    queues_paused: int
    watched_at: Time | None
    counted_to: int
    unwell: list[str]
    now: Time
    money_age_seconds: float
    errors: list[FailureGroup]

    @classmethod
    def seen(cls, now: overview.Overview, errors: list[FailureGroup]) -> Self:
        """*now* and the commonest *errors*."""
        return cls(**{name: getattr(now, name) for name in cls.model_fields if name != "errors"}, errors=errors)

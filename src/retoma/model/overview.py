"""The whole system at a glance."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

import orjson

from retoma.model.batch import BatchState

_WATCHED_SECONDS = 120.0


@dataclass(frozen=True, slots=True)
class Overview:
    """What runs, what waits, what failed, what it costs today and who works, from one snapshot."""

    batches: dict[str, int]
    """How many are in each state; of those that ended, only the ones of the last 24 hours."""
    running: int
    queued: int
    oldest_wait_seconds: float | None
    """How long the first job that may run has waited for a worker."""
    failed_lately: int
    """Jobs that failed in the last 24 hours."""
    review: int
    """Jobs that wait for a person."""
    spent_today: Decimal
    """Since midnight, UTC."""
    again_today: Decimal
    doubtful_today: Decimal
    unpriced_today: int
    workers_alive: int
    workers_silent: int
    queues_paused: int
    watched_at: datetime | None
    """When the watchdog last made a round."""
    counted_to: int
    """Where the counts of jobs stop: one that is as high says "at least"."""
    now: datetime
    money_age_seconds: float = 0.0
    """How old the sums of money are, where they were kept; the counts are of now."""

    def __post_init__(self) -> None:
        found = self.batches
        if not isinstance(found, dict):
            found = orjson.loads(found) if found else {}
        object.__setattr__(self, "batches", {str(state): found.get(state, 0) for state in BatchState})

    @property
    def watched_seconds(self) -> float | None:
        """Seconds since the watchdog's last round."""
        return None if self.watched_at is None else max(0.0, (self.now - self.watched_at).total_seconds())

    @property
    def unwell(self) -> list[str]:
        """What is wrong with the system itself, the worst first: "no_workers", "unwatched", "workers_silent",
        "queues_paused".
        """
        work = self.queued + self.running
        unwatched = self.watched_seconds is None or self.watched_seconds > _WATCHED_SECONDS
        return [
            word
            for word, holds in (
                ("no_workers", not self.workers_alive and work > 0),
                ("unwatched", unwatched and work > 0),
                ("workers_silent", self.workers_silent > 0),
                ("queues_paused", self.queues_paused > 0),
            )
            if holds
        ]

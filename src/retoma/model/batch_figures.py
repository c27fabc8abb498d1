"""What pages show of a batch: its series for charts, and its jobs as rows."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal

from retoma.model.ids import JobId
from retoma.model.job import JobState


@dataclass(frozen=True, slots=True)
class Bucket:
    """What ended in one stretch of time, and how long the good attempts took. A stretch without any is left out."""

    at: datetime
    seconds: float
    """How long the stretch is."""
    done: int
    failed: int
    """Attempts that ended badly, also those that were tried again."""
    median_seconds: float | None
    slow_seconds: float | None


@dataclass(frozen=True, slots=True)
class Member:
    """A job as a row of its batch: how far it has come, and what it cost."""

    id: JobId
    key: str | None
    state: JobState
    reason: str | None
    attempt: int
    max_attempts: int
    run_at: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    error: str | None
    """The first line."""
    step: str | None
    """The step that was saved last."""
    steps: int
    seconds: float | None
    """Of all attempts together."""
    cost: Decimal
    unpriced: int

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", JobState(self.state))

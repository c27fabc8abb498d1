"""Schedules: jobs that are enqueued by the clock."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job that is enqueued by the clock."""

    name: str
    pipeline: str
    queue: str
    cron: str
    zone: str
    input: str
    priority: int
    next_run_at: datetime
    last_run_at: datetime | None
    paused_at: datetime | None
    now: datetime


@dataclass(frozen=True, slots=True)
class DueSchedule:
    """A schedule that is due, and the time of the database."""

    name: str
    cron: str
    zone: str
    next_run_at: datetime
    now: datetime

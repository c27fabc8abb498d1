"""A queue as people see it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue in its current state: how many jobs wait, are due, and run."""

    name: str
    waiting: int
    due: int
    running: int
    oldest_due_seconds: float | None
    paused_at: datetime | None
    paused_reason: str | None
    weight: int = 1
    held: int = 0
    """How many of the waiting jobs belong to batches that are paused, ended or being filled."""
    paused_until: datetime | None = None
    """When it goes on by itself; None when somebody must resume it."""

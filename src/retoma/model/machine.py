"""The values of the machine: how queues move, what executors hold, what schedules queued, and how large tables are."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal

MOST_COUNTED = 10_000
"""How many waiting jobs of a queue are counted; beyond it, "more than" is said."""

_BATCH_LANE = re.compile(r"batch:(?P<id>[0-9]{1,18})(:pilot|:finish)?")


@dataclass(frozen=True, slots=True)
class Depth:
    """What waits and runs in a queue. Where *more* is true, the counts are lower bounds."""

    name: str
    waiting: int
    due: int
    held: int
    """How many of the waiting jobs belong to batches that are paused, ended or being filled."""
    running: int
    more: bool
    oldest_due_seconds: float | None
    paused_at: datetime | None
    paused_reason: str | None
    weight: int
    executors: int
    """How many live executors take jobs from it."""
    paused_until: datetime | None = None
    """When it goes on by itself; None when somebody must resume it."""


@dataclass(frozen=True, slots=True)
class Pace:
    """How fast jobs came into a queue and ended, and how long they waited and ran: half of them at most the median,
    nineteen of twenty at most *most*. Each count is of as many seconds as its field says.
    """

    name: str
    came: int
    came_seconds: float
    ended: int
    failed: int
    ended_seconds: float
    wait_median: float | None
    wait_most: float | None
    run_median: float | None
    run_most: float | None

    @property
    def came_a_minute(self) -> float:
        """How many jobs came in a minute."""
        return 60 * self.came / self.came_seconds

    @property
    def ended_a_minute(self) -> float:
        """How many jobs ended in a minute."""
        return 60 * self.ended / self.ended_seconds


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane of a queue; the one without a name is the line of jobs that have no lane."""

    id: int
    name: str | None
    at_once: int | None
    closed: bool
    kept: bool
    """Whether somebody set its limit."""
    waiting: int
    more: bool
    running: int
    oldest_due_seconds: float | None

    @property
    def batch(self) -> int | None:
        """The batch whose jobs, pilot or last step wait in it."""
        found = _BATCH_LANE.fullmatch(self.name or "")
        return int(found["id"]) if found else None


@dataclass(frozen=True, slots=True)
class QueueState:
    """A queue with its pace and its lanes."""

    depth: Depth
    pace: Pace
    paused_by: str | None = None
    lanes: list[Lane] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class HeldJob:
    """A job that an executor holds now, and the step that it was in at the last heartbeat."""

    id: int
    worker_id: int
    pipeline: str
    queue: str
    batch_id: int | None
    key: str | None
    attempt: int
    claimed_at: datetime
    step: str | None


@dataclass(frozen=True, slots=True)
class LimitState:
    """The limit of a provider under a name, and what it lets through now."""

    name: str
    requests: int | None
    tokens: int | None
    at_once: int | None
    cooled_until: datetime | None
    reason: str | None
    failures: int
    opened_until: datetime | None
    under_way: int
    requests_used: int
    """Requests that were sent in the last minute."""
    tokens_used: int
    """Tokens of the requests of the last minute."""
    waiting: int
    """Jobs that sleep until it lets them through."""
    wakes_at: datetime | None
    """When the first of them tries again."""
    breaker: str
    """"closed", "open" (no request is sent) or "trying" (one request is sent to find out)."""


@dataclass(frozen=True, slots=True)
class ScheduleRun:
    """A job that a schedule queued; *state* is None once the job was pruned."""

    schedule: str
    job_id: int
    at: datetime
    by_hand: bool
    state: str | None
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Budget:
    """A batch that has a budget, and what is left of it."""

    id: int
    name: str
    state: str
    budget: Decimal
    spent: Decimal
    reserved: Decimal
    unpriced: int


@dataclass(frozen=True, slots=True)
class TableSize:
    """How large a table is, with its indexes; the rows are PostgreSQL's estimate."""

    name: str
    bytes: int
    rows: int
    dead_rows: int
    vacuumed_at: datetime | None


@dataclass(frozen=True, slots=True)
class DutyRound:
    """When a duty of the watchdog was last done, and by whom."""

    name: str
    last_at: datetime | None
    taken_by: str | None

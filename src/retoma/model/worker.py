"""The values of workers: what is known of one, and its counters."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Presence:
    """What is known of a worker: its name, its start, its last heartbeat, its counters."""

    id: int
    label: str
    host: str
    pid: int
    version: str
    queues: list[str]
    pipelines: list[str]
    at_once: int
    lease_seconds: float
    started_at: datetime
    seen_at: datetime
    lease_expires_at: datetime
    stopping_at: datetime | None
    stopped_at: datetime | None
    reason: str | None
    alive: bool
    claimed: int
    completed: int
    failed: int
    retried: int
    recovered: int
    busy_seconds: float
    memory_megabytes: float | None = None
    """What its process used at the last heartbeat."""
    drain_requested_at: datetime | None = None
    """Since when its worker is asked to take no more jobs and to end."""
    drain_requested_by: str | None = None


@dataclass(frozen=True, slots=True)
class Metrics:
    """The seven counters of a worker."""

    jobs_claimed: int
    jobs_completed: int
    jobs_failed: int
    jobs_retried: int
    jobs_recovered: int
    avg_job_duration_ms: float
    stuck_job_count: int

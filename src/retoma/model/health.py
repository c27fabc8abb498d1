"""The values of the database's health."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class Health:
    """The health of the database: what can make a queue slow or unsafe, and the workers."""

    version: str
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    autovacuum: bool
    standby: bool
    most_connections: int
    connections: int
    transaction_seconds: float | None
    transaction_pid: int | None
    transaction_name: str | None
    snapshot_age: int
    live_rows: int
    dead_rows: int
    vacuumed_at: datetime | None
    workers_alive: int
    workers_silent: int
    queues_paused: int
    oldest_due_seconds: float | None
    failed_jobs: int
    echo_seconds: float | None = None
    """Until a notification came back; None when it did not."""
    write_seconds: float | None = None
    """That it takes to write a job; None when the server does not write."""
    claim_seconds: float | None = None
    """That it takes to write, claim and end a job; None when that fails, or when this account may not claim."""


@dataclass(frozen=True, slots=True)
class Holder:
    """A session that holds a lock which another one waits for."""

    what: str
    pid: int
    name: str | None
    state: str | None
    seconds: float | None

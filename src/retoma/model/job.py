"""The nouns: what is known of a job, its attempts, its checkpoints, and of those who work on it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum


class JobState(StrEnum):
    """What a job is doing; *why* is in its reason."""

    QUEUED = "queued"
    """Waits for a worker, for its time, or for a signal."""
    RUNNING = "running"
    """A worker holds it."""
    COMPLETED = "completed"
    """Its handler returned."""
    SKIPPED = "skipped"
    """Its handler said there was nothing to do."""
    FAILED = "failed"
    """Its attempts are used up, or its input was rejected: the dead letters are these."""
    REVIEW = "review"
    """It ended and waits for a person."""
    CANCELLED = "cancelled"
    """Somebody stopped it."""

    @property
    def ended(self) -> bool:
        """Whether only an explicit action of a person leaves this state."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


@dataclass(frozen=True, slots=True)
class Receipt:
    """What an enqueue gives back: the job's id, and whether it is new or was there under the same key."""

    id: int
    key: str | None
    state: JobState
    new: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", JobState(self.state))


@dataclass(frozen=True, slots=True)
class Job:
    """One pipeline over one input, as it stands."""

    id: int
    batch_id: int | None
    queue: str
    lane: str | None
    pipeline: str
    key: str | None
    priority: int
    state: JobState
    reason: str | None
    run_at: datetime
    expires_at: datetime | None
    attempt: int
    max_attempts: int
    crashes: int
    fence: int
    worker_id: int | None
    worker: str | None
    cancel_requested_at: datetime | None
    timeout_seconds: float
    created_at: datetime
    claimed_at: datetime | None
    finished_at: datetime | None
    correlation_id: str | None
    input: str
    output: str | None
    error: str | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", JobState(self.state))


@dataclass(slots=True)
class Claim:
    """A job in the hands of an executor: what it needs to run it, and the fence it must show at every write."""

    id: int
    batch_id: int | None
    queue: str
    lane_id: int
    pipeline: str
    key: str | None
    attempt: int
    max_attempts: int
    crashes: int
    fence: int
    signals: int
    timeout_seconds: float
    correlation_id: str | None
    traceparent: str | None
    input: str
    batch_epoch: int | None = None
    walked_to: int | None = None


@dataclass(slots=True)
class Ended:
    """How one attempt ended, ready to be written down."""

    claim: Claim
    ending: str
    again: bool = False
    delay: float | None = None
    until: datetime | None = None
    output: str | None = None
    reason: str | None = None
    error: str | None = None
    step: str | None = None
    signals: int = 0
    seconds: float = 0.0

    @property
    def id(self) -> int:
        return self.claim.id


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try at a job, from claim to ending."""

    job_id: int
    fence: int
    attempt: int
    worker_id: int
    worker: str | None
    ending: str
    reason: str | None
    error: str | None
    step: str | None
    signal: int | None
    peak_megabytes: float | None
    claimed_at: datetime
    ended_at: datetime
    seconds: float | None


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint as a run reads it back; *age* is in seconds of the database's clock."""

    step: str
    generation: int
    value: str
    checksum: str
    fingerprint: str
    input_hash: str | None
    fence: int
    age: float


@dataclass(slots=True)
class NewCheckpoint:
    """What a step has produced, ready to be written down."""

    job_id: int
    fence: int
    step: str
    value: str
    checksum: str
    fingerprint: str
    input_hash: str | None
    seconds: float


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """What a step produced, with its envelope, for people."""

    job_id: int
    step: str
    generation: int
    value: str
    checksum: str
    fingerprint: str
    input_hash: str | None
    fence: int
    seconds: float | None
    saved_at: datetime
    set_aside_at: datetime | None
    reason: str | None


@dataclass(frozen=True, slots=True)
class Recovered:
    """A job that was taken from a worker which is gone, and what became of it."""

    id: int
    pipeline: str
    state: str
    reason: str | None
    attempt: int
    crashes: int
    ending: str
    step: str | None
    worker_id: int
    correlation_id: str | None


@dataclass(frozen=True, slots=True)
class Presence:
    """What is known of a worker: its name, since when, its last heartbeat, what it has done."""

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


@dataclass(frozen=True, slots=True)
class Metrics:
    """The seven figures of a worker."""

    jobs_claimed: int
    jobs_completed: int
    jobs_failed: int
    jobs_retried: int
    jobs_recovered: int
    avg_job_duration_ms: float
    stuck_job_count: int

    def as_seed(self) -> dict[str, float]:
        """The same, under the names of the worker scale-out document."""
        return {
            "jobsClaimed": self.jobs_claimed,
            "jobsCompleted": self.jobs_completed,
            "jobsFailed": self.jobs_failed,
            "jobsRetried": self.jobs_retried,
            "jobsRecovered": self.jobs_recovered,
            "avgJobDurationMs": self.avg_job_duration_ms,
            "stuckJobCount": self.stuck_job_count,
        }


@dataclass(frozen=True, slots=True)
class Queue:
    """A queue as it stands: how many wait, how many could run now, how many run."""

    name: str
    waiting: int
    due: int
    running: int
    oldest_due_seconds: float | None
    paused_at: datetime | None
    paused_reason: str | None


@dataclass(frozen=True, slots=True)
class Schedule:
    """A job that comes back by the clock."""

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
class Due:
    """A schedule whose time has come, and what time the database says it is."""

    name: str
    cron: str
    zone: str
    next_run_at: datetime
    now: datetime


@dataclass(frozen=True, slots=True)
class Health:
    """How the database is doing: what can make a queue slow or unsafe, and who works."""

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


@dataclass(frozen=True, slots=True)
class Holder:
    """A session that has a lock somebody else waits for."""

    what: str
    pid: int
    name: str | None
    state: str | None
    seconds: float | None

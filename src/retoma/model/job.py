"""The values of jobs: their states, their attempts, and their checkpoints."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum

from retoma.model.ids import BatchId, JobId

Stood = tuple[datetime, str, int]
"""The position of a checkpoint among those of its job: when it was saved, its step and its generation."""


class JobState(StrEnum):
    """What a job is doing; *why* is in its reason."""

    QUEUED = "queued"
    """Waits for a worker, for its time, or for a signal."""
    RUNNING = "running"
    """A worker holds it."""
    COMPLETED = "completed"
    """Its handler returned."""
    SKIPPED = "skipped"
    """Its handler said that there was nothing to do."""
    FAILED = "failed"
    """Its attempts are used up, or its input was rejected. A dead letter, unless a person has discarded it."""
    REVIEW = "review"
    """It ended and waits for a person."""
    CANCELLED = "cancelled"
    """A person stopped it."""

    @property
    def ended(self) -> bool:
        """Whether only an explicit action of a person leaves this state."""
        return self not in (JobState.QUEUED, JobState.RUNNING)


class AttemptEnding(StrEnum):
    """How one attempt ended. The result for the job is its state."""

    COMPLETED = "completed"
    SKIPPED = "skipped"
    REVIEW = "review"
    FAILED = "failed"
    """The handler raised, or ended after its time-out."""
    POSTPONED = "postponed"
    """It continues at a later time, and no attempt is used."""
    WAITING = "waiting"
    """It continues when a signal arrives, and no attempt is used."""
    RELEASED = "released"
    """It was released, and no attempt is used."""
    CANCELLED = "cancelled"
    TIMEOUT = "timeout"
    """It ignored its time-out, and was killed with its executor."""
    CRASHED = "crashed"
    """Its executor died."""
    LOST = "lost"
    """Its worker fell silent."""


@dataclass(frozen=True, slots=True)
class Receipt:
    """The result of an enqueue: the job's id, and whether it is new or existed under the same key."""

    id: JobId
    key: str | None
    state: JobState
    new: bool

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", JobState(self.state))


@dataclass(frozen=True, slots=True)
class Job:
    """One pipeline over one input, in its current state."""

    id: JobId
    batch_id: BatchId | None
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
    traceparent: str | None = None
    discarded_at: datetime | None = None
    """When a person settled its failure as not to be retried."""
    discarded_by: str | None = None
    cohort: int = 1
    """Under which configuration of its batch it runs; the first is 1."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", JobState(self.state))

    @property
    def trace_id(self) -> str | None:
        """The trace that it belongs to, when its caller had one."""
        parts = (self.traceparent or "").split("-")
        return parts[1] if len(parts) == 4 else None  # noqa: PLR2004 - version, trace, parent and flags


@dataclass(frozen=True, slots=True)
class JobPage:
    """Some jobs, newest first, and the id *before* which to continue. A page may be short although there are more: the
    search visits a bounded number of rows.
    """

    jobs: list[Job]
    next: int | None


@dataclass(slots=True)
class Claim:
    """A job that an executor has claimed: what it needs to run it, and the fence that every write must show."""

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
    cohort: int = 1
    priority: int | None = None
    run_at: datetime | None = None
    step: int | None = None
    turned: float | None = None
    cut_queues: list[str] | None = None
    cut_lanes: list[int] | None = None
    lines: int | None = None


@dataclass(slots=True)
class Ended:
    """How one attempt ended, ready to be written."""

    claim: Claim
    ending: AttemptEnding
    again: bool = False
    delay: float | None = None
    until: datetime | None = None
    output: str | None = None
    reason: str | None = None
    error: str | None = None
    step: str | None = None
    signals: int = 0
    seconds: float = 0.0
    review: str | None = None
    """What the handler says to the person who must decide, as JSON."""

    @property
    def id(self) -> int:
        return self.claim.id


@dataclass(frozen=True, slots=True)
class Attempt:
    """One attempt at a job, from the claim to its ending."""

    job_id: int
    fence: int
    attempt: int
    worker_id: int
    worker: str | None
    ending: AttemptEnding
    reason: str | None
    error: str | None
    step: str | None
    signal: int | None
    peak_megabytes: float | None
    claimed_at: datetime
    ended_at: datetime
    seconds: float | None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ending", AttemptEnding(self.ending))


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint as a run reads it back; *age* is in seconds of the database's clock."""

    step: str
    generation: int
    value: str | None
    """None when it is long: then it is read on demand."""
    checksum: str
    fingerprint: str
    input_hash: str | None
    fence: int
    age: float


@dataclass(slots=True)
class NewCheckpoint:
    """What a step returned, ready to be written."""

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
    """What a step returned, with its metadata, for people."""

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
class Redone:
    """A step that a restart would do again, and what its answered calls have cost."""

    step: str
    seconds: float | None
    calls: int
    cost: Decimal
    unpriced: int


@dataclass(frozen=True, slots=True)
class RestartPlan:
    """What a restart of a job, from a step on or from the first, would do again."""

    job: Job
    step: str | None
    can: bool
    why_not: str | None
    steps: list[Redone]

    @property
    def seconds(self) -> float:
        """How long these steps took."""
        return sum(each.seconds or 0.0 for each in self.steps)

    @property
    def calls(self) -> int:
        """How many calls would be made again."""
        return sum(each.calls for each in self.steps)

    @property
    def cost(self) -> Decimal:
        """What these calls cost, as far as is known."""
        return sum((each.cost for each in self.steps), Decimal(0))

    @property
    def unpriced(self) -> int:
        """How many of them cost what nobody knows."""
        return sum(each.unpriced for each in self.steps)


@dataclass(frozen=True, slots=True)
class Recovered:
    """A job that was recovered from a dead worker, and its new state."""

    id: JobId
    pipeline: str
    state: str
    reason: str | None
    attempt: int
    crashes: int
    ending: AttemptEnding
    step: str | None
    worker_id: int
    correlation_id: str | None
    queue: str = ""
    fence: int = 0
    seconds: float | None = None
    """How long the attempt lasted, as far as it is known."""
    cause: str = ""
    """worker_gone, lease_expired, or watchdog when its supervisor ended it."""
    traceparent: str | None = None

    def __post_init__(self) -> None:
        object.__setattr__(self, "ending", AttemptEnding(self.ending))

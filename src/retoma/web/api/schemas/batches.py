"""Batches on the wire: what is asked, and what is answered."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Self

from pydantic import Field

from retoma import batch, evidence
from retoma.web.asked import AttemptCount, Id, QueueName, Seconds, Text, UnitKey
from retoma.web.shapes import Shape, Time

Labels = Annotated[dict[Text, Annotated[str, Field(max_length=500)]], Field(max_length=50)]
Money = Annotated[Decimal, Field(ge=0, max_digits=18, decimal_places=9)]

# — what is asked —


class NewJob(Shape):
    """One input, and the caller's own name for it."""

    input: Any
    key: UnitKey | None = None


class Limits(Shape):
    """What a batch may do; what is left out is as the pipeline has it."""

    max_resumes: Annotated[int, Field(ge=0, le=1000)] | None = None
    max_failure_rate: Annotated[float, Field(ge=0, le=1)] | None = None
    stall_seconds: Seconds | None = None
    budget: Money | None = None


class NewBatch(Limits):
    """A batch to make. With *jobs* it is sealed at once; without, it is filled and sealed later, or expires."""

    pipeline: Text
    name: Text
    jobs: Annotated[list[NewJob], Field(min_length=1, max_length=20_000)] | None = None
    route: Text | None = None
    labels: Labels | None = None
    configuration: dict[str, Any] | None = None
    max_retries: Annotated[int, Field(ge=0, le=1000)] | None = None
    at_once: Annotated[int, Field(ge=1, le=10_000)] | None = None
    queue: QueueName | None = None
    priority: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    timeout_seconds: Seconds | None = None
    expires_seconds: Seconds = 3600.0


class More(Shape):
    """Jobs for a batch that is still open."""

    jobs: Annotated[list[NewJob], Field(min_length=1, max_length=20_000)]


class Seal(Shape):
    """How many jobs there must be."""

    expected: Annotated[int, Field(ge=1)] | None = None


class Resume(Shape):
    """*epoch* refuses when the batch changed since it was looked at; *max_resumes* allows more than before."""

    epoch: Annotated[int, Field(ge=0)] | None = None
    max_resumes: Annotated[int, Field(ge=0, le=1000)] | None = None


class RetryFailed(Shape):
    """Which of the failed jobs: one error group, or all; also those that were cancelled, when asked."""

    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{12}$")] | None = None
    cancelled: bool = False
    attempts: AttemptCount | None = None


class Restart(Shape):
    """Another configuration to run under, or the same."""

    configuration: dict[str, Any] | None = None


class Change(Limits):
    """What is to be another way."""

    name: Text | None = None
    labels: Labels | None = None


class BatchFilter(Shape):
    """Which batches, and how many of them at a time; states are parted by commas."""

    state: Annotated[str, Field(pattern="^[a-z]+(,[a-z]+)*$")] | None = None
    pipeline: Text | None = None
    name: Text | None = None
    label: Annotated[str, Field(pattern="^[^=]+=.*$", max_length=700)] | None = None
    cursor: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class EventFilter(Shape):
    """Which events: those after a number."""

    after: Annotated[int, Field(ge=0, lt=2**63)] | None = None
    limit: Annotated[int, Field(ge=1, le=1000)] = 200


class JobPlace(Shape):
    """A batch, by its number."""

    id: Id


# — what is answered —


class Batch(Shape):
    """Many jobs followed as one."""

    content = ("configuration",)

    id: int
    name: str
    pipeline: str
    queue: str
    route: str | None
    labels: dict[str, str]
    correlation_id: str | None
    state: batch.BatchState
    reason: str | None
    cause: dict[str, Any] | None
    total: int | None
    unfinished: int
    failures: int
    resumes: int
    max_resumes: int
    max_failure_rate: float | None
    budget: Decimal | None
    spent: Decimal
    stall_seconds: float
    epoch: int
    event_seq: int
    created_at: Time
    sealed_at: Time | None
    expires_at: Time | None
    started_at: Time | None
    stalled_at: Time | None
    finished_at: Time | None
    last_progress_at: Time | None
    last_key: str | None
    configuration: dict[str, Any] | None = None


class Batches(Shape):
    """A page of batches, the newest first; *next* is the cursor of the page that follows."""

    batches: list[Batch]
    next: str | None


class Made(Shape):
    """A batch that was made, and where to look at it."""

    id: int
    state: batch.BatchState
    total: int | None
    status_url: str
    events_url: str


class Progress(Shape):
    """How far a batch has come; the counts always add up to the total."""

    id: int
    name: str
    state: batch.BatchState
    reason: str | None
    total: int
    done: int
    percent: float
    queued: int
    running: int
    completed: int
    skipped: int
    failed: int
    review: int
    cancelled: int
    resumes: int
    max_resumes: int
    rate: float | None
    eta_s: tuple[float, float] | None
    elapsed: float | None
    busy_seconds: float
    silent_seconds: float | None
    stalls_in: float | None
    spent: Decimal
    budget: Decimal | None
    last_progress_at: Time | None
    last_key: str | None
    epoch: int
    event_seq: int
    now: Time

    @classmethod
    def seen(cls, progress: batch.Progress) -> Self:
        """*progress*, with what follows from its figures."""
        eta = progress.eta
        shown = {name: getattr(progress, name) for name in cls.model_fields if name != "eta_s"}
        return cls(**shown, eta_s=None if eta is None else (eta[0].total_seconds(), eta[1].total_seconds()))


class Step(Shape):
    """One step of a batch's jobs."""

    step: str
    done: int
    jobs: int
    here: int
    median_seconds: float | None
    slow_seconds: float | None


class Durations(Shape):
    """How long the attempts that ended well took, in seconds."""

    jobs: int
    mean: float | None
    median: float | None
    slow: float | None
    slowest: float | None


class Steps(Shape):
    """How far the jobs of a batch are, step by step, and how long they take."""

    steps: list[Step]
    durations: Durations


class ErrorGroup(Shape):
    """Failed jobs whose errors say the same."""

    content = ("example",)

    fingerprint: str
    reason: str | None
    jobs: int
    first_jobs: list[int]
    first_keys: list[str]
    last_at: Time
    example: str | None = None


class Errors(Shape):
    """What failed in a batch, the largest group first."""

    errors: list[ErrorGroup]


class Plan(Shape):
    """What a resume would skip, continue and begin, and what that saves and needs."""

    can: bool
    why_not: str | None
    skips: int
    continues: int
    begins: int
    reruns: int
    leaves_failed: int
    quarantined: int
    suspects: int
    steps_kept: int
    seconds_saved: float
    seconds_needed: float | None
    money_saved: Decimal
    money_needed: Decimal | None


class Explanation(Shape):
    """Why a batch moves, or does not, and what to do."""

    batch_id: int
    verdict: evidence.Verdict
    needs_help: bool
    sentence: str
    evidence: dict[str, Any]
    action: str
    command: str | None


class Resumed(Shape):
    """What was done. *word* says why nothing was, when *changed* is false."""

    id: int
    changed: bool
    word: str
    already_running: bool
    jobs: int
    state: batch.BatchState
    resumes: int
    max_resumes: int
    epoch: int
    status_url: str
    events_url: str


class Event(Shape):
    """Something that happened to a batch; *seq* counts up without gaps."""

    seq: int
    kind: str
    at: Time
    data: dict[str, Any]


class Events(Shape):
    """What happened, in order; *last* is the number to go on from."""

    events: list[Event]
    last: int


class Filled(Shape):
    """How many jobs were added, and how many were there already under their keys."""

    added: int
    known: int

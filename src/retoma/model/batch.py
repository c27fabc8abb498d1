"""The values of batches: many jobs followed as one, their progress, and the plan of a resume."""

from __future__ import annotations

import json
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from decimal import Decimal
from enum import StrEnum
from typing import Any

import orjson

from retoma.model.ids import BatchId
from retoma.model.last_step import LastStep
from retoma.model.operation import JobFilter

_SHOWN_AFTER_SECONDS = 15.0
_SHOWN_AFTER_JOBS = 10
_MINUTE, _FIVE = 60.0, 300.0
_NOTHING_ENDS_SECONDS = 15.0
_NOTHING_ENDS_GAPS = 10.0  # times the usual time between two endings
_WIDEST = 10.0  # a range wider than this factor is no help
_LONGEST_SECONDS = 30 * 86_400.0


class BatchState(StrEnum):
    """What a batch is doing; *why* is in its reason."""

    QUEUED = "queued"
    """None of its jobs was claimed yet, or it is still being filled."""
    RUNNING = "running"
    """Its jobs are being claimed and end."""
    PAUSED = "paused"
    """A person, its budget or a refusing provider has paused it."""
    STALLED = "stalled"
    """Nothing progressed for longer than it allows; its cause says why."""
    COMPLETED = "completed"
    """All its jobs have ended, some perhaps as failed: they are counted."""
    FAILED = "failed"
    """Its resumes are used up, or too many of its jobs failed."""
    CANCELLED = "cancelled"
    """A person stopped it."""

    @property
    def ended(self) -> bool:
        """Whether only an explicit action of a person leaves this state."""
        return self in (BatchState.COMPLETED, BatchState.FAILED, BatchState.CANCELLED)


@dataclass(frozen=True, slots=True)
class Batch:
    """Many jobs followed as one, as they stand."""

    id: BatchId
    name: str
    pipeline: str
    queue: str
    route: str | None
    labels: dict[str, str]
    configuration: dict[str, Any]
    correlation_id: str | None
    state: BatchState
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
    created_at: datetime
    sealed_at: datetime | None
    expires_at: datetime | None
    started_at: datetime | None
    stalled_at: datetime | None
    finished_at: datetime | None
    last_progress_at: datetime | None
    last_key: str | None
    operation_id: int | None = None
    """The operation that is being carried out on it in pieces."""
    unpriced: int = 0
    """Calls that were billed at an unknown cost: *spent* does not include them."""
    held_at: datetime | None = None
    """Since when the jobs outside its pilot are held; None when nothing is."""
    finish: LastStep | None = None
    """Its last step, where it has one."""
    cohort: int = 1
    """The number of its newest configuration; more than 1 where it was re-planned."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", BatchState(self.state))
        if isinstance(self.finish, str):
            object.__setattr__(self, "finish", LastStep.read(self.finish))
        for name in ("labels", "configuration", "cause"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, json.loads(value))  # keeps integers of more than 64 bits


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a batch: every figure from one snapshot, so they always add up."""

    id: BatchId
    name: str
    state: BatchState
    reason: str | None
    total: int
    queued: int
    running: int
    completed: int
    skipped: int
    failed: int
    review: int
    cancelled: int
    resumes: int
    max_resumes: int
    last_progress_at: datetime | None
    last_key: str | None
    pace_minute: float | None
    pace_five: float | None
    busy_seconds: float
    spent: Decimal
    budget: Decimal | None
    stall_seconds: float
    created_at: datetime
    started_at: datetime | None
    stalled_at: datetime | None
    finished_at: datetime | None
    epoch: int
    event_seq: int
    now: datetime
    unpriced: int = 0
    """Calls that were billed at an unknown cost."""
    finish: LastStep | None = None
    """Its last step, where it has one. It is in none of the counts."""
    discarded: int | None = None
    """How many of the failed jobs a person has settled; None among many batches, where it is not counted."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "state", BatchState(self.state))
        if isinstance(self.finish, str):
            object.__setattr__(self, "finish", LastStep.read(self.finish))

    @property
    def retriable(self) -> int:
        """Failed jobs that nobody has settled as not to be retried."""
        return self.failed - (self.discarded or 0)

    @property
    def done(self) -> int:
        """Jobs that have ended, whatever their ending."""
        return self.completed + self.skipped + self.failed + self.review + self.cancelled

    @property
    def percent(self) -> float:
        """The share of jobs that have ended; 100 only when all have."""
        return math.floor(1000 * self.done / self.total) / 10 if self.total else 0.0

    @property
    def elapsed(self) -> float | None:
        """Seconds since it started, until now or until it ended."""
        if self.started_at is None:
            return None
        return ((self.finished_at or self.now) - self.started_at).total_seconds()

    @property
    def silent_seconds(self) -> float | None:
        """Seconds since a job last ended, while the batch is running."""
        if self.last_progress_at is None or self.state not in (BatchState.RUNNING, BatchState.STALLED):
            return None
        return max(0.0, (self.now - self.last_progress_at).total_seconds())

    @property
    def stalls_in(self) -> float | None:
        """Seconds until the watchdog diagnoses the silence."""
        silent = self.silent_seconds
        return None if silent is None or self.state is not BatchState.RUNNING else max(0.0, self.stall_seconds - silent)

    @property
    def nothing_ends(self) -> bool:
        """Whether jobs have stopped ending: nothing has ended for far longer than the usual time between two."""
        silent = self.silent_seconds
        if silent is None or self.done == 0:
            return False
        # The recent count as it was when the last job ended.
        usual = _FIVE / max((self.pace_five or 0.0) * math.exp(min(silent / _FIVE, 700.0)), 1e-9)
        return silent > max(_NOTHING_ENDS_SECONDS, _NOTHING_ENDS_GAPS * usual)

    def _rates(self) -> tuple[float, float] | None:
        """Jobs per second over about one minute and about five, corrected for a batch that is younger than that."""
        elapsed = self.elapsed
        if not elapsed or self.state is not BatchState.RUNNING or not self.pace_minute or not self.pace_five:
            return None
        if self.nothing_ends:
            return None
        seen = [
            pace / (window * -math.expm1(-elapsed / window))
            for pace, window in ((self.pace_minute, _MINUTE), (self.pace_five, _FIVE))
        ]
        return min(seen), max(seen)

    @property
    def rate(self) -> float | None:
        """Jobs that end per second, lately; None while nothing ends."""
        rates = self._rates()
        return None if rates is None else (rates[0] + rates[1]) / 2

    @property
    def eta(self) -> tuple[timedelta, timedelta] | None:
        """The minimum and maximum time for the rest; None while that would be a guess: nothing ends, few jobs have
        ended, or the range would be too wide to help.
        """
        rates = self._rates()
        if rates is None or self.done < _SHOWN_AFTER_JOBS or (self.elapsed or 0) < _SHOWN_AFTER_SECONDS:
            return None
        left = self.queued + self.running
        if not left:
            return timedelta(0), timedelta(0)
        # Few jobs give little certainty, so the range is as wide as chance would make it.
        spread = 1 / math.sqrt(max(self.pace_five or 1.0, 1.0))
        slow, fast = rates[0] * max(0.1, 1 - spread), rates[1] * (1 + spread)
        least, most = left / fast, left / slow
        if most > max(_WIDEST * least, _MINUTE) or most > _LONGEST_SECONDS:
            return None
        # What is left takes at least a second.
        return _rounded(max(least, 1.0), math.floor), _rounded(max(most, 1.0), math.ceil)


def _rounded(seconds: float, outwards: Callable[[float], int]) -> timedelta:
    """Rounded to minutes above two minutes, outwards, so that the true value stays in the range."""
    return timedelta(seconds=60 * outwards(seconds / 60) if seconds > 2 * _MINUTE else outwards(seconds))


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened to a batch; *seq* counts up without gaps."""

    batch_id: BatchId
    seq: int
    kind: str
    at: datetime
    data: dict[str, Any]

    def __post_init__(self) -> None:
        if isinstance(self.data, str):
            object.__setattr__(self, "data", orjson.loads(self.data))


@dataclass(frozen=True, slots=True)
class StepFigures:
    """One step of a batch's jobs: how often it was saved, by how many jobs, and how many unfinished
    jobs have got this far.
    """

    step: str
    done: int
    jobs: int
    here: int
    median_seconds: float | None
    slow_seconds: float | None
    wait_seconds: float | None = None
    """How long jobs waited before it, in the median: since the step before, or since they were queued."""


@dataclass(frozen=True, slots=True)
class Durations:
    """How long the successful attempts of a batch took, in seconds."""

    jobs: int
    mean: float | None
    median: float | None
    slow: float | None
    slowest: float | None


@dataclass(frozen=True, slots=True)
class ErrorGroup:
    """Failed jobs with equal errors."""

    fingerprint: str
    example: str | None
    reason: str | None
    jobs: int
    first_jobs: list[int]
    first_keys: list[str]
    last_at: datetime


@dataclass(frozen=True, slots=True)
class Resumed:
    """What a resume, a retry or a restart did. *changed* is False when there was nothing to do, and *word* says why:
    "already_running", "already_finished", "already_retrying", "nothing_to_retry". *word* is "no_workers" when no worker
    serves the batch yet: then no resume was used up. *jobs* is how many were queued again so far, when an operation
    continues (``batch.operation_id``).
    """

    batch: Batch
    changed: bool
    word: str
    jobs: int = 0


@dataclass(frozen=True, slots=True)
class Operation:
    """A command on many jobs, and its progress: on those of one batch, or on those that a filter finds."""

    id: int
    batch_id: BatchId | None
    kind: str
    """"cancel", "retry", "restart" or "replan"; by a filter also "move", "priority", "discard" and "reinstate"."""
    asked_by: str | None
    wanted: int
    """How many jobs it may concern."""
    done: int
    started_at: datetime
    finished_at: datetime | None
    error: str | None
    """Why it ended early: the state that its batch came into, or "cancelled"."""
    asked: dict[str, Any] = field(default_factory=dict)
    filter: JobFilter | None = None
    skipped: dict[str, int] = field(default_factory=dict)
    """How many jobs it passed over, by reason."""
    exact: bool = True
    """Whether *wanted* was counted to the end."""
    after: int = 0
    upto: int | None = None

    def __post_init__(self) -> None:
        for name in ("asked", "skipped"):
            if isinstance(getattr(self, name), str):
                object.__setattr__(self, name, orjson.loads(getattr(self, name)))
        if isinstance(self.filter, str):
            object.__setattr__(self, "filter", JobFilter.read(self.filter))

    @property
    def finished(self) -> bool:
        return self.finished_at is not None

    @property
    def passed(self) -> int:
        """How many jobs it has looked at and left as they were."""
        return sum(self.skipped.values())

    @property
    def share(self) -> float:
        """How far it has come, from 0 to 1: by its jobs, or by the part of the table that it has searched."""
        if self.finished:
            return 1.0
        if self.exact or self.upto is None:
            return min(1.0, (self.done + self.passed) / self.wanted) if self.wanted else 0.0
        return min(1.0, self.after / self.upto) if self.upto else 0.0


@dataclass(frozen=True, slots=True)
class Found:
    """What a resume would find in a batch, as counted from its jobs."""

    done: int
    continued: int
    begun: int
    failed: int
    quarantined: int
    cancelled: int
    suspects: int
    steps_kept: int
    seconds_kept: float
    seconds_done: float
    seconds_each: float | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """What a resume would skip, continue, start and leave alone, and what that saves and needs."""

    batch: Batch
    can: bool
    why_not: str | None
    skips: int
    """Finished jobs that are not run again."""
    continues: int
    """Jobs that continue after their last checkpoint."""
    begins: int
    """Jobs without a checkpoint."""
    reruns: int
    """Finished jobs that would be run again because the configuration differs; only a restart does that."""
    leaves_failed: int
    """Failed jobs; only retry-failed tries them again."""
    quarantined: int
    suspects: int
    """Jobs that were running when an executor died: they run alone."""
    steps_kept: int
    seconds_saved: float
    seconds_needed: float | None
    """With one job at a time."""
    money_saved: Decimal
    money_needed: Decimal | None
    """Estimated from the cost of the jobs so far; None when nothing is done, or when the cost of a call is unknown."""
    finish: str | None = None
    """What becomes of its last step: it "runs" after the jobs, "continues" after its last checkpoint, runs "again" from
    its beginning, or is "done"; None for a batch without one.
    """


@dataclass(frozen=True, slots=True)
class Breach:
    """A violated invariant: which one, for what, and what was found."""

    invariant: str
    what: str
    found: str

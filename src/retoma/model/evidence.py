"""The facts about a batch from one snapshot, and the verdicts drawn from them."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from enum import StrEnum
from typing import Any

import orjson


@dataclass(frozen=True, slots=True)
class Evidence:
    """The facts that say why a batch progresses or does not."""

    state: str
    reason: str | None
    queue: str
    pipeline: str
    sealed_at: datetime | None
    started_at: datetime | None
    last_progress_at: datetime | None
    stall_seconds: float
    epoch: int
    event_seq: int
    budget: Decimal | None
    spent: Decimal
    last_key: str | None
    resumes: int
    max_resumes: int
    unfinished: int
    failures: int
    queue_paused: str | None
    queued: int
    due: int
    oldest_due_at: datetime | None
    """Since when a job that chose its own time (or had none) could be claimed."""
    troubled: int
    """Jobs that wait because something failed or a provider postponed them, not by choice."""
    next_run_at: datetime | None
    next_reason: str | None
    running: int
    orphaned: int
    lost_worker: str | None
    lost_at: datetime | None
    outlived_seconds: float | None
    """How long a job has run in a live worker, if longer than any attempt that ended badly: of
    several, the shortest.
    """
    oldest_key: str | None
    oldest_seconds: float | None
    last_step_at: datetime | None
    slowest_seconds: float | None
    workers: int
    idle_workers: int
    bad_endings: int
    bad_ending: str | None
    bad_reason: str | None
    bad_error: str | None
    suspect_key: str | None
    suspect_crashes: int | None
    shut_limit: str | None
    """The provider limit that its last calls used and that lets no request through now."""
    shut_until: datetime | None
    shut_broken: bool
    """Whether that is its circuit breaker, after failures, and not a pause that the provider asked for."""
    limited_seconds: float | None
    """Since the last ending: the time between the first and the last request that the provider refused with 429."""
    call_status: int | None
    call_error: str | None
    """The answer to the last failed request."""
    worst: list[dict[str, Any]] | None
    """Of an ended batch: the errors of its failed jobs, most frequent first, each with its number of jobs."""
    cause: dict[str, Any] | None
    """The diagnosis that was stored when it was marked as stalled."""
    now: datetime
    held: bool = False
    """Whether the jobs outside its pilot wait until they are released. They are not among the queued ones here."""
    finishing: str | None = None
    """Where its last step stands: "waiting" for the other jobs, "open", "ended" or "failed"."""
    finish_job_id: int | None = None
    finish_pipeline: str | None = None
    finish_error: str | None = None
    """Why its last step failed."""

    def __post_init__(self) -> None:
        for name in ("worst", "cause"):
            value = getattr(self, name)
            if isinstance(value, str):
                object.__setattr__(self, name, orjson.loads(value))

    @property
    def moved_at(self) -> datetime | None:
        """When a job last ended or a step was last saved. A batch whose jobs all chose to wait cannot progress until
        one of them is due. A failed or postponed job that is due again does not count as progress.
        """
        due = None if self.running or self.troubled else self.oldest_due_at
        times = [at for at in (self.last_progress_at, self.last_step_at, due) if at is not None]
        return max(times) if times and self.last_progress_at else None

    @property
    def silent_seconds(self) -> float:
        """How long nothing progressed."""
        return 0.0 if self.moved_at is None else max(0.0, (self.now - self.moved_at).total_seconds())

    @property
    def silent(self) -> bool:
        """Whether that is longer than the batch allows."""
        return self.silent_seconds >= self.stall_seconds


class Verdict(StrEnum):
    """Why a batch moves, or does not."""

    MOVING = "moving"
    """Jobs end."""
    SLOW = "slow"
    """Jobs run in live workers, within the time they may take."""
    READY = "ready"
    """Workers are there and have room: its jobs are about to be claimed."""
    WAITING = "waiting"
    """Every job waits for a time that has not come: one it chose itself, or one that its provider named."""
    SATURATED = "saturated"
    """All workers are busy with other jobs; its turn comes."""
    PAUSED = "paused"
    """A person paused it."""
    REFUSED = "refused"
    """The provider does not accept our key or account, and the batch is paused until somebody has fixed that."""
    BUDGET = "budget"
    """Its budget is spent."""
    PRICE_UNKNOWN = "price_unknown"
    """It has a budget, and the price of a call is unknown."""
    QUEUE_PAUSED = "queue_paused"
    """Its queue is paused."""
    UNSEALED = "unsealed"
    """It is still being filled."""
    PILOTED = "piloted"
    """Its pilot is over, and the other jobs are held until they are released."""
    NO_WORKERS = "no_workers"
    """No live worker serves its queue."""
    WORKER_LOST = "worker_lost"
    """The worker that held its jobs fell silent, and they are not recovered yet."""
    POISON = "poison"
    """One of its documents crashes executors."""
    FAILING = "failing"
    """Attempts fail, one after the other."""
    PROVIDER_DOWN = "provider_down"
    """The provider does not answer, or answers with errors."""
    RATE_LIMITED = "rate_limited"
    """The provider has rejected every request (429) for longer than the batch allows."""
    HANGING = "hanging"
    """Its jobs run far longer than any of them did before."""
    SILENT = "silent"
    """Nothing progresses, and no visible fact says why."""
    COMPLETED = "completed"
    FAILED = "failed"
    CANCELLED = "cancelled"


@dataclass(frozen=True, slots=True, kw_only=True)
class Explanation:
    """Why a batch progresses or does not: the verdict, its evidence, and what to do."""

    batch_id: int
    verdict: Verdict
    needs_help: bool
    """Whether it needs a person to progress."""
    sentence: str
    evidence: dict[str, Any]
    action: str
    """What helps, as one word: "wait", "resume", "fix_and_resume", "fix_key", "start_worker", "resume_queue",
    "raise_budget", "set_price", "seal", "release", "retry_failed", "none".
    """
    advice: str
    """What to do, in order, in a sentence; empty when there is nothing to do."""
    command: str | None

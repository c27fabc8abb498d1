"""Batches on the wire: what is answered."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Self

from pydantic import ConfigDict

from retoma.model import batch, evidence, pilot
from retoma.web.api.schemas.responses import Schema, Time
from retoma.web.words.causes import cause_shown, data_shown


class LastStep(Schema):
    """The last step of a batch: work over the whole of it, once its jobs have ended. It is in no count of the batch."""

    model_config = ConfigDict(from_attributes=True)

    pipeline: str
    job_id: int | None
    state: str
    run: int
    waits_for: int
    reason: str | None
    steps: int
    step: str | None
    seconds: float | None
    cost: Decimal


class Batch(Schema):
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
    operation_id: int | None
    unpriced: int
    held_at: Time | None
    finish: LastStep | None
    cohort: int
    configuration: dict[str, Any] | None = None

    @classmethod
    def of(cls, value: object, *, content: bool = False) -> Self:
        """*value* as it goes over the wire; the words of errors in its cause are content, too."""
        made = super().of(value, content=content)
        return made.model_copy(update={"cause": cause_shown(made.cause, content=content)})


class Standing(Schema):
    """How far a batch has come, as a row of a list; the counts add up to the total."""

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
    rate: float | None
    eta_s: tuple[float, float] | None

    @classmethod
    def seen(cls, progress: batch.Progress) -> Self:
        """*progress*, with what follows from its figures."""
        shown = {name: getattr(progress, name) for name in cls.model_fields if name != "eta_s"}
        return cls(**shown, eta_s=_seconds(progress))


class ListedBatch(Batch):
    """A batch in a list, with how far it has come."""

    standing: Standing


class Batches(Schema):
    """A page of batches, the newest first; *next* is the cursor of the page that follows."""

    batches: list[ListedBatch]
    next: str | None


def listed(row: batch.Batch, progress: batch.Progress) -> ListedBatch:
    """*row* and its *progress*, as a row of a list."""
    shown = Batch.of(row).model_dump(exclude_unset=True)
    return ListedBatch(**shown, standing=Standing.seen(progress))


def _seconds(progress: batch.Progress) -> tuple[float, float] | None:
    eta = progress.eta
    return None if eta is None else (eta[0].total_seconds(), eta[1].total_seconds())


class Made(Schema):
    """A batch that was made, and where to look at it."""

    id: int
    state: batch.BatchState
    total: int | None
    status_url: str
    events_url: str


class Progress(Schema):
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
    pace_minute: float | None
    pace_five: float | None
    busy_seconds: float
    silent_seconds: float | None
    stall_seconds: float
    stalls_in: float | None
    spent: Decimal
    unpriced: int
    budget: Decimal | None
    created_at: Time
    started_at: Time | None
    stalled_at: Time | None
    finished_at: Time | None
    last_progress_at: Time | None
    last_key: str | None
    epoch: int
    event_seq: int
    now: Time
    finish: LastStep | None
    discarded: int | None

    @classmethod
    def seen(cls, progress: batch.Progress) -> Self:
        """*progress*, with what follows from its figures."""
        shown = {name: getattr(progress, name) for name in cls.model_fields if name != "eta_s"}
        return cls(**shown, eta_s=_seconds(progress))


class Step(Schema):
    """One step of a batch's jobs."""

    step: str
    done: int
    jobs: int
    here: int
    median_seconds: float | None
    slow_seconds: float | None
    wait_seconds: float | None


class Durations(Schema):
    """How long the attempts that ended well took, in seconds."""

    jobs: int
    mean: float | None
    median: float | None
    slow: float | None
    slowest: float | None


class Steps(Schema):
    """How far the jobs of a batch are, step by step, and how long they take."""

    steps: list[Step]
    durations: Durations


class ErrorGroup(Schema):
    """Failed jobs whose errors say the same."""

    content = ("example",)

    fingerprint: str
    reason: str | None
    jobs: int
    first_jobs: list[int]
    first_keys: list[str]
    last_at: Time
    example: str | None = None


class Errors(Schema):
    """What failed in a batch, the largest group first."""

    errors: list[ErrorGroup]


class Plan(Schema):
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
    finish: str | None


class Range(Schema):
    """A projection: what is most likely, and between which values it lies as often as *confidence* says."""

    likely: float
    low: float
    high: float


class Pilot(Schema):
    """How the pilot of a batch went, and what that says of the whole, the pilot included. What nobody knows is null:
    fewer than three jobs have ended, or the price of a call is unknown.
    """

    jobs: int
    ended: int
    completed: int
    failed: int
    held: int
    over: bool
    released: bool
    spent: Decimal
    unpriced: int
    cost: Range | None
    work_seconds: Range | None
    elapsed_seconds: Range | None
    failure_rate: Range | None
    confidence: float
    method: str

    @classmethod
    def seen(cls, found: pilot.Pilot) -> Self:
        """*found* as it goes over the wire."""
        ranges = ("cost", "work_seconds", "elapsed_seconds", "failure_rate")
        plain = {name: getattr(found, name) for name in cls.model_fields if name not in ranges}
        known = {name: None if (one := getattr(found, name)) is None else Range.of(one) for name in ranges}
        return cls(**plain, **known)


class Explanation(Schema):
    """Why a batch moves, or does not, and what to do."""

    batch_id: int
    verdict: evidence.Verdict
    needs_help: bool
    sentence: str
    evidence: dict[str, Any]
    action: str
    advice: str
    """What to do first and then; empty when there is nothing to do."""
    command: str | None


class Resumed(Schema):
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
    operation_id: int | None
    status_url: str
    events_url: str


class Event(Schema):
    """Something that happened to a batch; *seq* counts up without gaps."""

    seq: int
    kind: str
    at: Time
    data: dict[str, Any]

    @classmethod
    def of(cls, value: object, *, content: bool = False) -> Self:
        """*value* as it goes over the wire; the words of errors in a cause are content."""
        made = super().of(value, content=content)
        return made.model_copy(update={"data": data_shown(made.data, content=content)})


class Events(Schema):
    """What happened, in order; *last* is the number to go on from."""

    events: list[Event]
    last: int


class Filled(Schema):
    """How many jobs were added, and how many were there already under their keys."""

    added: int
    known: int

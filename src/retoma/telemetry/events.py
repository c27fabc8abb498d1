"""Every event as a frozen dataclass: the catalogue. Its docstring is the sentence for people."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Self

from retoma.model.job import Claim, Ended
from retoma.telemetry.call_events import (
    AnswerMisfit,
    CallAnswered,
    CallEvent,
    CallFailed,
    CallStarted,
    CallSubmitted,
)
from retoma.telemetry.context import who
from retoma.telemetry.event import Event, FrequentEvent, JobEvent
from retoma.telemetry.message_events import (
    AlertOpened,
    AlertResolved,
    AlertUnsent,
    WebhookDelivered,
    WebhookDisabled,
    WebhookFailed,
)

# Those that stand elsewhere; the others stand below.
__all__ = [
    "AlertOpened",
    "AlertResolved",
    "AlertUnsent",
    "AnswerMisfit",
    "CallAnswered",
    "CallEvent",
    "CallFailed",
    "CallStarted",
    "CallSubmitted",
    "Event",
    "JobEvent",
    "WebhookDelivered",
    "WebhookDisabled",
    "WebhookFailed",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(FrequentEvent):
    """A handler started. *run* is the span of what the batch was made or last resumed with."""

    weight: ClassVar[str] = "debug"
    traceparent: str | None = None
    run: str | None = None

    @classmethod
    def of(cls, facts: tuple[int, Claim, str | None]) -> Self:
        worker, claim, run = facts
        return cls(**who(worker, claim), traceparent=claim.traceparent, run=run)


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(FrequentEvent):
    """An attempt has ended and is written; *state* is the job's new state."""

    state: str
    ending: str
    duration_ms: float
    reason: str | None = None
    error: str | None = None

    @classmethod
    def of(cls, facts: tuple[int, Ended, str]) -> Self:
        worker, ended, state = facts
        return cls(
            **who(worker, ended.claim),
            state=state,
            ending=str(ended.ending),
            duration_ms=ended.seconds * 1000,
            reason=ended.reason,
            error=(ended.error or "").partition("\n")[0] or None,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLost(JobEvent):
    """Another worker got the job while this one held it; the result of this one was dropped."""

    weight: ClassVar[str] = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForgotten(JobEvent):
    """The database says that this worker holds a job that it does not know: the job was released."""

    weight: ClassVar[str] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepStarted(JobEvent):
    """A step started: no checkpoint has its result."""

    weight: ClassVar[str] = "debug"
    step: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StepFailed(JobEvent):
    """A step ended without a result."""

    weight: ClassVar[str] = "debug"
    step: str
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted(JobEvent):
    """A step has finished and its checkpoint is saved."""

    weight: ClassVar[str] = "debug"
    step: str
    duration_ms: float
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRestored(JobEvent):
    """A step was done before; its checkpoint was restored."""

    weight: ClassVar[str] = "debug"
    step: str
    input_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSetAside(JobEvent):
    """A checkpoint no longer fits; it is kept, and not used."""

    weight: ClassVar[str] = "warning"
    step: str
    generation: int
    reason: str
    kind: str = "misfit"


@dataclass(frozen=True, slots=True, kw_only=True)
class ReviewDecided(Event):
    """A person decided what was in doubt, or undid a decision."""

    review: int
    decision: int
    pipeline: str
    kind: str
    who: str
    job: int | None = None
    batch: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecovered(Event):
    """A worker is gone; this is the new state of a job it held."""

    weight: ClassVar[str] = "warning"
    worker: int
    job: int
    pipeline: str
    attempt: int
    state: str
    ending: str
    crashes: int
    reason: str | None = None
    step: str | None = None
    correlation: str | None = None
    queue: str | None = None
    fence: int | None = None
    cause: str | None = None
    duration_ms: float = 0.0
    traceparent: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsEnqueued(Event):
    """Jobs were queued; those whose key existed already do not count."""

    weight: ClassVar[str] = "debug"
    queue: str
    pipeline: str
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsClaimed(Event):
    """An executor claimed jobs of a queue; *waited* is how long each had been due, in seconds."""

    weight: ClassVar[str] = "debug"
    worker: int
    queue: str
    jobs: int
    waited: tuple[float, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class LimitWaited(Event):
    """A request waited for the limit of its provider."""

    weight: ClassVar[str] = "debug"
    limit: str
    seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolWaited(Event):
    """A statement waited for a connection of a pool, longer than a millisecond."""

    weight: ClassVar[str] = "debug"
    seconds: float
    given: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class DutyDone(Event):
    """A duty of the watchdog was done here, or failed."""

    weight: ClassVar[str] = "debug"
    duty: str
    done: bool
    duration_ms: float


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamReset(Event):
    """A client that follows a batch was told to look again, because it was behind, slow or had an unknown position."""

    weight: ClassVar[str] = "debug"
    why: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsExpired(Event):
    """Jobs waited longer than they were allowed to."""

    weight: ClassVar[str] = "warning"
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGone(Event):
    """All processes of a worker have ended without notice; its jobs are recovered before its lease ends."""

    weight: ClassVar[str] = "error"
    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorUnstarted(Event):
    """An executor process could not be started on this machine; the others continue, and the start is retried."""

    weight: ClassVar[str] = "error"
    worker: int
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorStarted(Event):
    """An executor process was started."""

    worker: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorStopped(Event):
    """An executor process ended as it was asked to."""

    worker: int
    pid: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerDraining(Event):
    """Somebody asked this worker, through the database, to take no more jobs and to end."""

    worker: int
    label: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorCrashed(Event):
    """An executor process died; its jobs were released."""

    weight: ClassVar[str] = "error"
    worker: int
    pid: int
    reason: str
    signal: int | None
    peak_megabytes: float | None
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorKilled(Event):
    """A handler ignored its time-out or its cancellation: its executor was killed."""

    weight: ClassVar[str] = "error"
    worker: int
    pid: int
    reason: str
    jobs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxIncomplete(Event):
    """Isolated functions lack a protection that RETOMA_SANDBOX=require asks for; 'retoma doctor' says what to do."""

    weight: ClassVar[str] = "warning"
    missing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLost(Event):
    """The database does not do what is asked of it; the work is kept and retried. Reported once, and
    then at growing intervals.
    """

    weight: ClassVar[str] = "warning"
    doing: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFired(Event):
    """A schedule was due and its job was enqueued."""

    schedule: str
    job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleUnreadable(Event):
    """A schedule was due and this worker cannot compute its next time; another may, and its job waits for that."""

    weight: ClassVar[str] = "error"
    schedule: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleKept(Event):
    """A program declares another time for a schedule than it has; the schedule stays, because a
    person may have changed it.
    """

    weight: ClassVar[str] = "warning"
    schedule: str
    cron: str
    declared: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsUnheard(Event):
    """Notifications do not arrive here; the worker polls every *poll* seconds instead."""

    weight: ClassVar[str] = "warning"
    reason: str
    poll: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStalled(Event):
    """Nothing progresses in a batch, and the diagnosis says why."""

    weight: ClassVar[str] = "warning"
    batch: int
    verdict: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAdvanced(Event):
    """A stalled batch progresses again by itself."""

    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFailed(Event):
    """A batch stalled again with every resume used."""

    weight: ClassVar[str] = "error"
    batch: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBroken(Event):
    """An event of a batch could not be rendered for its followers; their streams end."""

    weight: ClassVar[str] = "error"
    voice: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAudited(Event):
    """Somebody changed something, read content, or was refused; the audit has it too."""

    who: str
    action: str
    object: str | None = None
    outcome: str
    address: str | None = None
    route: str
    correlation: str | None = None
    times: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class TriesRefused(Event):
    """One address sent more wrong keys than are answered; further ones are refused for a minute."""

    weight: ClassVar[str] = "warning"
    address: str
    tries: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RequestsRefused(Event):
    """More requests came than the connections to the database can serve; some were told to come again."""

    weight: ClassVar[str] = "warning"
    kind: str
    requests: int


@dataclass(frozen=True, slots=True, kw_only=True)
class CallersRefused(Event):
    """Callers asked for more than is allowed, or kept the server waiting; reported at most once
    a second for each code.
    """

    weight: ClassVar[str] = "warning"
    code: str
    callers: int

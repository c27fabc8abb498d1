"""Every event as a frozen dataclass: the catalogue. A sentence for people stands in the docstring, once."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import ClassVar


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. The engine puts no input and no answer here, only sizes and names; what an exception
    says of itself may quote them.
    """

    weight: ClassVar[str] = "info"

    @classmethod
    def title(cls) -> str:
        """``JobRecovered`` is written ``job.recovered``."""
        return re.sub(r"(?<!^)(?=[A-Z])", ".", cls.__name__).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Event):
    """Something that happened to a job in the hands of a worker."""

    worker: int
    job: int
    pipeline: str
    attempt: int
    correlation: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptStarted(JobEvent):
    """A handler began."""

    weight: ClassVar[str] = "debug"


@dataclass(frozen=True, slots=True, kw_only=True)
class AttemptEnded(JobEvent):
    """An attempt is over and written down; *state* is what became of the job."""

    state: str
    ending: str
    duration_ms: float
    reason: str | None = None
    error: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class JobLost(JobEvent):
    """The job was given to another worker while this one held it; what this one did was dropped."""

    weight: ClassVar[str] = "warning"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobForgotten(JobEvent):
    """The database says that this worker holds a job, and it knows nothing of it: the job was given back."""

    weight: ClassVar[str] = "error"


@dataclass(frozen=True, slots=True, kw_only=True)
class StepCompleted(JobEvent):
    """A step is done and saved."""

    weight: ClassVar[str] = "debug"
    step: str
    duration_ms: float
    size: int


@dataclass(frozen=True, slots=True, kw_only=True)
class StepRestored(JobEvent):
    """A step was done before; its checkpoint was given back."""

    weight: ClassVar[str] = "debug"
    step: str
    input_changed: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckpointSetAside(JobEvent):
    """A checkpoint does not fit any more; it is kept, and not used."""

    weight: ClassVar[str] = "warning"
    step: str
    generation: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class JobRecovered(Event):
    """A worker is gone; this is what became of a job it held."""

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


@dataclass(frozen=True, slots=True, kw_only=True)
class JobsExpired(Event):
    """Jobs waited longer than they were allowed to."""

    weight: ClassVar[str] = "warning"
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class WorkerGone(Event):
    """All processes of a worker have ended without a word; its jobs are given back before its lease is over."""

    weight: ClassVar[str] = "error"
    worker: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorUnstarted(Event):
    """An executor process could not be started on this machine; the others go on, and it is tried again."""

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
class ExecutorCrashed(Event):
    """An executor process died; its jobs were given back."""

    weight: ClassVar[str] = "error"
    worker: int
    pid: int
    reason: str
    signal: int | None
    peak_megabytes: float | None
    jobs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExecutorKilled(Event):
    """A handler outlived its time-out or its cancellation and did not let go: its executor was ended for it."""

    weight: ClassVar[str] = "error"
    worker: int
    pid: int
    reason: str
    jobs: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SandboxIncomplete(Event):
    """Isolated functions lack a wall that RETOMA_SANDBOX=require asks for; 'retoma doctor' says what to do about it."""

    weight: ClassVar[str] = "warning"
    missing: str


@dataclass(frozen=True, slots=True, kw_only=True)
class DatabaseLost(Event):
    """The database does not do what is asked of it; what is at hand is kept and tried again. Told once, and while it
    lasts at growing intervals.
    """

    weight: ClassVar[str] = "warning"
    doing: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleFired(Event):
    """A schedule's time came and its job was queued."""

    schedule: str
    job: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleUnreadable(Event):
    """A schedule's time came and this worker cannot tell its next one; another may, and its job waits for that."""

    weight: ClassVar[str] = "error"
    schedule: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ScheduleKept(Event):
    """A program declares another time for a schedule than it has; it stays, for somebody may have changed it."""

    weight: ClassVar[str] = "warning"
    schedule: str
    cron: str
    declared: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HintsUnheard(Event):
    """Notifications do not arrive here; the worker looks every *poll* seconds instead."""

    weight: ClassVar[str] = "warning"
    reason: str
    poll: float


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchStalled(Event):
    """Nothing moves in a batch, and it was found out why."""

    weight: ClassVar[str] = "warning"
    batch: int
    verdict: str
    sentence: str


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchAdvanced(Event):
    """A stalled batch moves again by itself."""

    batch: int


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchFailed(Event):
    """A batch stalled once more with every resume used."""

    weight: ClassVar[str] = "error"
    batch: int
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamBroken(Event):
    """What happened to a batch could not be put into words for those who follow it; their streams end."""

    weight: ClassVar[str] = "error"
    voice: str
    error: str


@dataclass(frozen=True, slots=True, kw_only=True)
class ActionAudited(Event):
    """Somebody changed something, looked at content, or was refused; the audit has it too."""

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
    """Wrong keys came from one address, more than are answered; the others are sent away for a minute."""

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
    """Callers asked for more than is allowed, or kept the server waiting; told at most once a second for each code."""

    weight: ClassVar[str] = "warning"
    code: str
    callers: int

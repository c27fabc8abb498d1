"""What is asked of batches: bodies and filters."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import AfterValidator, Field

from retoma.model.batch import BatchState
from retoma.model.job import JobState
from retoma.web.api.schemas.requests import (
    HIGHEST,
    WHOLE,
    Asked,
    AttemptCount,
    Flag,
    Money,
    QueueName,
    Seconds,
    Text,
    UnitKey,
    Wanted,
)

_STATE = "|".join(BatchState)
_STATES: dict[str, Any] = {"pattern": f"^({_STATE})(,({_STATE}))*$"}
_JOB_STATE = "|".join(JobState)
_JOB_STATES: dict[str, Any] = {"pattern": f"^({_JOB_STATE})(,({_JOB_STATE}))*$"}
_SMALLEST = 1e-6


def _keepable(rate: float) -> float:
    """The tables keep it as a real, which knows nothing between 0 and about 1e-45."""
    if 0 < rate < _SMALLEST:
        raise ValueError(f"0, or at least {_SMALLEST:f}")
    return rate


Labels = Annotated[dict[Text, Annotated[str, Field(max_length=500)]], Field(max_length=50)]
Rate = Annotated[
    float,
    Field(ge=0, le=1, json_schema_extra={"anyOf": [{"const": 0}, {"minimum": 0.000001}]}),
    AfterValidator(_keepable),
]
PilotJobs = Annotated[int, Field(ge=0, le=1000), WHOLE]
Count = Annotated[int, Field(ge=0, lt=2**31), WHOLE]


class NewJob(Asked):
    """One input, and the caller's own name for it."""

    input: Any
    key: UnitKey | None = None


class BatchLimits(Asked):
    """What a batch may do; what is left out is as the pipeline has it."""

    max_resumes: Annotated[int, Field(ge=0, le=1000), WHOLE] | None = None
    max_failure_rate: Rate | None = None
    stall_seconds: Seconds | None = None
    budget: Money | None = None


class NewBatch(BatchLimits):
    """A batch to make. With *jobs* it is sealed at once; without, it is filled and sealed later, or expires."""

    pipeline: Text
    name: Text
    jobs: Annotated[list[NewJob], Field(min_length=1, max_length=20_000)] | None = None
    route: Text | None = None
    labels: Labels | None = None
    configuration: dict[str, Any] | None = None
    max_retries: Annotated[int, Field(ge=0, le=1000), WHOLE] | None = None
    at_once: Annotated[int, Field(ge=1, le=10_000), WHOLE] | None = None
    queue: QueueName | None = None
    priority: Annotated[int, Field(ge=-1000, le=1000), WHOLE] | None = None
    timeout_seconds: Seconds | None = None
    pilot: PilotJobs = 0
    expires_seconds: Seconds = 3600.0


class More(Asked):
    """Jobs for a batch that is still open."""

    jobs: Annotated[list[NewJob], Field(min_length=1, max_length=20_000)]


class Seal(Asked):
    """How many jobs there must be, and how many of them run first."""

    expected: Annotated[int, Field(ge=1, lt=2**31), WHOLE] | None = None
    pilot: PilotJobs = 0


class Resume(Asked):
    """*epoch* refuses when the batch changed since it was looked at; *max_resumes* allows more than before."""

    epoch: Count | None = None
    max_resumes: Annotated[int, Field(ge=0, le=1000), WHOLE] | None = None


class RetryFailed(Asked):
    """Which of the failed jobs: one error group, or all; also those that were cancelled, when asked."""

    fingerprint: Annotated[str, Field(pattern="^[0-9a-f]{12}$")] | None = None
    cancelled: bool = False
    attempts: AttemptCount | None = None


class Restart(Asked):
    """Another configuration to run under, or the same."""

    configuration: dict[str, Any] | None = None


class Replan(Asked):
    """The configuration for the jobs that have not begun, and what is different about it."""

    configuration: dict[str, Any]
    note: Text | None = None


class Change(Asked):
    """What is to be another way; what is left out stays. Null lifts the budget or the failure rate, and takes all
    labels away. *epoch* refuses when the batch changed since it was looked at.
    """

    name: Text = Field(default_factory=str)
    labels: Labels | None = None
    max_resumes: Annotated[int, Field(ge=0, le=1000), WHOLE] = Field(default_factory=int)
    max_failure_rate: Rate | None = None
    stall_seconds: Seconds = Field(default_factory=float)
    budget: Money | None = None
    epoch: Count | None = None


class BatchFilter(Wanted):
    """Which batches, and how many of them at a time; states are parted by commas."""

    state: Annotated[str, Field(pattern="^[a-z]+(,[a-z]+)*$", json_schema_extra=_STATES)] | None = None
    pipeline: Text | None = None
    name: Text | None = None
    q: Text | None = None
    label: Annotated[str, Field(pattern="^[^=]+=.*$", max_length=700)] | None = None
    cursor: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), WHOLE] = 50


class SeriesFilter(Wanted):
    """Into how many stretches of time."""

    buckets: Annotated[int, Field(ge=1, le=200), WHOLE] = 60


class MemberFilter(Wanted):
    """Which jobs of a batch; states are parted by commas. *saved* asks for those with or without a finished step."""

    state: Annotated[str, Field(pattern="^[a-z]+(,[a-z]+)*$", json_schema_extra=_JOB_STATES)] | None = None
    error_group: Annotated[str, Field(pattern="^[0-9a-f]{12}$")] | None = None
    q: Text | None = None
    saved: Flag | None = None
    cursor: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), WHOLE] = 50


class EventFilter(Wanted):
    """Which events: those after a number."""

    after: Annotated[int, Field(ge=0, le=HIGHEST), WHOLE] | None = None
    limit: Annotated[int, Field(ge=1, le=1000), WHOLE] = 200

"""What callers may ask with: bodies and filters. What is not known is refused."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Annotated, Any, Literal

from pydantic import AwareDatetime, Field

from retoma.model import JobState
from retoma.web.shapes import Shape

_TEN_YEARS = 10 * 365 * 86_400.0
_FIRST, _LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)

Id = Annotated[int, Field(ge=1, lt=2**63)]
Text = Annotated[str, Field(min_length=1, max_length=200)]
UnitKey = Annotated[str, Field(min_length=1, max_length=500)]
QueueName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
Seconds = Annotated[float, Field(gt=0, le=_TEN_YEARS)]
AttemptCount = Annotated[int, Field(ge=1, le=1000)]


class Nothing(Shape):
    """An empty object, or no body at all."""


class Order(Shape):
    """A job to queue; what is left out is as the pipeline has it."""

    pipeline: Text
    input: Any
    key: UnitKey | None = None
    if_taken: Literal["return", "raise"] = "return"
    queue: QueueName | None = None
    lane: Text | None = None
    priority: Annotated[int, Field(ge=-1000, le=1000)] | None = None
    run_at: Annotated[AwareDatetime, Field(ge=_FIRST, lt=_LAST)] | None = None
    delay_seconds: Annotated[float, Field(ge=0, le=_TEN_YEARS)] | None = None
    expires_seconds: Seconds | None = None
    timeout_seconds: Seconds | None = None
    attempts: AttemptCount | None = None


class MoreAttempts(Shape):
    """How many attempts are allowed from now on; otherwise those that are left, and at least one."""

    attempts: AttemptCount | None = None


class Why(Shape):
    """Why, for those who wonder later."""

    reason: Text = "person"


class Signal(Shape):
    """What a job is told; under each name it hears one thing, the first."""

    name: Text
    value: Any = None


class LaneLimit(Shape):
    """How many jobs of a lane may run at the same time; null lifts the limit."""

    lane: Text
    at_once: Annotated[int, Field(ge=1, le=10_000)] | None


class JobFilter(Shape):
    """Which jobs, and how many of them at a time."""

    state: JobState | None = None
    pipeline: Text | None = None
    queue: Text | None = None
    key: UnitKey | None = None
    batch_id: Id | None = None
    cursor: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200)] = 50


class WorkerFilter(Shape):
    """Which workers; *gone* shows also those who stopped."""

    gone: bool = False


class WorkerLabel(Shape):
    """The worker that people know by this name."""

    label: Text

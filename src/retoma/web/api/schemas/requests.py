"""What callers may ask with: bodies and filters. What is not known is refused, and what is of another kind is not made
to fit: true is no number, and a number is no time.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, AwareDatetime, BaseModel, BeforeValidator, ConfigDict, Field, WithJsonSchema
from pydantic_core import PydanticCustomError

from retoma.model.job import JobState

_TEN_YEARS = 10 * 365 * 86_400.0
_SHORTEST = 0.001
_HIGHEST = 2**63 - 1
_PLACES = 9
_PLAIN = re.compile(r"[-+]?(?:[0-9]+(?:\.[0-9]+)?|\.[0-9]+)")
_NUMBER = re.compile(r"[0-9]{1,5000}")
_FIRST, _LAST = datetime(2000, 1, 1, tzinfo=UTC), datetime(2200, 1, 1, tzinfo=UTC)


def _written(given: Any) -> Any:
    """A time or a day in writing; pydantic would also take a number, as seconds since 1970."""
    if given is None or isinstance(given, datetime | date) or (isinstance(given, str) and not _PLAIN.fullmatch(given)):
        return given
    raise PydanticCustomError("time_as_text", "A time is written as text, such as 2026-05-01T12:00:00Z")


def meant(moment: datetime) -> datetime:
    """A time that somebody may mean, and that the tables hold in every zone."""
    if _FIRST <= moment < _LAST:
        return moment
    raise PydanticCustomError("time_out_of_range", "A time lies in the years 2000 to 2199")


def _said(given: Any) -> Any:
    """Yes or no in a query; pydantic would also take 1, on and y."""
    if isinstance(given, bool) or given in ("true", "false"):
        return given
    raise PydanticCustomError("bool_as_word", "This is 'true' or 'false'")


def _amount(given: Any) -> Any:
    """A number, as one or in writing. Of a number that JSON carries, what is below a billionth is noise."""
    if isinstance(given, bool):
        raise PydanticCustomError("decimal_type", "An amount is a number, or a number as text")
    noisy = isinstance(given, float) and abs(given) < 10**_PLACES  # what is larger is refused for that
    return round(Decimal(repr(given)), _PLACES) if noisy else given


def _whole(given: Any) -> Any:
    """JSON does not tell 1 from 1.0."""
    return int(given) if type(given) is float and given.is_integer() else given


class Asked(BaseModel):
    """What is sent as JSON."""

    model_config = ConfigDict(extra="forbid", strict=True)


class Wanted(BaseModel):
    """What is asked for in the address, or in a form: all of it is text."""

    model_config = ConfigDict(extra="forbid")


WHOLE = BeforeValidator(_whole)
Moment = Annotated[AwareDatetime, BeforeValidator(_written), Field(strict=False)]
Day = Annotated[date, BeforeValidator(_written), Field(strict=False)]
Flag = Annotated[bool, BeforeValidator(_said)]
Money = Annotated[
    Decimal,
    Field(ge=0, max_digits=2 * _PLACES, decimal_places=_PLACES, strict=False),
    BeforeValidator(_amount),
    WithJsonSchema(
        {
            "anyOf": [
                {"type": "number", "minimum": 0, "maximum": 10**_PLACES - 1},
                {"type": "string", "pattern": rf"^[0-9]{{1,{_PLACES}}}(\.[0-9]{{1,{_PLACES}}})?$"},
            ]
        }
    ),
]
HIGHEST = 2**53 - 1
"""The largest number that every reader of JSON reads exactly."""
Id = Annotated[int, Field(ge=1, le=HIGHEST), WHOLE]
Text = Annotated[str, Field(min_length=1, max_length=200)]
Cursor = Annotated[str, Field(min_length=1, max_length=2000)]
UnitKey = Annotated[str, Field(min_length=1, max_length=500)]
QueueName = Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9._-]{0,99}$")]
Seconds = Annotated[float, Field(ge=_SHORTEST, le=_TEN_YEARS)]
"""A time that the tables can hold, and that means something: they keep it as a real."""
AttemptCount = Annotated[int, Field(ge=1, le=1000), WHOLE]


class Nothing(Asked):
    """An empty object, or no body at all."""


class Order(Asked):
    """A job to queue; what is left out is as the pipeline has it."""

    pipeline: Text
    input: Any
    key: UnitKey | None = None
    if_taken: Literal["return", "raise"] = "return"
    queue: QueueName | None = None
    lane: Text | None = None
    priority: Annotated[int, Field(ge=-1000, le=1000), WHOLE] | None = None
    run_at: Annotated[Moment, AfterValidator(meant)] | None = None
    delay_seconds: Annotated[float, Field(ge=0, le=_TEN_YEARS)] | None = None
    expires_seconds: Seconds | None = None
    timeout_seconds: Seconds | None = None
    attempts: AttemptCount | None = None


class MoreAttempts(Asked):
    """How many attempts are allowed from now on; otherwise those that are left, and at least one."""

    attempts: AttemptCount | None = None


class RestartFrom(MoreAttempts):
    """From which step on, and how many attempts are allowed; without a step, from the first."""

    step: UnitKey | None = None


class Why(Asked):
    """Why, for those who wonder later."""

    reason: Text = "person"


class WhyDiscarded(Asked):
    """Why a failure is settled, for those who wonder later."""

    reason: Text | None = None


class PauseUntil(Why):
    """Why a queue is paused, and until when: a time, or seconds from now; without either, until somebody resumes it."""

    until: Annotated[Moment, AfterValidator(meant)] | None = None
    seconds: Seconds | None = None


class Acknowledged(Asked):
    """What is done about an alert, for those who wonder later."""

    note: Text | None = None


class AlertsWanted(Wanted):
    """Which alerts: *all* shows those that are over, too."""

    all: bool = False
    before: Id | None = None
    limit: Annotated[int, Field(ge=1, le=200), WHOLE] = 50


class Signal(Asked):
    """What a job is told; under each name it hears one thing, the first."""

    name: Text
    value: Any = None


class LaneLimit(Asked):
    """How many jobs of a lane may run at the same time; null lifts the limit."""

    lane: Text
    at_once: Annotated[int, Field(ge=1, le=10_000), WHOLE] | None


class QueueWeight(Asked):
    """How many turns a queue has for one turn of a queue of weight 1."""

    weight: Annotated[int, Field(ge=1, le=1000), WHOLE]


class JobFilter(Wanted):
    """Which jobs, and how many of them at a time."""

    state: JobState | None = None
    pipeline: Text | None = None
    queue: Text | None = None
    key: UnitKey | None = None
    batch_id: Id | None = None
    discarded: Flag | None = None
    cursor: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), WHOLE] = 50


class WorkerFilter(Wanted):
    """Which workers; *gone* shows also those who stopped."""

    gone: Flag = False
    cursor: Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), WHOLE] = 50


class CheckpointFilter(Wanted):
    """How many checkpoints at a time, and whether with their values."""

    values: Flag = False
    cursor: Cursor | None = None
    limit: Annotated[int, Field(ge=1, le=200), WHOLE] = 50


class WorkerLabel(Wanted):
    """The worker that people know by this name."""

    label: Text


def event_number(given: str | None, otherwise: int | None) -> int | None:
    """The number in a Last-Event-ID, if it is one. One that is too large was never given out, whatever it is."""
    if given is None or not _NUMBER.fullmatch(given):
        return otherwise
    digits = given.lstrip("0")
    return int(digits or "0") if len(digits) <= len(str(_HIGHEST)) and int(digits or "0") <= _HIGHEST else _HIGHEST

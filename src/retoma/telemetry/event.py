"""What every event has: a title, a weight, and for those of a job the fields that identify it."""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Any, ClassVar, Self


@dataclass(frozen=True, slots=True, kw_only=True)
class Event:
    """Something that happened. The engine puts no input and no answer here, only sizes and names; the message of an
    exception may quote them.
    """

    weight: ClassVar[str] = "info"

    @classmethod
    def title(cls) -> str:
        """``JobRecovered`` is written ``job.recovered``."""
        return _titled(cls.__name__)


@cache
def _titled(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", ".", name).lower()


@dataclass(frozen=True, slots=True, kw_only=True)
class JobEvent(Event):
    """Something that happened to a job that a worker holds. *duration_ms* is of what the event tells: of a step, or of
    the attempt so far.
    """

    worker: int
    job: int
    pipeline: str
    attempt: int
    correlation: str | None = None
    queue: str | None = None
    batch: int | None = None
    fence: int | None = None
    state: str = "running"
    duration_ms: float = 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class FrequentEvent(JobEvent):
    """An event of every job. What it says follows from *facts* that the engine has at hand anyway, so that listeners
    can read these and no event has to be built.
    """

    @classmethod
    def of(cls, facts: Any) -> Self:
        """The event that tells *facts*."""
        raise NotImplementedError

"""What the jobs of a batch gave, as its last step reads it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from retoma.model.ids import JobId
from retoma.model.job import JobState

T = TypeVar("T")

READABLE = ("completed", "review")
"""The states in which a job has given something."""


@dataclass(frozen=True, slots=True)
class StoredResult:
    """The result of a job as it is stored: JSON texts."""

    job_id: JobId
    key: str | None
    state: str
    reason: str | None
    output: str | None
    saved: str | None


@dataclass(frozen=True, slots=True)
class Result(Generic[T]):
    """The result of a job of the batch."""

    job_id: JobId
    key: str | None
    state: JobState
    output: T | None
    """What its handler returned, or proposed for review; None where the job has no output."""
    reason: str | None = None
    steps: dict[str, Any] = field(default_factory=dict)
    """What the steps that were asked for have saved, as plain JSON."""

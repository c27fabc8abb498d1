"""Failures over all batches: groups of equal errors."""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_CLASS = re.compile(r"([A-Za-z_][\w.]{0,80}):\s")


@dataclass(frozen=True, slots=True)
class FailureGroup:
    """Failed jobs of any batch with equal errors, in a window of time."""

    fingerprint: str
    example: str | None
    """The first line of the newest error."""
    reason: str | None
    step: str | None
    """The step that raised in the newest of them."""
    provider: str | None
    """The provider whose call had no good answer there."""
    pipelines: list[str]
    jobs: int
    batches: int
    first_at: datetime
    """Of all failed jobs with this error, also before the window."""
    last_at: datetime
    new: bool
    """Whether the first of them failed within the window."""
    sample: list[int]
    """The newest jobs."""

    @property
    def kind(self) -> str | None:
        """The class of the error, when its text begins with one."""
        found = _CLASS.match(self.example or "")
        return found[1] if found else None

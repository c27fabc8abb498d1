"""A cohort: the jobs of a batch that ran under one of its configurations, and how they went."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import Any


@dataclass(frozen=True, slots=True)
class Cohort:
    """One configuration of a batch, since when, and what became of the jobs that ran under it."""

    number: int
    """The first is 1, and the one that the batch was created with."""
    since: datetime
    planned_by: str | None
    """Who asked for it; None for the first."""
    note: str | None
    configuration: dict[str, Any]
    jobs: int
    unfinished: int
    completed: int
    failed: int
    review: int
    """Jobs that wait for a person now."""
    cancelled: int
    mean_seconds: float | None
    median_seconds: float | None
    cost: Decimal
    unpriced: int
    """Calls that were billed at an unknown cost."""
    doubted: int
    """Jobs that a person was asked about, decided or not."""
    decided: int
    agreed: int
    """Decisions that kept what was proposed."""

    def __post_init__(self) -> None:
        if isinstance(self.configuration, str):
            object.__setattr__(self, "configuration", json.loads(self.configuration))

    @property
    def ended(self) -> int:
        """Jobs that have an ending, cancelled ones apart."""
        return self.completed + self.failed + self.review

    @property
    def failure_rate(self) -> float | None:
        """The share of the ended jobs that failed; None while none has ended."""
        return self.failed / self.ended if self.ended else None

    @property
    def review_share(self) -> float | None:
        """The share of the ended jobs that a person was asked about."""
        return min(1.0, self.doubted / self.ended) if self.ended else None

    @property
    def agreement(self) -> float | None:
        """The share of the decisions that kept what was proposed; None while nobody has decided."""
        return self.agreed / self.decided if self.decided else None

    @property
    def cost_each(self) -> Decimal | None:
        """What an ended job cost on average; None while that is not known."""
        return self.cost / self.ended if self.ended and not self.unpriced else None

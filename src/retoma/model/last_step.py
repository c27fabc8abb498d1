"""The last step of a batch: what it is given, and how it stands."""

from __future__ import annotations

from dataclasses import dataclass
from decimal import Decimal

import orjson

from retoma.model.ids import BatchId, JobId


@dataclass(frozen=True, slots=True)
class BatchEnd:
    """The input of the last step of a batch: which batch it is."""

    batch_id: BatchId
    name: str
    pipeline: str
    """The pipeline of its jobs."""
    total: int
    """How many jobs it has, without the last step."""


@dataclass(frozen=True, slots=True)
class LastStep:
    """The last step of a batch, as it stands."""

    pipeline: str
    job_id: JobId | None
    """Its job; None until the batch is sealed."""
    state: str
    """"waiting" for the other jobs, or the state of its job."""
    run: int = 1
    """Which run this is: it runs again after jobs of the batch were tried again."""
    waits_for: int = 0
    """How many jobs must end before it begins."""
    reason: str | None = None
    steps: int = 0
    """How many of its steps are saved."""
    step: str | None = None
    """The one that was saved last."""
    seconds: float | None = None
    """How long its attempts have worked."""
    cost: Decimal = Decimal(0)
    """What its calls have cost; it is part of what the batch has spent."""

    @classmethod
    def read(cls, text: str) -> LastStep:
        values = orjson.loads(text)
        return cls(**{**values, "cost": Decimal(values["cost"])})

    @property
    def ended(self) -> bool:
        return self.state not in ("waiting", "queued", "running")

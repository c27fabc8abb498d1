"""The job that the current task works on, so that lines of other loggers name it too.

A job runs in a task of its own, and a task has a context of its own: what is set there ends with the job.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import Any

from retoma.model.job import Claim

JOB: ContextVar[tuple[int, Claim, float] | None] = ContextVar("retoma_job", default=None)
"""The id of the worker, the claim, and when the attempt began by the monotonic clock."""


def who(worker_id: int, claim: Claim) -> dict[str, Any]:
    """The fields that identify the job in an event."""
    return {
        "worker": worker_id,
        "job": claim.id,
        "pipeline": claim.pipeline,
        "attempt": claim.attempt,
        "correlation": claim.correlation_id,
        "queue": claim.queue,
        "batch": claim.batch_id,
        "fence": claim.fence,
    }

"""Names that other programs use for these things: those of the worker scale-out document, and those of earlier
versions. The rest of the code has one name for each thing, and translates here where another one is read or written.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from retoma.model.worker import Metrics

LOG_FIELDS = {
    "worker": "workerId",
    "job": "jobId",
    "pipeline": "jobType",
    "attempt": "attempts",
    "state": "status",
    "duration_ms": "durationMs",
    "correlation": "correlationId",
}
"""Fields of events that have another name in the log."""

_MILLISECONDS = {"JOB_LOCK_TTL_MS": "lease_seconds", "JOB_HEARTBEAT_INTERVAL_MS": "heartbeat_seconds"}
_RENAMED = {"tenant": "reuse_within"}


def figures(metrics: Metrics) -> dict[str, float]:
    """The seven counters of a worker."""
    return {
        "jobsClaimed": metrics.jobs_claimed,
        "jobsCompleted": metrics.jobs_completed,
        "jobsFailed": metrics.jobs_failed,
        "jobsRetried": metrics.jobs_retried,
        "jobsRecovered": metrics.jobs_recovered,
        "avgJobDurationMs": metrics.avg_job_duration_ms,
        "stuckJobCount": metrics.stuck_job_count,
    }


def settings(environment: Mapping[str, str], given: dict[str, Any]) -> dict[str, Any]:
    """*given*, with settings under other names translated. A setting under its own name wins."""
    for name, field in _MILLISECONDS.items():
        text = environment.get(name)
        if text and field not in given:
            try:
                given[field] = float(text) / 1000
            except ValueError:
                raise ValueError(f"{name} must be a number of milliseconds, not {text!r}") from None
    for name, field in _RENAMED.items():
        if name in given:
            given.setdefault(field, given.pop(name))
    return given

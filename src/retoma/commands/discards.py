"""Commands that settle failures as not to be retried, and undo that."""

from __future__ import annotations

from retoma.commands.jobs import job
from retoma.errors import Conflict
from retoma.model import validation
from retoma.model.job import Job, JobState
from retoma.store import jobs
from retoma.store.query import Command


def discard(id: int, *, by: str, reason: str | None) -> Command[Job]:
    """Settle a failure as not to be retried: the job leaves the dead letters, and keeps its history. Idempotent."""
    validation.text("reason", reason)
    yield from job(id)
    rows = yield jobs.discard([id], by=by, reason=reason)
    now = yield from job(id)
    if not rows and now.discarded_at is None:
        raise Conflict(
            f"Job {id} is {now.state}; only a failed job is discarded.", next="Cancel it if it must not run."
        )
    return now


def reinstate(id: int) -> Command[Job]:
    """Undo a discard: the job is a dead letter again. Idempotent."""
    yield from job(id)
    yield jobs.hold([id])
    yield jobs.reinstate([id])
    now = yield from job(id)
    if now.state is not JobState.FAILED:
        raise Conflict(f"Job {id} is {now.state}, and is not discarded.", next="Look at it again.")
    return now

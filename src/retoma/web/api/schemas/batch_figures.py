"""What pages show of a batch, on the wire: its mosaic, its series, its jobs as rows."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from retoma.model.job import JobState
from retoma.web.api.schemas.responses import Schema, Time


class BatchMosaic(Schema):
    """One letter for each job, in the order of the inputs: q queued, r running, c completed, s skipped, f failed, v
    review, x cancelled. At most 100,000 letters.
    """

    letters: str
    total: int


class Bucket(Schema):
    """What ended in one stretch of time, and how long it took."""

    at: Time
    seconds: float
    done: int
    failed: int
    median_seconds: float | None
    slow_seconds: float | None


class Series(Schema):
    """What ended, stretch by stretch; one in which nothing ended is left out."""

    buckets: list[Bucket]


class Cohort(Schema):
    """A configuration of a batch, and how the jobs went that ran under it. Shares are of the jobs that have ended; null
    while nothing is known.
    """

    content = ("configuration",)

    number: int
    since: Time
    planned_by: str | None
    note: str | None
    jobs: int
    unfinished: int
    completed: int
    failed: int
    review: int
    cancelled: int
    mean_seconds: float | None
    median_seconds: float | None
    cost: Decimal
    cost_each: Decimal | None
    unpriced: int
    doubted: int
    decided: int
    agreed: int
    failure_rate: float | None
    review_share: float | None
    agreement: float | None
    configuration: dict[str, Any] | None = None


class Cohorts(Schema):
    """The cohorts of a batch, the first one first."""

    cohorts: list[Cohort]


class Member(Schema):
    """A job as a row of its batch."""

    content = ("error",)

    id: int
    key: str | None
    state: JobState
    reason: str | None
    attempt: int
    max_attempts: int
    run_at: Time
    claimed_at: Time | None
    finished_at: Time | None
    step: str | None
    steps: int
    seconds: float | None
    cost: Decimal
    unpriced: int
    error: str | None = None


class Members(Schema):
    """Jobs of a batch in the order of the inputs; *next* is the cursor of the page that follows."""

    jobs: list[Member]
    next: str | None

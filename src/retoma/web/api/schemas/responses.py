"""What goes over the wire, out to the caller; the names are those of the Python values. Answers are open: fields may be
added, and a client should not mind those it does not know.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict
from pydantic.alias_generators import to_camel

from retoma.model.job import JobState

Time = Annotated[datetime, AfterValidator(lambda time: time.astimezone(UTC))]
"""Written as RFC 3339 with a Z."""
Opened = Annotated[Any, BeforeValidator(lambda text: json.loads(text) if isinstance(text, str) else text)]
"""JSON that is kept as text, shown as the value it is."""


class Schema(BaseModel):
    """A thing on the wire. *content* are the fields that show what documents say: they need the scope content:read,
    and are left out without it.
    """

    content: ClassVar[tuple[str, ...]] = ()

    @classmethod
    def of(cls, value: object, *, content: bool = False) -> Self:
        """*value* as it goes over the wire, with its *content* or without."""
        shown = {name: getattr(value, name) for name in cls.model_fields if content or name not in cls.content}
        return cls.model_validate(shown)


class Fault(Schema):
    """One thing that is wrong with a request. *pointer* is a JSON pointer into the body, ``?name`` in the query,
    ``{name}`` in the path, or the name of a header.
    """

    pointer: str
    code: str
    detail: str


class Problem(Schema):
    """What went wrong (RFC 9457). *code* never changes; *title* and *detail* follow Accept-Language."""

    type: str
    title: str
    status: int
    detail: str
    instance: str
    code: str
    correlation_id: str
    retryable: bool
    errors: list[Fault]


class Receipt(Schema):
    """A job that was queued, or was there already under the same key."""

    id: int
    key: str | None
    state: JobState
    new: bool
    status_url: str


class Queued(Schema):
    """A job that was queued."""

    id: int
    status_url: str


class Heard(Schema):
    """Whether the job heard it; false when it had been told something under that name before."""

    heard: bool


class Job(Schema):
    """One pipeline over one input, as it stands."""

    content = ("input", "output", "error")

    id: int
    batch_id: int | None
    queue: str
    lane: str | None
    pipeline: str
    key: str | None
    priority: int
    state: JobState
    reason: str | None
    run_at: Time
    expires_at: Time | None
    attempt: int
    max_attempts: int
    crashes: int
    fence: int
    worker_id: int | None
    worker: str | None
    cancel_requested_at: Time | None
    timeout_seconds: float
    created_at: Time
    claimed_at: Time | None
    finished_at: Time | None
    correlation_id: str | None
    discarded_at: Time | None
    discarded_by: str | None
    cohort: int
    input: Opened = None
    output: Opened = None
    error: str | None = None


class Jobs(Schema):
    """A page of jobs, the newest first, without content; *next* is the cursor of the page that follows."""

    jobs: list[Job]
    next: str | None


class Attempt(Schema):
    """One try at a job, from claim to ending."""

    content = ("error",)

    fence: int
    attempt: int
    worker_id: int
    worker: str | None
    ending: str
    reason: str | None
    step: str | None
    signal: int | None
    peak_megabytes: float | None
    claimed_at: Time
    ended_at: Time
    seconds: float | None
    error: str | None = None


class Attempts(Schema):
    """How each claim of a job ended."""

    attempts: list[Attempt]


class Checkpoint(Schema):
    """What a step produced, with its envelope."""

    content = ("value",)

    step: str
    generation: int
    checksum: str
    fingerprint: str
    input_hash: str | None
    fence: int
    seconds: float | None
    saved_at: Time
    set_aside_at: Time | None
    reason: str | None
    value: Opened = None


class Checkpoints(Schema):
    """A page of what the steps of a job produced, also what was set aside, in the order it was saved."""

    checkpoints: list[Checkpoint]
    next: str | None


class Queue(Schema):
    """A queue as it stands: how many wait, how many could run now, how many run."""

    name: str
    waiting: int
    due: int
    held: int
    running: int
    oldest_due_seconds: float | None
    paused_at: Time | None
    paused_reason: str | None
    paused_until: Time | None
    weight: int


class Queues(Schema):
    """The queues, by name."""

    queues: list[Queue]


class Worker(Schema):
    """One executor: its name, since when, its last heartbeat, what it has done."""

    id: int
    label: str
    host: str
    pid: int
    version: str
    queues: list[str]
    pipelines: list[str]
    at_once: int
    lease_seconds: float
    started_at: Time
    seen_at: Time
    lease_expires_at: Time
    stopping_at: Time | None
    stopped_at: Time | None
    reason: str | None
    alive: bool
    claimed: int
    completed: int
    failed: int
    retried: int
    recovered: int
    busy_seconds: float
    memory_megabytes: float | None
    drain_requested_at: Time | None
    drain_requested_by: str | None


class Workers(Schema):
    """A page of those who work, the newest first."""

    workers: list[Worker]
    next: str | None


class Schedule(Schema):
    """A job that comes back by the clock."""

    content = ("input",)

    name: str
    pipeline: str
    queue: str
    cron: str
    zone: str
    priority: int
    next_run_at: Time
    last_run_at: Time | None
    paused_at: Time | None
    input: Opened = None


class Alert(Schema):
    """Something that the watchdog found wrong: an incident."""

    id: int
    rule: str
    subject: str
    severity: Literal["info", "warning", "critical"]
    state: Literal["open", "acknowledged", "resolved"]
    facts: dict[str, Any]
    opened_at: Time
    seen_at: Time
    acknowledged_at: Time | None
    acknowledged_by: str | None
    note: str | None
    resolved_at: Time | None
    sent: list[str]


class Alerts(Schema):
    """Alerts, the newest first."""

    alerts: list[Alert]


class Health(Schema):
    """How the database is doing, and who works."""

    version: str
    fsync: bool
    full_page_writes: bool
    synchronous_commit: str
    autovacuum: bool
    standby: bool
    most_connections: int
    connections: int
    transaction_seconds: float | None
    snapshot_age: int
    live_rows: int
    dead_rows: int
    vacuumed_at: Time | None
    workers_alive: int
    workers_silent: int
    queues_paused: int
    oldest_due_seconds: float | None
    failed_jobs: int
    echo_seconds: float | None
    write_seconds: float | None
    claim_seconds: float | None


class Metrics(Schema):
    """The seven figures of a worker, all its executors and restarts together."""

    jobs_claimed: int
    jobs_completed: int
    jobs_failed: int
    jobs_retried: int
    jobs_recovered: int
    avg_job_duration_ms: float
    stuck_job_count: int


class WorkerMetrics(Metrics):
    """The seven figures of a worker, under the names of ``retoma.model.compat``."""

    model_config = ConfigDict(alias_generator=to_camel, populate_by_name=True)


class Alive(Schema):
    """The server answers."""

    alive: Literal[True] = True


class Ready(Schema):
    """The server can do what it is asked."""

    ready: Literal[True] = True

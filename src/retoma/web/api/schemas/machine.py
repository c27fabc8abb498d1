"""The machine on the wire: how queues move, what workers hold, how limits stand, what schedules did, what is unwell."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Annotated, Any, Literal, Self

from pydantic import Field

from retoma.commands.schedules import next_runs
from retoma.model import schedule as schedules
from retoma.model.machine import QueueState as State
from retoma.model.machine import ScheduleRun
from retoma.web.api.schemas import requests as asked
from retoma.web.api.schemas.responses import Schedule, Schema, Time

Cron = Annotated[str, Field(min_length=1, max_length=200)]


class QueuePace(Schema):
    """How fast jobs came into a queue and ended in the last minutes, and how long they waited and ran."""

    came: int
    came_seconds: float
    ended: int
    failed: int
    ended_seconds: float
    wait_median: float | None
    wait_most: float | None
    run_median: float | None
    run_most: float | None


class Lane(Schema):
    """A lane of a queue, in which something waits or runs or whose limit somebody set; that without a name is the line
    of jobs that have no lane.
    """

    name: str | None
    at_once: int | None
    closed: bool
    waiting: int
    more: bool
    running: int
    oldest_due_seconds: float | None


class QueueState(Schema):
    """A queue with its pace and its lanes. Counts stop at 10,000: where *more* is true, there are more."""

    name: str
    waiting: int
    due: int
    held: int
    running: int
    more: bool
    oldest_due_seconds: float | None
    paused_at: Time | None
    paused_reason: str | None
    paused_until: Time | None
    paused_by: str | None
    weight: int
    executors: int
    pace: QueuePace
    lanes: list[Lane]

    @classmethod
    def of_state(cls, state: State, *, paused_by: str | None) -> Self:
        """A queue as it goes over the wire."""
        depth = state.depth
        own = {name: getattr(depth, name) for name in cls.model_fields if hasattr(depth, name)}
        pace, lanes = QueuePace.of(state.pace), [Lane.of(lane) for lane in state.lanes]
        return cls.model_validate({**own, "paused_by": paused_by, "pace": pace, "lanes": lanes})


class HeldJob(Schema):
    """A job that an executor holds now; *step* is as of its last heartbeat."""

    id: int
    worker_id: int
    pipeline: str
    queue: str
    batch_id: int | None
    key: str | None
    attempt: int
    claimed_at: Time
    step: str | None


class HeldJobs(Schema):
    """What the executors of a worker hold now."""

    jobs: list[HeldJob]


class Draining(Schema):
    """The numbers of the executors that were asked to end."""

    executors: list[int]


class LimitState(Schema):
    """What a provider allows, what was used of it in the last minute, and who waits for it."""

    name: str
    requests: int | None
    tokens: int | None
    at_once: int | None
    cooled_until: Time | None
    reason: str | None
    failures: int
    opened_until: Time | None
    under_way: int
    requests_used: int
    tokens_used: int
    waiting: int
    wakes_at: Time | None
    breaker: Literal["closed", "open", "trying"]


class LimitStates(Schema):
    """What providers allow."""

    limits: list[LimitState]


class Woken(Schema):
    """How many jobs that waited may run now."""

    woken: int


class NewSchedule(asked.Asked):
    """A job that comes back by the clock: at each time of *cron*, on the clocks of *zone*."""

    name: asked.Text
    pipeline: asked.Text
    input: Any = None
    cron: Cron
    zone: asked.Text = "UTC"


class ScheduleChange(asked.Asked):
    """What is to change of a schedule; what is left out stays."""

    cron: Cron | None = None
    zone: asked.Text | None = None
    input: Any = None


class ScheduledRun(Schema):
    """A job that a schedule queued; *state* is null once the job was removed."""

    job_id: int
    at: Time
    by_hand: bool
    state: str | None
    finished_at: Time | None


class ScheduleState(Schedule):
    """A schedule, the times that come next, and what it queued last."""

    next_runs: list[datetime]
    runs: list[ScheduledRun]

    @classmethod
    def of_schedule(cls, schedule: schedules.Schedule, runs: list[ScheduleRun], *, content: bool) -> Self:
        """A schedule as it goes over the wire."""
        names = [name for name in Schedule.model_fields if content or name not in cls.content]
        basic = {name: getattr(schedule, name) for name in names}
        coming = [] if schedule.paused_at else next_runs(schedule.cron, schedule.zone, schedule.now)
        return cls.model_validate({**basic, "next_runs": coming, "runs": [ScheduledRun.of(each) for each in runs]})


class ScheduleStates(Schema):
    """The schedules, by name."""

    schedules: list[ScheduleState]


class PriceFilter(asked.Wanted):
    """Which model."""

    provider: asked.Text
    model: asked.Text


class Budget(Schema):
    """A batch that has a budget, and what is spent of it."""

    id: int
    name: str
    state: str
    budget: Decimal
    spent: Decimal
    reserved: Decimal
    unpriced: int


class Budgets(Schema):
    """The newest batches that have a budget, those under way first."""

    budgets: list[Budget]


class Finding(Schema):
    """One thing that was looked at: what was seen, and what to do when it is not green."""

    level: Literal["green", "amber", "red"]
    what: str
    seen: str
    next: str


class Checkup(Schema):
    """What the doctor found; *level* is that of the worst."""

    level: Literal["green", "amber", "red"]
    findings: list[Finding]


class TableSize(Schema):
    """How large a table is, with its indexes; the rows are PostgreSQL's estimate."""

    name: str
    bytes: int
    rows: int
    dead_rows: int
    vacuumed_at: Time | None


class DutyRound(Schema):
    """When a duty of the watchdog was last done, and by whom."""

    name: str
    last_at: Time | None
    taken_by: str | None


class Overstay(Schema):
    """How far the removal of one kind of rows is behind."""

    kind: str
    oldest_at: Time | None
    seconds: float


class SystemState(Schema):
    """Versions, sizes, retention, the watchdog's rounds, and how busy this server process is."""

    version: str
    revision: str | None
    needed_revision: str
    database_bytes: int
    retention_days: float
    streams: int
    pool_open: int
    pool_idle: int
    pool_most: int
    pool_waiting: int
    tables: list[TableSize]
    rounds: list[DutyRound]
    overstays: list[Overstay]

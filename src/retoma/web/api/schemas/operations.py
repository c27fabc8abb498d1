"""Operations over all batches, errors in groups, hits of a search, and saved views, on the wire."""

from __future__ import annotations

from decimal import Decimal
from typing import Annotated, Any, Literal, Self

import orjson
from pydantic import AfterValidator, Field

from retoma.commands.finding import PAGES
from retoma.model import operation as values
from retoma.model.batch import Operation as Carried
from retoma.model.job import JobState, RestartPlan
from retoma.web.api.schemas import requests
from retoma.web.api.schemas.responses import Schema, Time

Action = Literal["retry", "cancel", "restart", "move", "priority", "discard", "reinstate"]
Kind = Literal["retry", "cancel", "restart", "move", "priority", "discard", "reinstate", "replan"]
Ids = Annotated[list[requests.Id], Field(min_length=1, max_length=1000)]


class OperationFilter(requests.Asked):
    """Which jobs of any batch; what is left out does not filter. With ids, those jobs alone."""

    states: Annotated[list[Annotated[JobState, Field(strict=False)]], Field(min_length=1, max_length=7)] | None = None
    pipeline: requests.Text | None = None
    queue: requests.Text | None = None
    batch_id: requests.Id | None = None
    fingerprint: Annotated[str, Field(pattern=r"^[0-9a-f]{12}$")] | None = None
    key_prefix: requests.UnitKey | None = None
    created_after: Annotated[requests.Moment, AfterValidator(requests.meant)] | None = None
    created_before: Annotated[requests.Moment, AfterValidator(requests.meant)] | None = None
    ids: Ids | None = None

    def value(self, pipeline: str | None) -> values.JobFilter:
        """The same for the front door, limited to *pipeline*."""
        given = {name: value for name, value in self if value is not None and name not in ("states", "ids", "pipeline")}
        return values.JobFilter(
            states=tuple(str(each) for each in self.states or ()), ids=tuple(self.ids or ()), pipeline=pipeline, **given
        )


class NewOperation(requests.Asked):
    """What is to be done to which jobs. *queue* goes with move, *priority* with priority, *attempts* with retry and
    restart, *reason* with cancel and discard. A dry run changes nothing.
    """

    action: Action
    filter: OperationFilter
    dry_run: bool = False
    queue: requests.QueueName | None = None
    priority: Annotated[int, Field(ge=-1000, le=1000), requests.WHOLE] | None = None
    attempts: requests.AttemptCount | None = None
    reason: requests.Text | None = None


class OperationList(requests.Wanted):
    """Which operations, and how many of them at a time."""

    under_way: requests.Flag = False
    cursor: requests.Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), requests.WHOLE] = 50


class Operation(Schema):
    """A command on many jobs, and how far it has come. *error* is why it ended early."""

    id: int
    batch_id: int | None
    kind: Kind
    asked_by: str | None
    asked: dict[str, Any]
    filter: dict[str, Any] | None
    wanted: int
    exact: bool
    done: int
    skipped: dict[str, int]
    share: float
    started_at: Time
    finished_at: Time | None
    error: str | None

    @classmethod
    def told(cls, value: Carried) -> Self:
        """*value* as it goes over the wire."""
        filter = None if value.filter is None else orjson.loads(value.filter.text)
        shown = {name: getattr(value, name) for name in cls.model_fields if name != "filter"}
        return cls.model_validate({**shown, "filter": filter})


class Operations(Schema):
    """Operations, the newest first."""

    operations: list[Operation]
    next: str | None = None


class SampledJob(Schema):
    """One of the jobs that would be changed."""

    id: int
    pipeline: str
    key: str | None
    state: JobState
    batch_id: int | None


class DryRun(Schema):
    """What an operation would do now. When it is not *exact*, there is more than was counted."""

    action: Action
    dry_run: bool
    jobs: int
    exact: bool
    batches: int
    skipped: dict[str, int]
    sample: list[SampledJob]

    @classmethod
    def told(cls, value: values.DryRun) -> Self:
        """*value* as it goes over the wire."""
        sample = [SampledJob.of(each) for each in value.sample]
        shown = {name: getattr(value, name) for name in ("action", "jobs", "exact", "batches", "skipped")}
        return cls.model_validate({**shown, "dry_run": True, "sample": sample})


class ErrorWindow(requests.Wanted):
    """Errors of which time, and of which pipeline."""

    hours: Annotated[int, Field(ge=1, le=8760), requests.WHOLE] = 24
    pipeline: requests.Text | None = None
    limit: Annotated[int, Field(ge=1, le=200), requests.WHOLE] = 100


class FailureGroup(Schema):
    """Failed jobs of any batch whose errors say the same. The words are there with the scope content:read."""

    content = ("example",)

    fingerprint: str
    kind: str | None
    reason: str | None
    step: str | None
    provider: str | None
    pipelines: list[str]
    jobs: int
    batches: int
    first_at: Time
    last_at: Time
    new: bool
    sample: list[int]
    example: str | None = None


class Failures(Schema):
    """What failed lately, the largest group first."""

    errors: list[FailureGroup]


class SearchText(requests.Wanted):
    """What is looked for: an id, a key, the name of a file at the end of a key, or a correlation id."""

    q: requests.UnitKey
    pipeline: requests.Text | None = None


class SearchHit(Schema):
    """Something that was found, and by what."""

    kind: Literal["job", "batch"]
    id: int
    by: Literal["id", "key", "correlation"]
    title: str
    state: str
    pipeline: str
    url: str


class SearchHits(Schema):
    """What was found."""

    hits: list[SearchHit]


class NewView(requests.Asked):
    """The query of a page, to be kept under a name."""

    name: Annotated[str, Field(min_length=1, max_length=80)]
    page: Annotated[requests.Text, Field(pattern=rf"^({'|'.join(PAGES)})$")]
    query: Annotated[str, Field(max_length=2000)]
    shared: bool = False


class ViewList(requests.Wanted):
    """The views of which page."""

    page: requests.Text | None = None


class SavedView(Schema):
    """The query of a page under a name: of one person, or of everybody."""

    id: int
    name: str
    page: str
    query: str
    owner: str
    shared: bool
    created_at: Time


class Views(Schema):
    """One's own views, and those that are shared."""

    views: list[SavedView]


class StepFrom(requests.Wanted):
    """From which step; left out, from the first."""

    step: requests.UnitKey | None = None


class Redone(Schema):
    """A step that would be done again, and what its answered calls have cost."""

    step: str
    seconds: float | None
    calls: int
    cost: Decimal
    unpriced: int


class JobRestart(Schema):
    """What a restart of a job would do again."""

    can: bool
    why_not: str | None
    seconds: float
    calls: int
    cost: Decimal
    unpriced: int
    steps: list[Redone]

    @classmethod
    def told(cls, value: RestartPlan) -> Self:
        """*value* as it goes over the wire."""
        shown = {name: getattr(value, name) for name in cls.model_fields if name != "steps"}
        return cls.model_validate({**shown, "steps": [Redone.of(each) for each in value.steps]})

"""Commands on batches: create, fill, seal, list, explain and plan."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any, NoReturn, TypeVar

import orjson

from retoma.commands import jobs as job_commands
from retoma.commands.options import Batching, Enqueueing, refuse_unknown
from retoma.errors import BatchConflict, ConfigurationError, NotFound
from retoma.model import validation
from retoma.model.batch import (
    Batch,
    BatchState,
    Durations,
    ErrorGroup,
    Event,
    Plan,
    Progress,
    StepFigures,
)
from retoma.model.cohort import Cohort
from retoma.model.diagnosis import explain, plain
from retoma.model.evidence import Explanation
from retoma.model.job import Receipt
from retoma.model.last_step import LastStep
from retoma.model.pilot import Pilot, pilot_of
from retoma.run.pipeline import Pipeline, must_be_pipeline
from retoma.store import batches
from retoma.store.batches import Hold, NewBatch
from retoma.store.query import Command
from retoma.telemetry.tracing import Sending
from retoma.values.text import unstorable_mark

I = TypeVar("I")

_LONGEST_NAME = 200
_MOST_JOBS = 1_000_000
_MOST_PILOT = 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class BatchOptions:
    """What a batch has beside its jobs."""

    route: str | None = None
    labels: Mapping[str, str] = field(default_factory=dict)
    configuration: Mapping[str, Any] = field(default_factory=dict)
    correlation_id: str | None = None
    max_resumes: int = 3
    max_retries: int | None = None
    max_failure_rate: float | None = None
    budget: Decimal | None = None
    at_once: int | None = None
    stall_seconds: float | None = None
    queue: str | None = None
    priority: int | None = None
    timeout: float | None = None
    pilot: int = 0


def options_of(said: Batching) -> BatchOptions:
    """The options that a caller *said* for a batch."""
    refuse_unknown(said, Batching, "A batch")
    return BatchOptions(**said)


def create(
    pipeline: Pipeline[I, Any],
    inputs: Iterable[I],
    keys: Callable[[I], str | None],
    name: str,
    options: BatchOptions,
) -> Command[Batch]:
    """Create a batch with its jobs, sealed. All of it commits with the surrounding transaction, or nothing does."""
    must_be_pipeline(pipeline)
    with Sending(options.queue or pipeline.queue, pipeline=pipeline.name, many=True) as sent:
        id = yield from _open(pipeline, name, options, expires=60.0, traceparent=sent.traceparent)
        added = yield from fill(id, pipeline, inputs, keys, options, sent=sent)
        sent.says(len(added), batch=id)
        return (yield from seal(id, expected=None, pilot=options.pilot))


def open(pipeline: Pipeline[Any, Any], name: str, options: BatchOptions, *, expires: float) -> Command[Batch]:
    """Open a batch that is filled piece by piece. It is cancelled unless it is sealed in time."""
    must_be_pipeline(pipeline)
    with Sending(options.queue or pipeline.queue, pipeline=pipeline.name, verb="create") as sent:
        id = yield from _open(pipeline, name, options, expires=expires, traceparent=sent.traceparent)
        sent.says(batch=id)
    return (yield from one(id))


def _open(
    pipeline: Pipeline[Any, Any], name: str, options: BatchOptions, *, expires: float, traceparent: str | None
) -> Command[int]:
    must_be_pipeline(pipeline)
    check(name, options)
    validation.queue(options.queue, otherwise=pipeline.queue)
    rows: list[int] = yield batches.create(
        NewBatch(
            name=name,
            pipeline=pipeline.name,
            queue=options.queue or pipeline.queue,
            at_once=options.at_once or pipeline.lane_at_once,
            route=options.route,
            labels=as_json(options.labels, "labels"),
            configuration=as_json(options.configuration, "configuration"),
            correlation_id=options.correlation_id,
            max_resumes=options.max_resumes,
            max_failure_rate=options.max_failure_rate,
            budget=options.budget,
            stall_seconds=options.stall_seconds or pipeline.stall_seconds,
            expires=expires,
            traceparent=traceparent,
            finish=_finish(pipeline),
        )
    )
    return rows[0]


def _finish(pipeline: Pipeline[Any, Any]) -> str | None:
    """The last step of a batch, as its row declares it."""
    last = pipeline.finish
    if last is None:
        return None
    return as_json(
        {
            "pipeline": last.name,
            "share": pipeline.finish_at,
            "attempts": last.retry.attempts,
            "timeout": last.timeout,
            "priority": last.priority,
        },
        "last step",
    )


def check(name: str, options: BatchOptions) -> None:
    if not name.strip() or len(name) > _LONGEST_NAME or unstorable_mark(name):
        raise ConfigurationError(f"A batch has a name of 1 to {_LONGEST_NAME} characters, not {name[:80]!r}.")
    for what, least in (("max_resumes", 0), ("max_retries", 0), ("at_once", 1)):
        validation.whole(what, getattr(options, what), least, validation.MOST_ATTEMPTS - 1)
    validation.text("correlation_id", options.correlation_id or None)
    if options.max_failure_rate is not None and not 0 <= options.max_failure_rate <= 1:
        raise ConfigurationError(
            f"max_failure_rate is a part of 1, such as 0.2, and is {options.max_failure_rate:g}.",
            next="0.2 stops the batch when more than one job in five fails.",
        )
    validation.seconds("stall_seconds", options.stall_seconds)
    validation.whole("pilot", options.pilot, 0, _MOST_PILOT)
    validation.money("budget", options.budget)


def as_json(value: Mapping[str, Any], what: str) -> str:
    try:
        text = orjson.dumps(value).decode()
    except (TypeError, ValueError) as error:
        large = _with_large_numbers(value)
        if large is None:
            raise ConfigurationError(f"The {what} of a batch must be JSON: {error}.") from None
        text = large
    if "\\u0000" in text:
        raise ConfigurationError(f"The {what} of a batch must not hold NUL characters.")
    return text


def _with_large_numbers(value: Mapping[str, Any]) -> str | None:
    """*value* as JSON with integers of any size; None when it would not read back as the same value."""
    try:
        text = json.dumps(value, allow_nan=False, ensure_ascii=False)
        text.encode()
    except (TypeError, ValueError, RecursionError):
        return None
    return text if json.loads(text) == value else None


def fill(
    id: int,
    pipeline: Pipeline[I, Any],
    inputs: Iterable[I],
    keys: Callable[[I], str | None],
    options: BatchOptions = BatchOptions(),
    *,
    sent: Sending | None = None,
) -> Command[list[Receipt]]:
    """Add jobs to an open batch. The same key in the same batch returns the same job. *sent* is the span of the whole
    batch; without it this piece has one of its own.
    """
    must_be_pipeline(pipeline)
    check_id(id)
    found: list[batches.Filling] = yield batches.filling(id)
    if not found:
        batch = yield from one(id)
        raise BatchConflict(
            f"Batch {id} ({batch.name}) is {_told(batch)} and takes no more jobs.",
            code="batch_sealed",
            next="Make another batch for what is new.",
        )
    held = found[0]
    if held.pipeline != pipeline.name:
        raise ConfigurationError(f"Batch {id} is of pipeline {held.pipeline!r}, not {pipeline.name!r}.")
    how: Enqueueing = {"queue": held.queue, "lane": held.lane}
    if options.priority is not None:
        how["priority"] = options.priority
    if options.timeout is not None:
        how["timeout"] = options.timeout
    if options.max_retries is not None:
        how["attempts"] = options.max_retries + 1
    if held.correlation_id is not None:
        how["correlation_id"] = held.correlation_id
    return (
        yield from job_commands.enqueue(
            pipeline, inputs, keys, how, notify=lambda _queue: False, batch_id=id, sent=sent
        )
    )


def seal(id: int, *, expected: int | None, pilot: int = 0) -> Command[Batch]:
    """Seal a batch: its jobs can be claimed, and none can be added. *expected* must equal the number of jobs. With a
    *pilot* so many of them can be claimed, and the others are held until they are released.
    """
    validation.whole("pilot", pilot, 0, _MOST_PILOT)
    held = yield from hold(id)
    if held.state == "cancelled":
        raise BatchConflict(
            f"Batch {id} was cancelled ({held.reason}) and cannot be sealed.",
            code="conflict",
            next="Make another; one that is filled slowly needs a longer expires=.",
        )
    if held.sealed:
        batch = yield from one(id)
        if expected is not None and batch.total != expected:
            _refuse_seal(id, expected, batch.total or 0)
        return batch
    size, waiting = (yield batches.size(id))[0]
    if size > _MOST_JOBS:
        raise ConfigurationError(f"A batch has at most {_MOST_JOBS:,} jobs, and this one has {size:,}.")
    if expected is not None and size != expected:
        _refuse_seal(id, expected, size)
    if waiting == 0:
        raise BatchConflict(
            f"Batch {id} has {size} jobs and none that waits.",
            code="batch_empty",
            next="Add at least one job before it is sealed." if not size else "Cancel it and make another.",
        )
    if 0 < pilot < waiting:
        yield batches.begin_pilot(id, jobs=(yield batches.sample(id, jobs=pilot)))
    if held.state != "queued" or not (yield batches.seal(id, expected=size)):
        raise BatchConflict(f"Batch {id} is {held.state} and cannot be sealed.", code="conflict")
    return (yield from one(id))


def _refuse_seal(id: int, expected: int, size: int) -> NoReturn:
    raise BatchConflict(
        f"Batch {id} has {size} jobs, and {expected} were expected.",
        code="batch_incomplete",
        next="Add what is missing (the same keys do no harm), then seal it again.",
    )


# — reading —


def one(id: int) -> Command[Batch]:
    check_id(id)
    rows: list[Batch] = yield batches.one(id)
    if not rows:
        raise _not_found(id)
    return rows[0]


def there(id: int, found: object) -> Command[None]:
    """Make sure that a batch exists where nothing was *found* of it; what was found proves that it does."""
    if not found:
        yield from one(id)


def check_id(id: int) -> None:
    if not validation.is_id(id):
        raise _not_found(id)


def _not_found(id: int) -> NotFound:
    return NotFound(
        f"There is no batch {id}.", next="Look with 'retoma batch list' for what is there; it may have been pruned."
    )


def page(
    *,
    states: Sequence[str] | None,
    pipeline: str | None,
    labels: Mapping[str, str] | None,
    name: str | None,
    before: int | None,
    limit: int,
    text: str | None = None,
) -> Command[list[Batch]]:
    for state in states or ():
        if state not in set(BatchState):
            raise ConfigurationError(f"There is no state {state!r}.", next=f"States are {', '.join(BatchState)}.")
    validation.page("batches", limit)
    rows: list[Batch] = yield batches.page(
        states=states,
        pipeline=pipeline,
        labels=None if labels is None else as_json(labels, "labels"),
        name=name,
        text=text or None,
        before=before and min(before, validation.LARGEST_ID),
        limit=limit,
    )
    return rows


def progress(id: int) -> Command[Progress]:
    check_id(id)
    rows: list[Progress] = yield batches.progress(id)
    if not rows:
        raise _not_found(id)
    return rows[0]


def steps(id: int) -> Command[list[StepFigures]]:
    check_id(id)
    rows: list[StepFigures] = yield batches.steps(id)
    yield from there(id, rows)
    return rows


def durations(id: int) -> Command[Durations]:
    check_id(id)
    found: Durations = (yield batches.durations(id))[0]
    yield from there(id, found.jobs)
    return found


def errors(id: int) -> Command[list[ErrorGroup]]:
    check_id(id)
    rows: list[ErrorGroup] = yield batches.errors(id)
    yield from there(id, rows)
    return rows


def events(id: int, *, after: int, limit: int, jobs: bool = True) -> Command[list[Event]]:
    check_id(id)
    rows: list[Event] = yield batches.events(id, after=after, limit=limit, jobs=jobs)
    yield from there(id, rows)
    return rows


def explained(id: int, *, words: bool = True) -> Command[Explanation]:
    check_id(id)
    rows = yield batches.evidence(id)
    if not rows:
        raise _not_found(id)
    return explain(id, rows[0] if words else plain(rows[0]))


def pilot(id: int) -> Command[Pilot]:
    """What the pilot of a batch says of the whole."""
    batch = yield from one(id)
    return pilot_of(batch, (yield batches.pilot(id)))


def cohorts(id: int) -> Command[list[Cohort]]:
    """The configurations of a batch, and how the jobs went that ran under each."""
    check_id(id)
    rows: list[Cohort] = yield batches.cohorts(id)
    yield from there(id, rows)
    return rows


def plan(id: int, *, configuration: Mapping[str, Any] | None) -> Command[Plan]:
    """What a resume would do; with another *configuration*, also what a restart with it would do again."""
    batch = yield from one(id)
    found = (yield batches.plan(id))[0]
    can, why_not = _resumable(batch)
    left = found.continued + found.begun
    changed = configuration is not None and as_json(configuration, "configuration") != as_json(
        batch.configuration, "configuration"
    )
    reruns = found.done if changed else 0
    each = found.seconds_each
    # A mean over the priced calls alone would promise too little.
    last = batch.finish
    finish_cost = last.cost if last else Decimal(0)
    money_each = (batch.spent - finish_cost) / found.done if found.done and not batch.unpriced else None
    return Plan(
        batch=batch,
        can=can,
        why_not=why_not,
        skips=found.done - reruns,
        continues=found.continued,
        begins=found.begun,
        reruns=reruns,
        leaves_failed=found.failed,
        quarantined=found.quarantined,
        suspects=found.suspects,
        steps_kept=found.steps_kept,
        seconds_saved=(0.0 if changed else found.seconds_done) + found.seconds_kept,
        seconds_needed=None if each is None else max(0.0, each * (left + reruns) - found.seconds_kept),
        money_saved=Decimal(0) if changed else batch.spent,
        money_needed=None if money_each is None else money_each * (left + reruns),
        finish=None if last is None else _finish_planned(last, again=changed, left=left),
    )


def _finish_planned(last: LastStep, *, again: bool, left: int) -> str:
    if again and last.state != "waiting":
        return "again"
    if last.state == "waiting":
        return "again" if last.run > 1 else "runs"
    if last.state in {"queued", "running"} or (last.state == "failed" and not left):
        return "continues" if last.steps else "runs"
    return "done"


def _resumable(batch: Batch) -> tuple[bool, str | None]:
    if batch.sealed_at is None:
        return False, "it was never sealed"
    if batch.state in {BatchState.STALLED, BatchState.FAILED} and batch.resumes >= batch.max_resumes:
        return False, f"its {batch.max_resumes} resumes are used up"
    if batch.state in {BatchState.PAUSED, BatchState.STALLED, BatchState.FAILED}:
        return True, None
    return False, f"it is {batch.state}"


def hold(id: int) -> Command[Hold]:
    check_id(id)
    yield batches.alone(id)
    rows: list[Hold] = yield batches.hold(id)
    if not rows:
        raise _not_found(id)
    return rows[0]


def _told(batch: Batch) -> str:
    return "sealed" if batch.state is BatchState.QUEUED else str(batch.state)

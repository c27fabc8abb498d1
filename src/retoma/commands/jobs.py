"""Commands on jobs. Each one yields queries and receives their rows, so that every entry point
runs the same sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import islice
from typing import Any, NamedTuple, TypeVar

from retoma.commands import last_steps
from retoma.commands.options import Enqueueing, refuse_unknown
from retoma.errors import CheckpointInvalid, ConfigurationError, Conflict, KeyTaken, NotFound
from retoma.model import validation
from retoma.model.ids import JobId
from retoma.model.job import Attempt, Checkpoint, Job, JobPage, JobState, Receipt, Redone, RestartPlan, Stood
from retoma.model.operation import JobFilter
from retoma.run.pipeline import Pipeline, must_be_pipeline
from retoma.store import attempts, checkpoints, jobs, looking, queues
from retoma.store.looking import Filter, Span, Walked
from retoma.store.query import Command, Query
from retoma.telemetry import emit, heard
from retoma.telemetry.events import JobsEnqueued
from retoma.telemetry.tracing import Sending
from retoma.values.codec import Misfit, codec_of

T = TypeVar("T")
I = TypeVar("I")
O = TypeVar("O")

_AT_A_TIME = 2000
_LOOKS = 3


class SomeAgain(NamedTuple):
    """The jobs of a piece that are tried again, and after which one the next piece begins, if there is one."""

    again: list[JobId]
    after: int | None


def enqueue_one(
    pipeline: Pipeline[I, Any], input: I, key: str | None, options: Enqueueing, *, notify: Callable[[str], bool]
) -> Command[Receipt]:
    """Enqueue one job; when its key is taken, return the job that has it. *notify* says whether to wake the workers of
    a queue. It is asked when the connection is there: a hint that was decided earlier could be sent before the job.
    """
    order = _order(pipeline, options)
    if told := _correlation_ids(options, [input]):
        order["correlation_id"] = told[0]
    validation.text("key", key)
    text = pipeline.input.encode(input, what=f"the input of a {pipeline.name!r} job").text
    lane, hint = _lane(pipeline, input, options), notify(order["queue"])
    rows: list[Receipt] = []
    with Sending(order["queue"], pipeline=pipeline.name) as sent:
        order["traceparent"] = sent.traceparent
        while not rows:
            if lane:
                # An empty lane can be removed before the job is in it, so create it again until the insert succeeds.
                yield queues.lanes(order["queue"], [lane], at_once=pipeline.lane_at_once)
                rows = yield jobs.enqueue(order, [text], [key], [lane], notify=hint)
            else:
                rows = yield jobs.enqueue_one(order, text, key, notify=hint)
            if not rows and key:
                # Another job has the key. When it was pruned before it could be read, the key is free again.
                rows = yield jobs.by_keys(order, [key])
        sent.says(job=rows[0].id)
    if options.get("if_taken") == "raise":
        _refuse_taken(pipeline, [each for each in rows if not each.new])
    _tell_enqueued(order, rows)
    return rows[0]


def enqueue(
    pipeline: Pipeline[I, Any],
    inputs: Iterable[I],
    keys: Callable[[I], str | None],
    options: Enqueueing,
    *,
    notify: Callable[[str], bool],
    batch_id: int | None = None,
    sent: Sending | None = None,
) -> Command[list[Receipt]]:
    """Enqueue one job per input, a bounded number per statement. The receipts have the order of the inputs. *sent* is
    the span that the jobs name as their origin; without it they have one of their own.
    """
    order = _order(pipeline, options, batch_id=batch_id)
    if sent is None:
        with Sending(order["queue"], pipeline=pipeline.name, many=True) as own:
            order["traceparent"] = own.traceparent
            receipts = yield from _enqueue_all(pipeline, inputs, keys, order, options, notify)
            own.says(len(receipts))
    else:
        order["traceparent"] = sent.traceparent
        receipts = yield from _enqueue_all(pipeline, inputs, keys, order, options, notify)
    _tell_enqueued(order, receipts)
    return receipts


def _enqueue_all(
    pipeline: Pipeline[I, Any],
    inputs: Iterable[I],
    keys: Callable[[I], str | None],
    order: jobs.Order,
    options: Enqueueing,
    notify: Callable[[str], bool],
) -> Command[list[Receipt]]:
    receipts: list[Receipt] = []
    ours: set[int] = set()
    rest = iter(inputs)
    while some := list(islice(rest, _AT_A_TIME)):
        more = yield from _enqueue_some(pipeline, some, [keys(each) for each in some], order, options, notify)
        if options.get("if_taken") == "raise":
            ours.update(each.id for each in more if each.new)
            _refuse_taken(pipeline, [each for each in more if each.id not in ours])
        receipts += more
    return receipts


def _tell_enqueued(order: jobs.Order, receipts: Sequence[Receipt]) -> None:
    if heard(JobsEnqueued) and (new := sum(each.new for each in receipts)):
        emit(JobsEnqueued(queue=order["queue"], pipeline=order["pipeline"], jobs=new))


def _refuse_taken(pipeline: Pipeline[Any, Any], taken: Sequence[Receipt]) -> None:
    for each in taken:
        raise KeyTaken(
            f"Job {each.id} of pipeline {pipeline.name!r} has the key {each.key!r} already.",
            job_id=each.id,
            next="Leave out if_taken='raise' to get that job back instead.",
        )


def _check(options: Enqueueing, pipeline: Pipeline[Any, Any]) -> None:
    refuse_unknown(options, Enqueueing, "An enqueue")
    validation.when(options.get("run_at"), options.get("delay", 0.0))
    validation.seconds("timeout", options.get("timeout"))
    validation.seconds("expires", options.get("expires"))
    validation.whole("priority", options.get("priority"), -1000, 1000)
    validation.whole("attempts", options.get("attempts"), 1, validation.MOST_ATTEMPTS)
    validation.queue(options.get("queue"), otherwise=pipeline.queue)
    if (said := options.get("if_taken", "return")) not in ("return", "raise"):
        raise ConfigurationError(f"if_taken is 'return' or 'raise', not {said!r}.")
    if not callable(shared := options.get("correlation_id")):
        validation.text("correlation_id", shared or None)


def _order(pipeline: Pipeline[Any, Any], options: Enqueueing, *, batch_id: int | None = None) -> jobs.Order:
    must_be_pipeline(pipeline)
    if options:  # most inputs have no options
        _check(options, pipeline)
    priority, shared = options.get("priority"), options.get("correlation_id")
    return jobs.Order(
        pipeline=pipeline.name,
        queue=options.get("queue") or pipeline.queue,
        max_attempts=options.get("attempts") or pipeline.retry.attempts,
        timeout=options.get("timeout") or pipeline.timeout,
        priority=pipeline.priority if priority is None else priority,
        run_at=options.get("run_at"),
        delay=options.get("delay", 0.0),
        expires=options.get("expires") or pipeline.expires,
        correlation_id=None if callable(shared) else shared,
        batch_id=batch_id,
        traceparent=None,
    )


def _lane(pipeline: Pipeline[I, Any], input: I, options: Enqueueing) -> str | None:
    lane = options.get("lane") or (pipeline.lane(input) if pipeline.lane else None)
    validation.text("lane", lane or None)
    return lane


def _correlation_ids(options: Enqueueing, inputs: Sequence[Any]) -> list[str | None]:
    """The correlation id of each input, when each has its own."""
    each_its_own = options.get("correlation_id")
    told = [each_its_own(each) for each in inputs] if callable(each_its_own) else []
    for one in told:
        validation.text("correlation_id", one or None)
    return told


def _enqueue_some(
    pipeline: Pipeline[I, Any],
    inputs: Sequence[I],
    keys: Sequence[str | None],
    order: jobs.Order,
    options: Enqueueing,
    notify: Callable[[str], bool],
) -> Command[list[Receipt]]:
    for key in keys:
        validation.text("key", key)
    what = f"the input of a {pipeline.name!r} job"
    texts = [pipeline.input.encode(each, what=what).text for each in inputs]
    lanes = [_lane(pipeline, each, options) for each in inputs]
    if named := sorted({lane for lane in lanes if lane}):
        yield queues.lanes(order["queue"], named, at_once=pipeline.lane_at_once)
    told = _correlation_ids(options, inputs)
    rows: list[Receipt] = yield jobs.enqueue(
        order, texts, keys, lanes, correlation_ids=told, notify=notify(order["queue"])
    )
    if not any(keys):
        return rows
    if missing := sorted({key for key in keys if key} - {row.key for row in rows if row.key}):
        # A concurrent transaction was writing these keys; it has committed or rolled back by now.
        rows = rows + (yield jobs.by_keys(order, missing))
        # The jobs that had these keys were pruned before they could be read, so the keys are free again.
        free = set(missing) - {row.key for row in rows if row.key}
        again = {key: each for key, each in zip(keys, inputs, strict=True) if key in free}
        if again:
            rows = rows + (
                yield from _enqueue_some(pipeline, list(again.values()), list(again), order, options, notify)
            )
    by_key = {row.key: row for row in rows if row.key}
    unkeyed = iter(row for row in rows if row.key is None)
    return [by_key[key] if key else next(unkeyed) for key in keys]


def job(id: int) -> Command[Job]:
    _check_id(id)
    rows: list[Job] = yield jobs.one(id)
    if not rows:
        raise _not_found(id)
    return rows[0]


def _check_id(id: int) -> None:
    if not validation.is_id(id):
        raise _not_found(id)


def _not_found(id: int) -> NotFound:
    return NotFound(
        f"There is no job {id}.", next="Look with 'retoma job list' for what is there; it may have been pruned."
    )


def page(
    *,
    state: JobState | str | None,
    pipeline: str | None,
    queue: str | None,
    key: str | None,
    batch_id: int | None,
    before: int | None,
    limit: int,
    content: bool = True,
    discarded: bool | None = None,
    looks: int | None = None,
) -> Command[JobPage]:
    """The jobs that match; after that many *looks* the page may hold fewer than there are. With *discarded*, of the
    failed jobs those that a person has settled, or those that nobody has.
    """
    if state is not None and state not in set(JobState):
        raise ConfigurationError(f"There is no state {state!r}.", next=f"States are {', '.join(JobState)}.")
    validation.page("jobs", limit)
    if batch_id is not None and not validation.is_id(batch_id):
        return JobPage([], None)
    if discarded and state not in (None, JobState.FAILED):
        return JobPage([], None)  # only failed jobs are discarded
    if discarded is not None and key is None and state in (None, JobState.FAILED):
        which = JobFilter(pipeline=pipeline, queue=queue, batch_id=batch_id)
        return (yield from failures(which, before=before, limit=limit, discarded=discarded, content=content))
    if discarded is not None and state is None:
        state = JobState.FAILED
    wanted = Filter(state=state and str(state), pipeline=pipeline, queue=queue, key=key, batch_id=batch_id)
    ids: list[int] = []
    at: int | None = validation.LARGEST_ID if before is None else max(0, min(before, validation.LARGEST_ID))
    by_kind = looking.knows_kind(wanted)
    # One more than wanted: its presence means that there is another page.
    while at is not None and len(ids) <= limit and looks != 0:
        (walked,) = yield looking.walk_for(wanted, Span(before=at, limit=limit + 1 - len(ids)))
        ids, at, looks = ids + walked.ids, walked.stopped, looks and looks - 1
        if at is not None and len(ids) <= limit and by_kind:
            by_kind = False
            (rest,) = yield looking.walk_kind(wanted, Span(before=at, limit=limit + 1 - len(ids)))
            ids, at = (ids + rest.ids, None) if rest.whole else (ids, at)
    following = ids[limit - 1] if len(ids) > limit else at
    found: list[Job] = yield looking.some(ids[:limit], content=content)
    if discarded is not None and state == JobState.FAILED:  # those of one key, which are few
        found = [each for each in found if (each.discarded_at is not None) == discarded]
    return JobPage(found, following)


def failures(
    which: JobFilter, *, before: int | None, limit: int, discarded: bool, content: bool = False
) -> Command[JobPage]:
    """Failed jobs of any batch, newest first: the dead letters, or those that a person has *discarded*. A bounded
    number of rows is visited.
    """
    validation.page("jobs", limit)
    at = validation.LARGEST_ID if before is None else max(0, min(before, validation.LARGEST_ID))
    ids: list[int] = []
    stopped: int | None = at
    for _ in range(_LOOKS):
        span = Span(before=stopped or 0, limit=limit - len(ids))
        rows: list[Walked] = yield looking.walk_failed(which, span, discarded=discarded)
        ids, stopped = ids + rows[0].ids, rows[0].stopped
        if stopped is None or len(ids) >= limit:
            break
    return JobPage((yield looking.some(ids, content=content)), stopped)


def output(pipeline: Pipeline[Any, O], id: int) -> Command[O]:
    must_be_pipeline(pipeline)
    found = yield from job(id)
    if found.pipeline != pipeline.name:
        raise ConfigurationError(
            f"Job {id} is of pipeline {found.pipeline!r}, not {pipeline.name!r}.", next="Ask with its own pipeline."
        )
    if found.output is None:
        raise NotFound(
            f"Job {id} is {found.state} and has no output.",
            next="Look at its error." if found.state.ended else "Wait for it first: app.jobs.wait(id).",
        )
    try:
        return pipeline.output.decode(found.output)
    except Misfit as misfit:
        raise CheckpointInvalid(
            f"The output of job {id} is not a {misfit.kind} any more: {misfit}.",
            next="Put the type back as it was, or restart the job.",
        ) from None


def attempts_of(id: int) -> Command[list[Attempt]]:
    yield from job(id)
    rows: list[Attempt] = yield attempts.of(id)
    return rows


def checkpoints_of(
    id: int, *, values: bool = True, after: Stood | None = None, limit: int | None = None
) -> Command[list[Checkpoint]]:
    yield from job(id)
    rows: list[Checkpoint] = yield checkpoints.history(id, values=values, after=after, limit=limit)
    return rows


def cancel(id: int, *, reason: str) -> Command[Job]:
    _check_id(id)
    rows = yield jobs.cancel([id], reason=reason)
    now = yield from job(id)
    if not rows and now.state is not JobState.CANCELLED:
        raise Conflict(f"Job {id} is {now.state} and cannot be cancelled any more.")
    return now


def retry(id: int, *, attempts: int | None) -> Command[Job]:
    _check_id(id)
    validation.whole("attempts", attempts, 1, validation.MOST_ATTEMPTS)
    yield jobs.hold([id])
    rows = yield jobs.retry([id], attempts=attempts)
    now = yield from job(id)
    if now.batch_id is not None:
        yield from last_steps.follow([now.batch_id])
    if now.discarded_at is not None:
        raise _settled(now)
    if not rows and now.state is not JobState.QUEUED:
        raise Conflict(
            f"Job {id} is {now.state}; only failed, cancelled and reviewed jobs are tried again by hand.",
            next="To run a finished job anew, restart it." if now.state.ended else "",
        )
    return now


def _settled(job: Job) -> Conflict:
    return Conflict(
        f"Job {job.id} was discarded by {job.discarded_by}: it is not to be retried.",
        next=f"Reinstate it first: 'retoma job reinstate {job.id}'.",
    )


def retry_some_failed(after: int, *, pipeline: str | None, attempts: int | None) -> Command[SomeAgain]:
    """New attempts for a bounded number of the failed jobs, in a transaction of its own; those *after* a cursor."""
    validation.whole("attempts", attempts, 1, validation.MOST_ATTEMPTS)
    some: list[JobId] = yield jobs.failed(pipeline=pipeline, after=after)
    if not some:
        return SomeAgain([], None)
    yield jobs.hold(some)
    moved = yield jobs.retry(some, attempts=attempts)
    return SomeAgain([id for id, _state in moved], some[-1])


def restart(id: int, *, attempts: int | None, step: str | None = None) -> Command[Job]:
    """Set the checkpoints aside (they are not deleted) and start from the first step, or from *step*."""
    validation.whole("attempts", attempts, 1, validation.MOST_ATTEMPTS)
    _check_id(id)
    yield jobs.hold([id])
    before = yield from restart_plan(id, step=step)
    if before.job.discarded_at is not None:
        raise _settled(before.job)
    if not before.can:
        state = before.job.state
        raise Conflict(f"Job {id} is {state}; only an ended job can be restarted.", next="Cancel it first.")
    rows = yield jobs.restart(id, attempts=attempts, step=step)
    if not rows:
        raise Conflict(f"Job {id} changed while it was being restarted.", next="Look at it again.")
    now = yield from job(id)
    if now.batch_id is not None:
        yield from last_steps.follow([now.batch_id])
    return now


def restart_plan(id: int, *, step: str | None) -> Command[RestartPlan]:
    """What a restart would do again. A *step* that has no checkpoint is refused."""
    now = yield from job(id)
    steps: list[Redone] = yield checkpoints.again(id, step=step)
    if step is not None and not steps:
        there: list[Redone] = yield checkpoints.again(id, step=None)
        names = ", ".join(dict.fromkeys(each.step for each in there))
        raise NotFound(
            f"Job {id} has no checkpoint of a step {step!r}.",
            next=f"Its steps are {names[:500]}." if names else "It has none: restart it from its first step.",
        )
    can = now.state.ended
    return RestartPlan(now, step, can, None if can else f"it is {now.state}", steps)


def signal(id: int, name: str, value: Any) -> Command[bool]:
    """True when the signal was recorded; False when one under that name was recorded before."""
    text = codec_of(type(value)).encode(value, what=f"the signal {name!r} to job {id}").text
    _check_id(id)
    rows = yield jobs.signal(id, name, text)
    if rows:
        return True
    now = yield from job(id)
    if now.state.ended:
        raise Conflict(f"Job {id} is {now.state} and hears no more signals.")
    return False


def weigh_queue(name: str, weight: int) -> Command[None]:
    validation.whole("weight", weight, 1, 1000)
    yield queues.weigh(name, weight)


def limit_lane(queue: str, lane: str, *, at_once: int | None) -> Command[None]:
    if at_once is not None and at_once < 1:
        raise ConfigurationError(f"A lane must let at least 1 job run, not {at_once}.", next="Pause its queue.")
    yield queues.limit_lane(queue, lane, at_once=at_once)


def only(query: Query[T]) -> Command[list[T]]:
    """The rows of one query, as a command."""
    return (yield query)

"""What can be asked of the engine, once for every door: each command yields queries and is sent their rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Literal, TypeVar

from retoma import checks
from retoma.codec import codec_of
from retoma.errors import ConfigurationError, Conflict, KeyTaken, NotFound
from retoma.model import Attempt, Checkpoint, Job, JobState, Receipt
from retoma.pipeline import Pipeline
from retoma.query import Query
from retoma.store import attempts, batches, calls, checkpoints, jobs, queues, replies, workers

T = TypeVar("T")
I = TypeVar("I")
O = TypeVar("O")

Command = Generator[Query[Any], list[Any], T]
OnTaken = Literal["return", "raise"]

_AT_A_TIME = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class Options:
    """How jobs are queued, where it differs from their pipeline's own way."""

    queue: str | None = None
    lane: str | None = None
    priority: int | None = None
    run_at: datetime | None = None
    delay: float = 0.0
    expires: float | None = None
    timeout: float | None = None
    attempts: int | None = None
    correlation_id: str | Callable[[Any], str | None] | None = None
    batch_id: int | None = None
    if_taken: OnTaken = "return"


_PLAIN = Options()


def options_of(said: Mapping[str, Any]) -> Options:
    """What a caller *said* of how. Most say nothing, and then there is nothing to look at."""
    return Options(**said) if said else _PLAIN


def enqueue_one(
    pipeline: Pipeline[I, Any], input: I, key: str | None, options: Options, *, notify: Callable[[str], bool]
) -> Command[Receipt]:
    """Queue one job; where its key is taken, the job that has it comes back."""
    if callable(options.correlation_id):
        options = replace(options, correlation_id=options.correlation_id(input))
    order = _order(pipeline, options)
    checks.text("key", key)
    text = pipeline.input.encode(input, what=f"the input of a {pipeline.name!r} job").text
    if lane := _lane(pipeline, input, options):
        yield queues.lanes(order["queue"], [lane], at_once=pipeline.lane_at_once)
    asked = jobs.enqueue_one(order, text, key, lane, notify=notify(order["queue"]))
    rows: list[Receipt] = yield asked
    while not rows and key:
        # Pruned before it was found, the job that had the key leaves it free.
        rows = (yield jobs.by_keys(order, [key])) or (yield asked)
    if options.if_taken == "raise":
        _refuse_taken(pipeline, [each for each in rows if not each.new])
    return rows[0]


def enqueue(
    pipeline: Pipeline[I, Any],
    inputs: Iterable[I],
    keys: Callable[[I], str | None],
    options: Options,
    *,
    notify: Callable[[str], bool],
) -> Command[list[Receipt]]:
    """Queue one job per input, a bounded number per statement; receipts in the order of the inputs."""
    order = _order(pipeline, options)
    receipts: list[Receipt] = []
    ours: set[int] = set()
    rest = iter(inputs)
    while some := list(islice(rest, _AT_A_TIME)):
        more = yield from _enqueue_some(pipeline, some, [keys(each) for each in some], order, options, notify)
        if options.if_taken == "raise":
            ours.update(each.id for each in more if each.new)
            _refuse_taken(pipeline, [each for each in more if each.id not in ours])
        receipts += more
    return receipts


def _refuse_taken(pipeline: Pipeline[Any, Any], taken: Sequence[Receipt]) -> None:
    for each in taken:
        raise KeyTaken(
            f"Job {each.id} of pipeline {pipeline.name!r} has the key {each.key!r} already.",
            job_id=each.id,
            next="Leave out if_taken='raise' to get that job back instead.",
        )


def _check(options: Options) -> None:
    checks.when(options.run_at, options.delay)
    checks.seconds("timeout", options.timeout)
    checks.seconds("expires", options.expires)
    checks.whole("priority", options.priority, -1000, 1000)
    checks.whole("attempts", options.attempts, 1, checks.MOST_ATTEMPTS)
    if options.queue is not None:
        checks.name("queue", options.queue)
    if options.if_taken not in ("return", "raise"):
        raise ConfigurationError(f"if_taken is 'return' or 'raise', not {options.if_taken!r}.")
    if not callable(options.correlation_id):
        checks.text("correlation_id", options.correlation_id or None)


def _order(pipeline: Pipeline[Any, Any], options: Options) -> jobs.Order:
    if options is not _PLAIN:
        _check(options)
    return jobs.Order(
        pipeline=pipeline.name,
        queue=options.queue or pipeline.queue,
        max_attempts=options.attempts or pipeline.retry.attempts,
        timeout=options.timeout or pipeline.timeout,
        priority=pipeline.priority if options.priority is None else options.priority,
        run_at=options.run_at,
        delay=options.delay,
        expires=options.expires or pipeline.expires,
        correlation_id=None if callable(options.correlation_id) else options.correlation_id,
        batch_id=options.batch_id,
        traceparent=None,
    )


def _lane(pipeline: Pipeline[I, Any], input: I, options: Options) -> str | None:
    lane = options.lane or (pipeline.lane(input) if pipeline.lane else None)
    checks.text("lane", lane or None)
    return lane


def _enqueue_some(
    pipeline: Pipeline[I, Any],
    inputs: Sequence[I],
    keys: Sequence[str | None],
    order: jobs.Order,
    options: Options,
    notify: Callable[[str], bool],
) -> Command[list[Receipt]]:
    for key in keys:
        checks.text("key", key)
    what = f"the input of a {pipeline.name!r} job"
    texts = [pipeline.input.encode(each, what=what).text for each in inputs]
    lanes = [_lane(pipeline, each, options) for each in inputs]
    if named := sorted({lane for lane in lanes if lane}):
        yield queues.lanes(order["queue"], named, at_once=pipeline.lane_at_once)
    each_its_own = options.correlation_id if callable(options.correlation_id) else None
    told = [each_its_own(each) for each in inputs] if each_its_own else ()
    for one in told:
        checks.text("correlation_id", one or None)
    rows: list[Receipt] = yield jobs.enqueue(
        order, texts, keys, lanes, correlation_ids=told, notify=notify(order["queue"])
    )
    if not any(keys):
        return rows
    if missing := sorted({key for key in keys if key} - {row.key for row in rows if row.key}):
        # Another transaction was writing these keys at the same moment; by now it has committed or not.
        rows = rows + (yield jobs.by_keys(order, missing))
        # Pruned before they were found, the jobs that had the keys leave them free.
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
    if not checks.is_id(id):
        raise _not_found(id)


def _not_found(id: int) -> NotFound:
    return NotFound(f"There is no job {id}.", next="It may have been pruned; 'retoma job list' shows what is there.")


def page(
    *,
    state: JobState | str | None,
    pipeline: str | None,
    queue: str | None,
    key: str | None,
    batch_id: int | None,
    before: int | None,
    limit: int,
) -> Command[list[Job]]:
    if state is not None and state not in set(JobState):
        raise ConfigurationError(f"There is no state {state!r}.", next=f"States are {', '.join(JobState)}.")
    checks.page("jobs", limit)
    if batch_id is not None and not checks.is_id(batch_id):
        return []
    rows: list[Job] = yield jobs.page(
        state=state and str(state),
        pipeline=pipeline,
        queue=queue,
        key=key,
        batch_id=batch_id,
        before=before and min(before, checks.LARGEST_ID),
        limit=limit,
    )
    return rows


def output(pipeline: Pipeline[Any, O], id: int) -> Command[O]:
    found = yield from job(id)
    if found.pipeline != pipeline.name:
        raise ConfigurationError(
            f"Job {id} is of pipeline {found.pipeline!r}, not {pipeline.name!r}.", next="Ask with its own pipeline."
        )
    if found.output is None:
        raise NotFound(
            f"Job {id} is {found.state} and has no output.",
            next="Look at its error." if found.state.ended else "Wait for it first: app.wait(id).",
        )
    return pipeline.output.decode(found.output)


def attempts_of(id: int) -> Command[list[Attempt]]:
    yield from job(id)
    rows: list[Attempt] = yield attempts.of(id)
    return rows


def checkpoints_of(id: int) -> Command[list[Checkpoint]]:
    yield from job(id)
    rows: list[Checkpoint] = yield checkpoints.history(id)
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
    checks.whole("attempts", attempts, 1, checks.MOST_ATTEMPTS)
    rows = yield jobs.retry([id], attempts=attempts)
    now = yield from job(id)
    if not rows and now.state is not JobState.QUEUED:
        raise Conflict(
            f"Job {id} is {now.state}; only failed, cancelled and reviewed jobs are tried again by hand.",
            next="To run a finished job anew, restart it." if now.state.ended else "",
        )
    return now


def retry_all_failed(*, pipeline: str | None, attempts: int | None) -> Command[list[int]]:
    """New attempts for every failed job, a bounded number per statement; one that fails again stays so."""
    checks.whole("attempts", attempts, 1, checks.MOST_ATTEMPTS)
    again: list[int] = []
    after = 0
    while some := (yield jobs.failed(pipeline=pipeline, after=after)):
        again += [id for id, _state in (yield jobs.retry(some, attempts=attempts))]
        after = some[-1]
    return again


def restart(id: int, *, attempts: int | None) -> Command[Job]:
    """Forget the checkpoints (they are set aside, not deleted) and begin anew."""
    checks.whole("attempts", attempts, 1, checks.MOST_ATTEMPTS)
    before = yield from job(id)
    if not before.state.ended:
        raise Conflict(f"Job {id} is {before.state}; only an ended job can be restarted.", next="Cancel it first.")
    rows = yield jobs.restart(id, attempts=attempts)
    if not rows:
        raise Conflict(f"Job {id} changed while it was being restarted.", next="Look at it again.")
    return (yield from job(id))


def signal(id: int, name: str, value: Any) -> Command[bool]:
    """True when the job heard it; False when something was said under that name before."""
    text = codec_of(type(value)).encode(value, what=f"the signal {name!r} to job {id}").text
    _check_id(id)
    rows = yield jobs.signal(id, name, text)
    if rows:
        return True
    now = yield from job(id)
    if now.state.ended:
        raise Conflict(f"Job {id} is {now.state} and hears no more signals.")
    return False


def limit_lane(queue: str, lane: str, *, at_once: int | None) -> Command[None]:
    if at_once is not None and at_once < 1:
        raise ConfigurationError(f"A lane must let at least 1 job run, not {at_once}.", next="Pause its queue.")
    yield queues.limit_lane(queue, lane, at_once=at_once)


def prune(older_than: timedelta) -> Command[int]:
    """Remove jobs and batches that ended, and workers that stopped, longer ago than *older_than*; how many went."""
    seconds = min(older_than.total_seconds(), checks.CENTURY)
    if seconds < 0:
        raise ConfigurationError("What is pruned must be older than some time that has passed.")
    gone = 0
    while some := (yield from prune_some(seconds)):
        gone += some
    return gone


def prune_some(older_than: float) -> Command[int]:
    """A bounded piece of that; 0 when nothing is left."""
    alone: list[int] = yield jobs.prune(older_than)
    of_batches: list[tuple[int, str]] = yield batches.prune(older_than)
    yield replies.prune()
    answers: list[int] = yield calls.prune(older_than)
    if not alone and not of_batches and not answers:
        yield workers.prune(older_than)
    return len(alone) + len(of_batches) + len(answers)


def only(query: Query[T]) -> Command[list[T]]:
    """The rows of one query, as a command."""
    return (yield query)

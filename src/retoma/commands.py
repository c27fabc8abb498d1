"""What can be asked of the engine, once for every door: each command yields queries and is sent their rows."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import islice
from typing import Any, Literal, TypeVar

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
_LONGEST_KEY = 500


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
    correlation_id: str | None = None
    batch_id: int | None = None
    if_taken: OnTaken = "return"


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


def _order(pipeline: Pipeline[Any, Any], options: Options) -> jobs.Order:
    if options.run_at is not None and options.run_at.tzinfo is None:
        raise ConfigurationError(
            f"run_at={options.run_at.isoformat()} has no time zone.", next="Give it one: datetime.now(UTC) + …"
        )
    priority = pipeline.priority if options.priority is None else options.priority
    if not -1000 <= priority <= 1000:  # noqa: PLR2004
        raise ConfigurationError(f"A priority is between -1000 and 1000 (smaller goes first), not {priority}.")
    if options.delay < 0:
        raise ConfigurationError(f"delay must not be negative, and is {options.delay:g}.")
    for what, seconds in (("timeout", options.timeout), ("expires", options.expires)):
        if seconds is not None and not seconds > 0:
            raise ConfigurationError(f"{what} must be more than 0 seconds, and is {seconds:g}.")
    _at_least_one(options.attempts)
    return jobs.Order(
        pipeline=pipeline.name,
        queue=options.queue or pipeline.queue,
        max_attempts=options.attempts or pipeline.retry.attempts,
        timeout=options.timeout or pipeline.timeout,
        priority=priority,
        run_at=options.run_at,
        delay=options.delay,
        expires=options.expires or pipeline.expires,
        correlation_id=options.correlation_id,
        batch_id=options.batch_id,
    )


def _at_least_one(attempts: int | None) -> None:
    if attempts is not None and attempts < 1:
        raise ConfigurationError(f"A job needs at least 1 attempt, not {attempts}.")


def _enqueue_some(
    pipeline: Pipeline[I, Any],
    inputs: Sequence[I],
    keys: Sequence[str | None],
    order: jobs.Order,
    options: Options,
    notify: Callable[[str], bool],
) -> Command[list[Receipt]]:
    for key in keys:
        if key is not None and (not key or len(key) > _LONGEST_KEY or "\0" in key):
            raise ConfigurationError(f"A key has 1 to {_LONGEST_KEY} characters and no NUL, not {key[:80]!r}.")
    what = f"the input of a {pipeline.name!r} job"
    texts = [pipeline.input.encode(each, what=what).text for each in inputs]
    lanes = [options.lane or (pipeline.lane(each) if pipeline.lane else None) for each in inputs]
    if named := sorted({lane for lane in lanes if lane}):
        yield queues.lanes(order.queue, named, at_once=pipeline.lane_at_once)
    rows: list[Receipt] = yield jobs.enqueue(order, texts, keys, lanes, notify=notify(order.queue))
    if not any(keys):
        return rows
    if missing := sorted({key for key in keys if key} - {row.key for row in rows if row.key}):
        # Another transaction was writing these keys at the same moment; by now it has committed or not.
        rows = rows + (yield jobs.by_keys(order, missing))
    by_key = {row.key: row for row in rows if row.key}
    unkeyed = iter(row for row in rows if row.key is None)
    return [by_key[key] if key else next(unkeyed) for key in keys]


def job(id: int) -> Command[Job]:
    rows: list[Job] = yield jobs.one(id)
    if not rows:
        raise NotFound(f"There is no job {id}.", next="It may have been pruned; 'retoma job list' shows what is there.")
    return rows[0]


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
    if limit < 1:
        raise ConfigurationError(f"A page has at least 1 job, not {limit}.", next="Leave limit out for 50.")
    rows: list[Job] = yield jobs.page(
        state=state and str(state),
        pipeline=pipeline,
        queue=queue,
        key=key,
        batch_id=batch_id,
        before=before,
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
    rows = yield jobs.cancel([id], reason=reason)
    now = yield from job(id)
    if not rows and now.state is not JobState.CANCELLED:
        raise Conflict(f"Job {id} is {now.state} and cannot be cancelled any more.")
    return now


def retry(id: int, *, attempts: int | None) -> Command[Job]:
    _at_least_one(attempts)
    rows = yield jobs.retry([id], attempts=attempts)
    now = yield from job(id)
    if not rows and now.state is not JobState.QUEUED:
        raise Conflict(
            f"Job {id} is {now.state}; only failed, cancelled and reviewed jobs are tried again by hand.",
            next="To run a finished job anew, restart it." if now.state.ended else "",
        )
    return now


def restart(id: int, *, attempts: int | None) -> Command[Job]:
    """Forget the checkpoints (they are set aside, not deleted) and begin anew."""
    _at_least_one(attempts)
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
    seconds = older_than.total_seconds()
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

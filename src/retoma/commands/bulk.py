"""Operations by a filter: one action on every job of any batch that the filter finds.

A dry run counts. The decision is one row. Each piece locks a bounded number of jobs, judges them under the lock, acts
on them by the same statements as a command on one job, and records how far it came, all in one transaction: a process
that dies has done a piece and recorded it, or neither.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import orjson

from retoma.commands import last_steps
from retoma.errors import ConfigurationError, Conflict
from retoma.model import validation
from retoma.model.batch import Operation
from retoma.model.operation import ACTIONS, ALLOWED, DryRun, JobFilter, Sampled
from retoma.store import jobs, operations
from retoma.store.operations import Counted, Part, Picked, Taken
from retoma.store.query import Command, Query

MOST_NAMED = 1000
"""How many jobs one filter may name by their ids."""
_LOOKS = 20
_SAMPLE = 10
_AT_A_TIME = 500
_VISITED = 10_000


def checked(action: str, wanted: JobFilter, asked: Mapping[str, Any]) -> JobFilter:
    """The filter with the states that *action* concerns; what cannot be done is refused."""
    if action not in ACTIONS:
        raise ConfigurationError(f"There is no action {action!r}.", next=f"Actions are {', '.join(ACTIONS)}.")
    states = wanted.states or ACTIONS[action]
    if wrong := sorted(set(states) - ALLOWED[action]):
        allowed = ", ".join(sorted(ALLOWED[action]))
        raise ConfigurationError(f"{action} does not apply to jobs that are {wrong[0]!r}.", next=f"To {allowed} jobs.")
    if len(wanted.ids) > MOST_NAMED:
        raise ConfigurationError(
            f"A filter names at most {MOST_NAMED} jobs, not {len(wanted.ids)}.", next="Use what they have in common."
        )
    for what in ("pipeline", "queue", "fingerprint", "key_prefix"):
        validation.text(what, getattr(wanted, what))
    for moment in (wanted.created_after, wanted.created_before):
        if moment is not None and moment.tzinfo is None:
            raise ConfigurationError(f"{moment.isoformat()} has no time zone.", next="Give it one.")
    _check_options(action, asked)
    ids = tuple(sorted({each for each in wanted.ids if validation.is_id(each)}))
    return replace(wanted, states=tuple(sorted(set(states))), ids=ids)


def _check_options(action: str, asked: Mapping[str, Any]) -> None:
    if action == "move" and asked.get("queue") is None:
        raise ConfigurationError("move says into which queue.", next="Name one that workers serve.")
    if action == "priority" and asked.get("priority") is None:
        raise ConfigurationError("priority says which number.", next="The smaller number goes first.")
    for option, of in (("queue", ["move"]), ("priority", ["priority"]), ("attempts", ["retry", "restart"])):
        if asked.get(option) is not None and action not in of:
            raise ConfigurationError(
                f"The option {option} does not go with {action}.", next=f"It goes with {' and '.join(of)}."
            )
    validation.queue(asked.get("queue"), otherwise="default")
    validation.whole("priority", asked.get("priority"), -1000, 1000)
    validation.whole("attempts", asked.get("attempts"), 1, validation.MOST_ATTEMPTS)
    validation.text("reason", asked.get("reason"))


def dry_run(action: str, wanted: JobFilter, asked: Mapping[str, Any], *, looks: int | None = None) -> Command[DryRun]:
    """What the operation would do now, counted in bounded time; nothing is locked or changed. With fewer *looks* the
    count ends earlier, and says that it is not exact.
    """
    filter = checked(action, wanted, asked)
    verdicts, sample, batches = Counter[str](), list[Sampled](), set[int]()
    after: int | None = 0
    looks = _LOOKS if looks is None else looks
    while after is not None and looks:
        part = Part(kind=action, filter=filter, asked=asked, after=after, limit=_VISITED, look=_VISITED)
        counted: list[Counted] = yield operations.count(part, sample=_SAMPLE - len(sample))
        found = counted[0]
        verdicts.update(orjson.loads(found.verdicts))
        sample += [Sampled(*each) for each in orjson.loads(found.sample)]
        batches.update(found.batches)
        after, looks = found.stopped, looks - 1
    jobs = verdicts.pop("", 0)
    return DryRun(
        action=action,
        filter=filter,
        jobs=jobs,
        skipped=dict(verdicts),
        sample=sample,
        batches=len(batches),
        exact=after is None,
    )


def begin(action: str, wanted: JobFilter, asked: Mapping[str, Any], *, by: str | None) -> Command[int]:
    """Decide the operation: its row says what is to be done, and any process carries it out."""
    found = yield from dry_run(action, wanted, asked)
    said = {name: value for name, value in asked.items() if value is not None}
    rows: list[int] = yield operations.begin_by_filter(
        action,
        found.filter,
        orjson.dumps(said).decode(),
        asked_by=by,
        wanted=found.jobs + sum(found.skipped.values()),
        exact=found.exact,
    )
    return rows[0]


def _act(now: Taken, ids: list[int], asked: Mapping[str, Any]) -> Query[tuple[int, str]]:
    acts: dict[str, Callable[[], Query[tuple[int, str]]]] = {
        "retry": lambda: jobs.retry(ids, attempts=asked.get("attempts")),
        "cancel": lambda: jobs.cancel(ids, reason=asked.get("reason") or "person"),
        "restart": lambda: jobs.restart(ids, attempts=asked.get("attempts")),
        "discard": lambda: jobs.discard(ids, by=now.asked_by or "person", reason=asked.get("reason")),
        "reinstate": lambda: jobs.reinstate(ids),
        "move": lambda: jobs.move(ids, asked["queue"]),
        "priority": lambda: jobs.prioritise(ids, asked["priority"]),
    }
    return acts[now.kind]()


def piece(now: Taken) -> Command[bool]:
    """The next piece; False when nothing could be done, because others have locked what is left."""
    assert now.filter is not None
    assert now.upto is not None
    asked = orjson.loads(now.asked)
    sweeping = now.after < now.upto
    part = Part(
        kind=now.kind,
        filter=JobFilter.read(now.filter),
        asked=asked,
        after=now.after if sweeping else 0,
        upto=now.upto,
        until=now.started_at,
        ids=None if sweeping else now.left_over[:_AT_A_TIME],
        limit=_AT_A_TIME,
        look=_VISITED,
    )
    rows: list[Picked] = yield operations.pick(part)
    picked = rows[0]
    did: list[tuple[int, str]] = (yield _act(now, picked.ids, asked)) if picked.ids else []
    skipped = Counter[str](orjson.loads(picked.skipped))
    if missed := len(picked.ids) - len(did):
        skipped["state"] += missed
    before = now.left_over if sweeping else now.left_over[_AT_A_TIME:]
    if did and now.kind in {"retry", "restart"}:
        yield from last_steps.follow()
    left = before + picked.locked
    after = (now.upto if picked.stopped is None else picked.stopped) if sweeping else now.after
    yield operations.advance(now.id, after=after, left_over=left, moved=len(did), skipped=skipped)
    if after >= now.upto and not left:
        yield operations.finish(now.id)
    return sweeping or len(picked.locked) < min(len(now.left_over), _AT_A_TIME)


def stop(now: Operation) -> Command[None]:
    """End an operation by a filter. What it has done stays done."""
    if now.batch_id is not None:
        raise Conflict(
            f"Operation {now.id} belongs to batch {now.batch_id} and is not cancelled by itself.",
            next=f"Cancel the batch: 'retoma batch cancel {now.batch_id}'.",
        )
    if not (yield operations.finish(now.id, error="cancelled")):
        raise Conflict(f"Operation {now.id} is over.", next="Look at it again.")

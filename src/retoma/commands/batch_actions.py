"""What can be done with batches that are there: resumed, retried, paused, cancelled, restarted, looked after.

A command begins by holding the batch's row. Whatever it finds there stays so until the transaction around it ends:
of several who ask for the same, one does it and the others find it done.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from decimal import Decimal
from typing import Any

from retoma import checks
from retoma.batch import Batch, BatchState, Resumed
from retoma.batching import BatchOptions, as_json, check, hold, one
from retoma.commands import Command
from retoma.errors import BatchConflict
from retoma.evidence import Explanation
from retoma.explain import STALLING, explain
from retoma.store import batches


def resume(id: int, *, epoch: int | None, max_resumes: int | None, by: str) -> Command[Resumed]:
    """Continue from where it stopped; safe to ask many times."""
    held = yield from hold(id)
    if held.state in {"queued", "running"} and held.sealed:
        return Resumed((yield from one(id)), changed=False, word="already_running")
    if held.state == "completed":
        return Resumed((yield from one(id)), changed=False, word="already_finished")
    if not held.sealed or held.state == "cancelled":
        raise BatchConflict(
            f"Batch {id} " + ("was cancelled" if held.sealed else "was never sealed") + " and cannot be resumed.",
            code="batch_not_resumable",
            next="Try what was cancelled again: 'retoma batch retry-failed --cancelled'."
            if held.sealed
            else "Seal it.",
        )
    if epoch is not None and held.epoch != epoch:
        raise BatchConflict(f"Batch {id} changed since you looked at it.", code="stale_epoch", next="Look at it again.")
    limit = held.max_resumes if max_resumes is None else max_resumes
    if held.state != "paused" and held.unfinished and held.resumes >= limit:
        raise BatchConflict(
            f"Batch {id} was resumed {held.resumes} times, and {limit} are allowed.",
            code="resume_limit_reached",
            next=f"Find out why it stalls ('retoma batch explain {id}'), then allow more: --max-resumes {limit + 1}.",
        )
    yield batches.resume(id, epoch=None, max_resumes=max_resumes, by=by)
    taken = 0
    # What merely rested goes on by itself; what hung does not.
    while "stalled" in {held.state, held.was} and (some := (yield batches.take_back(id))):
        taken += len(some)
    now = yield from one(id)
    return Resumed(now, changed=True, word="completed" if now.state.ended else "resumed", jobs=taken)


def retry_failed(id: int, *, fingerprint: str | None, cancelled: bool, attempts: int | None) -> Command[Resumed]:
    """New attempts for the jobs that failed, and for nothing else."""
    checks.whole("attempts", attempts, 1, checks.MOST_ATTEMPTS)
    yield from hold(id)
    jobs = 0
    while some := (yield batches.retry_failed(id, fingerprint=fingerprint, cancelled=cancelled, attempts=attempts)):
        jobs += len(some)
    word = "retried" if jobs else "nothing_to_retry"
    return Resumed((yield from one(id)), changed=jobs > 0, word=word, jobs=jobs)


def pause(id: int, *, reason: str) -> Command[Batch]:
    held = yield from hold(id)
    if held.state != "paused" and not (yield batches.pause(id, reason=reason)):
        state = held.state if held.sealed else "not sealed yet"
        raise BatchConflict(f"Batch {id} is {state} and cannot be paused.", code="conflict")
    return (yield from one(id))


def cancel(id: int, *, reason: str) -> Command[Batch]:
    """Stop it: what waits ends now, what runs is told with the next heartbeat, what is done stays done."""
    held = yield from hold(id)
    if held.state in {"completed", "failed"}:
        batch = yield from one(id)
        raise BatchConflict(
            f"Batch {id} is {held.state} since {batch.finished_at:%Y-%m-%d %H:%M:%S} UTC; it cannot be cancelled now.",
            code="already_finished",
        )
    yield batches.cancel(id, reason=reason)
    while (yield batches.cancel_jobs(id)):
        pass
    return (yield from one(id))


def restart(id: int, *, configuration: Mapping[str, Any] | None) -> Command[Resumed]:
    """Run every job anew, also those that are done: their checkpoints are set aside."""
    held = yield from hold(id)
    text = None if configuration is None else as_json(configuration, "configuration")
    if not (yield batches.restarted(id, configuration=text)):
        raise BatchConflict(
            f"Batch {id} is {held.state}; only one that has ended, and held jobs, can be restarted.",
            code="conflict",
            next=f"Cancel it first, or resume it: 'retoma batch resume {id}' keeps what is done.",
        )
    jobs, after = 0, 0
    while some := (yield batches.restart(id, after=after)):
        jobs, after = jobs + len(some), some[-1]
    return Resumed((yield from one(id)), changed=True, word="restarted", jobs=jobs)


def change(id: int, changes: Mapping[str, Any]) -> Command[Batch]:
    """Another name, limit, budget or labels for a batch that is there."""
    yield from hold(id)
    given = {name: value for name, value in changes.items() if value is not None}
    checked = {name: value for name, value in given.items() if name not in {"name", "labels"}}
    check(given.get("name", "-"), BatchOptions(**checked))
    told = as_json(
        {name: str(value) if isinstance(value, Decimal) else value for name, value in given.items()}, "change"
    )
    if "labels" in given:
        given["labels"] = as_json(given["labels"], "labels")
    yield batches.change(id, **given, told=told)
    now = yield from one(id)
    if now.state is BatchState.PAUSED and now.reason == "budget" and (now.budget is None or now.budget > now.spent):
        yield batches.resume(id, epoch=None, max_resumes=None, by="budget")
        return (yield from one(id))
    return now


# — the watchdog's round —


@dataclass(frozen=True, slots=True)
class Round:
    """What a round of the watchdog over the batches did."""

    stalled: list[Explanation] = field(default_factory=list)
    advanced: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)


def look_after() -> Command[Round]:
    """Call stalled what is stuck, failed what is stuck for good, and end what nobody sealed or stopped half-way."""
    did = Round()
    for id in (yield batches.unsealed()):
        if (yield batches.cancel(id, reason="unsealed")):
            did.expired.append(id)
    while (yield batches.cancel_jobs()):
        pass
    did.advanced.extend((yield batches.advance()))
    for id in (yield batches.silent()):
        for seen in (yield batches.evidence(id)):
            why = explain(id, seen)
            if seen.silent and why.verdict in STALLING:
                cause = as_json({"sentence": why.sentence, "action": why.action, **why.evidence}, "cause")
                if (
                    yield batches.stall(
                        id, epoch=seen.epoch, event_seq=seen.event_seq, verdict=str(why.verdict), cause=cause
                    )
                ):
                    did.stalled.append(why)
    did.failed.extend((yield batches.give_up()))
    return did

"""Actions on existing batches: resume, retry, pause, cancel, restart, re-plan and change.

A command first locks the batch's row, so the state it reads holds until its transaction ends. When several callers ask
for the same action, one performs it and the others find it done.
"""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from typing import Any

from retoma.commands import operations as operation_commands
from retoma.commands.batches import BatchOptions, as_json, check, hold, one
from retoma.errors import BatchConflict, ConfigurationError
from retoma.model import validation
from retoma.model.batch import Batch, BatchState, Resumed
from retoma.store import batches
from retoma.store.query import Command
from retoma.telemetry.tracing import Sending

_NEEDED = ("name", "max_resumes", "stall_seconds")


def resume(id: int, *, epoch: int | None, max_resumes: int | None, by: str) -> Command[Resumed]:
    """Continue from where the batch stopped. Idempotent."""
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
    if held.finishing == "failed" and not held.unfinished and held.finish_job_id is not None:
        return (yield from _finish_again(id, held.finish_job_id, by=by))
    limit = held.max_resumes if max_resumes is None else max_resumes
    left = held.unfinished or held.finishing in {"waiting", "open"}
    if held.state != "paused" and left and held.resumes >= limit:
        raise BatchConflict(
            f"Batch {id} was resumed {held.resumes} times, and {limit} are allowed.",
            code="resume_limit_reached",
            next=f"Find out why it stalls ('retoma batch explain {id}'), then allow more: --max-resumes {limit + 1}.",
        )
    with Sending("batch", verb="resume", many=True, after=held.traceparent) as sent:
        sent.says(batch=id)
        moved: list[tuple[str, bool]] = yield batches.resume(
            id, epoch=None, max_resumes=max_resumes, by=by, traceparent=sent.traceparent
        )
    taken = 0
    # Paused jobs continue by themselves. Jobs that hang in a stalled batch must be taken back.
    while "stalled" in {held.state, held.was} and (some := (yield batches.take_back(id))):
        taken += len(some)
    while held.state in {"stalled", "failed"} and (yield batches.wake(id)):
        pass
    now = yield from one(id)
    word = "no_workers" if moved and not moved[0][1] else "resumed"
    return Resumed(now, changed=True, word="completed" if now.state.ended else word, jobs=taken)


def _finish_again(id: int, job_id: int, *, by: str) -> Command[Resumed]:
    """Only its last step failed: it gets new attempts and continues from its checkpoints, and no resume is used up."""
    asked = {"fingerprint": None, "cancelled": False, "attempts": None}
    seen = yield from operation_commands.pieces(id, "retry", asked, by=by)(batches.Piece(ids=[job_id]), None)
    moved = [each.id for each in seen if each.moved]
    now = yield from one(id)
    return Resumed(now, changed=bool(moved), word="resumed" if moved else "already_finished", jobs=len(moved))


def release(id: int, *, by: str) -> Command[Batch]:
    """Let the jobs be taken that a pilot holds. Idempotent: what is not held any more stays so."""
    held = yield from hold(id)
    batch = yield from one(id)
    if batch.held_at is None:
        return batch
    if BatchState(held.state).ended:
        raise BatchConflict(
            f"Batch {id} is {held.state}, and nothing of it is held.",
            code="already_finished",
            next="Make another batch.",
        )
    yield batches.release(id, by=by)
    return (yield from one(id))


def retry_failed(
    id: int, *, fingerprint: str | None, cancelled: bool, attempts: int | None, by: str | None = None
) -> Command[Resumed]:
    """New attempts for the failed jobs, and for no other."""
    validation.whole("attempts", attempts, 1, validation.MOST_ATTEMPTS)
    held = yield from hold(id)
    if held.operation_id is not None and (yield from operation_commands.one(held.operation_id)).kind == "retry":
        return Resumed((yield from one(id)), changed=False, word="already_retrying")
    yield from operation_commands.refuse(id, held.operation_id)
    asked = {"fingerprint": fingerprint, "cancelled": cancelled, "attempts": attempts}
    total = held.total or 0
    wanted = total - held.unfinished if cancelled else held.failures
    if total > operation_commands.SMALL:
        if not (yield batches.has(id, ("failed", "cancelled") if cancelled else ("failed",)))[0]:
            return Resumed((yield from one(id)), changed=False, word="nothing_to_retry")
        yield batches.reopen(id, by=by)
    jobs = yield from operation_commands.begin(id, "retry", asked, total=total, wanted=wanted, by=by)
    now = yield from one(id)
    changed = jobs > 0 or now.operation_id is not None
    return Resumed(now, changed=changed, word="retried" if changed else "nothing_to_retry", jobs=jobs)


def pause(id: int, *, reason: str, by: str | None = None) -> Command[Batch]:
    held = yield from hold(id)
    if held.state != "paused" and not (yield batches.pause(id, reason=reason, by=by)):
        state = held.state if held.sealed else "not sealed yet"
        raise BatchConflict(f"Batch {id} is {state} and cannot be paused.", code="conflict")
    return (yield from one(id))


def cancel(id: int, *, reason: str, by: str | None = None) -> Command[Batch]:
    """Stop the batch: waiting jobs end now, running jobs are cancelled with the next heartbeat, finished jobs stay."""
    held = yield from hold(id)
    if held.state in {"completed", "failed"}:
        batch = yield from one(id)
        raise BatchConflict(
            f"Batch {id} is {held.state} since {batch.finished_at:%Y-%m-%d %H:%M:%S} UTC; it cannot be cancelled now.",
            code="already_finished",
        )
    if held.state != "cancelled" and held.operation_id is not None:
        yield from operation_commands.stop(held.operation_id, why="cancelled")
    yield batches.cancel(id, reason=reason, by=by)
    now = yield from one(id)
    if now.operation_id is None:
        yield from operation_commands.begin(id, "cancel", {}, total=now.total, wanted=now.unfinished, by=by)
    return (yield from one(id))


def restart(id: int, *, configuration: Mapping[str, Any] | None, by: str | None = None) -> Command[Resumed]:
    """Run every job again, finished ones too; their checkpoints are set aside."""
    held = yield from hold(id)
    yield from operation_commands.refuse(id, held.operation_id)
    text = None if configuration is None else as_json(configuration, "configuration")
    if not (yield batches.restarted(id, configuration=text, by=by)):
        raise BatchConflict(
            f"Batch {id} is {held.state}; only one that has ended, and held jobs, can be restarted.",
            code="conflict",
            next=f"Cancel it first, or resume it: 'retoma batch resume {id}' keeps what is done.",
        )
    jobs = yield from operation_commands.begin(id, "restart", {}, total=held.total, wanted=held.total or 0, by=by)
    return Resumed((yield from one(id)), changed=True, word="restarted", jobs=jobs)


def replan(
    id: int, *, configuration: Mapping[str, Any], note: str | None = None, by: str | None = None
) -> Command[Resumed]:
    """Give the jobs that have not begun another configuration. Those that have begun go on under theirs."""
    validation.text("note", note)
    text = as_json(configuration, "configuration")
    held = yield from hold(id)
    batch = yield from one(id)
    yield from operation_commands.refuse(id, held.operation_id)
    if text == as_json(batch.configuration, "configuration"):
        return Resumed(batch, changed=False, word="already_planned")
    rows: list[int] = yield batches.replanned(id, configuration=text, by=by, note=note)
    if not rows:
        raise BatchConflict(
            f"Batch {id} is {held.state if held.sealed else 'not sealed yet'}, and nothing of it is left to re-plan.",
            code="conflict",
            next=f"To run all of it again: 'retoma batch restart {id}'.",
        )
    asked = {"cohort": rows[0]}
    jobs = yield from operation_commands.begin(id, "replan", asked, total=held.total, wanted=held.unfinished, by=by)
    now = yield from one(id)
    if not jobs and now.operation_id is None:
        raise BatchConflict(
            f"Every job of batch {id} has begun, and goes on under its configuration.",
            code="conflict",
            next="Let it end, then restart the jobs that should run again.",
        )
    return Resumed(now, changed=True, word="replanned", jobs=jobs)


def change(id: int, changes: Mapping[str, Any], *, epoch: int | None = None, by: str | None = None) -> Command[Batch]:
    """Change the name, limit, budget or labels of a batch. None lifts a limit where that is allowed, and removes all
    labels. Without any option nothing changes.
    """
    held = yield from hold(id)
    if epoch is not None and held.epoch != epoch:
        raise BatchConflict(f"Batch {id} changed since you looked at it.", code="stale_epoch", next="Look at it again.")
    given = {name: {} if name == "labels" and value is None else value for name, value in changes.items()}
    if not given:
        return (yield from one(id))
    for name in _NEEDED:
        if name in given and given[name] is None:
            raise ConfigurationError(f"A batch needs a value for {name}.", next="Leave it out to keep what is there.")
    checked = {name: value for name, value in given.items() if name not in {"name", "labels"}}
    check(given.get("name", "-"), BatchOptions(**checked))
    story = {name: str(value) if isinstance(value, Decimal) else value for name, value in given.items()}
    told = as_json(story if by is None else {**story, "by": by}, "change")
    if "labels" in given:
        given["labels"] = as_json(given["labels"], "labels")
    yield batches.change(id, given, told=told)
    now = yield from one(id)
    if now.state is BatchState.PAUSED and now.reason == "budget" and (now.budget is None or now.budget > now.spent):
        yield batches.resume(id, epoch=None, max_resumes=None, by="budget")
        return (yield from one(id))
    return now

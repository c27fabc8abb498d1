"""Maintenance rounds over jobs and batches, and their events: the same for the watchdog, a
maintenance job and a caller.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from retoma.commands import last_steps
from retoma.commands import operations as operation_commands
from retoma.commands.batches import as_json, one
from retoma.model.diagnosis import STALLING, cause_of, explain
from retoma.model.evidence import Explanation
from retoma.model.job import AttemptEnding, Recovered
from retoma.store import batches
from retoma.store.query import Command
from retoma.telemetry import emit
from retoma.telemetry.events import BatchAdvanced, BatchFailed, BatchStalled, JobRecovered


@dataclass(frozen=True, slots=True)
class Round:
    """What a round over the batches did."""

    stalled: list[Explanation] = field(default_factory=list)
    advanced: list[int] = field(default_factory=list)
    failed: list[int] = field(default_factory=list)
    expired: list[int] = field(default_factory=list)


def look_after(*, round: float = 0.0) -> Command[Round]:
    """A whole round in one transaction, for a caller who asks for one. The watchdog splits it into several."""
    did = yield from tidy()
    for id in (yield batches.silent()):
        yield from look_at(id, did, round=round)
    return did


def tidy() -> Command[Round]:
    """Cancel batches that were never sealed, finish cancellations that stopped half-way, let last steps follow their
    batches, and set stalled batches that progress again to running.
    """
    did = Round()
    for id in (yield batches.unsealed()):
        if (yield batches.cancel(id, reason="unsealed")):
            now = yield from one(id)
            yield from operation_commands.begin(id, "cancel", {}, total=now.total, wanted=now.unfinished)
            did.expired.append(id)
    yield batches.cancel_rest()
    yield from last_steps.follow()
    did.advanced.extend((yield batches.advance()))
    return did


def look_at(id: int, did: Round, *, round: float = 0.0) -> Command[None]:
    """Mark a stuck batch as stalled; mark it as failed when it was already stalled at least a *round* (in seconds) ago,
    is still stuck and has no resume left.
    """
    for seen in (yield batches.evidence(id)):
        why = explain(id, seen)
        if not seen.silent or why.verdict not in STALLING:
            continue
        cause, verdict = as_json(cause_of(id, seen), "cause"), str(why.verdict)
        seen_at = {"epoch": seen.epoch, "event_seq": seen.event_seq}
        if seen.state == "running":
            if (yield batches.stall(id, **seen_at, verdict=verdict, cause=cause)):
                did.stalled.append(why)
        elif seen.resumes >= seen.max_resumes:
            did.failed.extend((yield batches.give_up(id, event_seq=seen.event_seq, round=round)))
        elif seen.reason != verdict:
            yield batches.recall(id, **seen_at, verdict=verdict, cause=cause)


def tell_round(did: Round) -> None:
    """Emit the events of a round over the batches, after its commit."""
    for why in did.stalled:
        emit(BatchStalled(batch=why.batch_id, verdict=str(why.verdict), sentence=why.sentence))
    for batch in did.advanced:
        emit(BatchAdvanced(batch=batch))
    for batch in did.failed:
        emit(BatchFailed(batch=batch, reason="resumes"))


def tell_recovered(recovered: Sequence[Recovered]) -> None:
    """Emit the events of recovered jobs, after the commit."""
    for each in recovered:
        if each.ending != AttemptEnding.RELEASED:
            emit(
                JobRecovered(
                    worker=each.worker_id,
                    job=each.id,
                    pipeline=each.pipeline,
                    attempt=each.attempt,
                    state=each.state,
                    ending=str(each.ending),
                    crashes=each.crashes,
                    reason=each.reason,
                    step=each.step,
                    correlation=each.correlation_id,
                    queue=each.queue,
                    fence=each.fence,
                    cause=each.cause,
                    duration_ms=(each.seconds or 0.0) * 1000,
                    traceparent=each.traceparent,
                )
            )

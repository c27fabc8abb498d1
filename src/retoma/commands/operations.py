"""Commands on many jobs: decided at once, carried out in bounded pieces.

The jobs are those of one batch, or those that a filter finds (``bulk``). The decision is a row that says what to do.
Each piece is a transaction of its own, run by the caller, or by any worker when the caller is gone. A job that another
transaction has locked is visited again.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

import orjson

from retoma.commands import bulk, last_steps
from retoma.commands.jobs import only
from retoma.errors import BatchConflict, NotFound
from retoma.model import validation
from retoma.model.batch import Operation
from retoma.store import batches, operations
from retoma.store.batches import Piece, Seen
from retoma.store.query import Command

SMALL = 2000
"""The largest batch, in jobs, whose commands are carried out in the transaction that decides them."""

_AT_A_TIME = 1000
_SWEPT = validation.LARGEST_ID
_STOPPED = {"cancelled", "failed"}
_REVIVE = {"retry", "restart"}

Pieces = Callable[[Piece, datetime | None], Command[list[Seen]]]


def pieces(batch_id: int, kind: str, asked: Mapping[str, Any], *, by: str | None = None) -> Pieces:
    """How a piece of the jobs is carried out. What a retry and a re-plan decide by is not all in the rows of the jobs,
    so they lock first, and then look.
    """

    def replan(piece: Piece, _until: datetime | None) -> Command[list[Seen]]:
        held = yield batches.hold_jobs(batch_id, piece, ("queued",))
        return (yield batches.replan(batch_id, piece, held=held, **asked))

    def retry(piece: Piece, until: datetime | None) -> Command[list[Seen]]:
        held = yield batches.hold_jobs(batch_id, piece, batches.retried(cancelled=asked["cancelled"]))
        return (yield batches.retry_failed(batch_id, piece, held=held, until=until, by=by, **asked))

    match kind:
        case "cancel":
            return lambda piece, _until: only(batches.cancel_jobs(batch_id, piece))
        case "replan":
            return replan
        case "retry":
            return retry
        case _:
            return lambda piece, _until: only(batches.restart(batch_id, piece))


def begin(
    id: int, kind: str, asked: Mapping[str, Any], *, total: int | None, wanted: int, by: str | None = None
) -> Command[int]:
    """Carry out the command in the transaction that has locked the batch. What exceeds its bounds, or is locked by
    others, is left to an operation. Returns how many jobs were changed so far.
    """
    done, after, left = 0, 0, list[int]()
    if total is None or total <= SMALL:
        carry_out = pieces(id, kind, asked, by=by)
        while seen := (yield from carry_out(Piece(after=after), None)):
            done, after = done + sum(each.moved for each in seen), seen[-1].id
            left += [each.id for each in seen if not each.settled]
        if kind in _REVIVE:
            yield from last_steps.follow([id])
        if not left:
            return done
        after = _SWEPT
    text = orjson.dumps(asked).decode()
    yield operations.begin(
        id, kind, asked_by=by, asked=text, after=after, left_over=left, wanted=max(wanted, done), done=done
    )
    return done


def stop(id: int, *, why: str) -> Command[None]:
    """End an operation early; the caller has locked its batch."""
    yield operations.finish(id, error=why)


def refuse(batch_id: int, id: int | None) -> Command[None]:
    """Refuse a second operation on the same batch."""
    if id is not None:
        now = yield from one(id)
        raise BatchConflict(
            f"Batch {batch_id} has an operation under way: {now.kind}, {now.done} of {now.wanted} jobs.",
            code="operation_running",
            next=f"Wait until it is over ('retoma batch show {batch_id}' says how far it is), then ask again.",
        )


def one(id: int) -> Command[Operation]:
    rows: list[Operation] = (yield operations.one(id)) if validation.is_id(id) else []
    if not rows:
        raise NotFound(
            f"There is no operation {id}.",
            next="Look with 'retoma operation list' for what is there; it may have been pruned.",
        )
    return rows[0]


def cancel(id: int) -> Command[Operation]:
    """End an operation by a filter early."""
    yield from bulk.stop((yield from one(id)))
    return (yield from one(id))


def piece(id: int) -> Command[bool]:
    """Carry out the next piece of an operation in a transaction of its own; False when nothing could be done."""
    if not validation.is_id(id) or (yield operations.come(id)) != [True]:
        return False
    taken: list[operations.Taken] = yield operations.take(id)
    if not taken:
        return False
    now = taken[0]
    if now.filter is not None:
        return (yield from bulk.piece(now))
    assert now.batch_id is not None
    if now.kind != "cancel" and now.state in _STOPPED:
        yield from _finish(now, error=now.state)
        return True
    carry_out = pieces(now.batch_id, now.kind, orjson.loads(now.asked))
    sweeping = now.after < _SWEPT
    which = Piece(after=now.after, limit=_AT_A_TIME) if sweeping else Piece(ids=now.left_over, limit=_AT_A_TIME)
    seen = yield from carry_out(which, now.started_at)
    held = [each.id for each in seen if not each.settled]
    moved = sum(each.moved for each in seen)
    if now.kind in _REVIVE and moved:
        yield from last_steps.follow([now.batch_id])
    if sweeping:
        left = now.left_over + held
        after = seen[-1].id if len(seen) == _AT_A_TIME else _SWEPT
    else:
        left, after = now.left_over[_AT_A_TIME:] + held, _SWEPT
    yield operations.advance(id, after=after, left_over=left, moved=moved)
    if after == _SWEPT and not left:
        yield from _finish(now)
    return sweeping or len(left) < len(now.left_over)


def _finish(taken: operations.Taken, *, error: str | None = None) -> Command[None]:
    yield operations.finish(taken.id, error=error)
    if taken.batch_id is not None:
        yield batches.settle(taken.batch_id)

"""Verifies the tables: every invariant, recomputed from the rows, in bounded pieces."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from retoma.errors import ConfigurationError
from retoma.model import validation
from retoma.model.batch import Breach
from retoma.store import verify
from retoma.store.query import Command
from retoma.values.fingerprints import checksum

_SWEEPS = 6.0  # times the sweep interval: a lease that ended longer ago should have been recovered
_JOBS = 20_000
_JOBS_OF_BATCHES = 200_000


@dataclass(frozen=True, slots=True)
class Verified:
    """The violations in one piece of the tables, and where the next piece begins; None after the last."""

    found: list[Breach]
    next: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class How:
    """How closely to verify; *quick* checks only what is unfinished."""

    sweep_seconds: float
    quick: bool = False


Piece = tuple[list[Breach], str | None]


def _held(_after: str, how: How) -> Command[Piece]:
    return (yield verify.held(sweep=_SWEEPS * how.sweep_seconds)), None


def _batches(after: str, how: How) -> Command[Piece]:
    ids: list[int] = yield verify.batches(int(after or 0), quick=how.quick, limit=_JOBS_OF_BATCHES)
    if not ids:
        return [], None
    found: list[Breach] = yield verify.of_batches(ids)
    return found + (yield verify.commanded(ids)), str(ids[-1])


def _jobs(after: str, _how: How) -> Command[Piece]:
    at = int(after or 0)
    upto: list[int] = yield verify.span(at, limit=_JOBS)
    if not upto:
        # Rows left by deleted jobs keep their ids, which can be higher than that of any existing job.
        return (yield verify.steps(at, validation.LARGEST_ID)), None
    found: list[Breach] = yield verify.jobs(at, upto[0])
    return found + (yield verify.steps(at, upto[0])), str(upto[0])


def _saved(after: str, _how: How) -> Command[Piece]:
    job, generation, step = after.split(" ", 2) if after else ("0", "0", "")
    rows: list[verify.Kept] = yield verify.saved((int(job), step, int(generation)))
    found = [
        Breach("a checkpoint is as it was saved", f"job {each.job_id}, step {each.step}", "its checksum is another")
        for each in rows
        if checksum(each.value) != each.checksum
    ]
    return found, f"{rows[-1].job_id} {rows[-1].generation} {rows[-1].step}" if rows else None


_STAGES: Mapping[str, Callable[[str, How], Command[Piece]]] = {
    "held": _held,
    "batches": _batches,
    "jobs": _jobs,
    "saved": _saved,
}
_QUICK = ("held", "batches")


def piece(after: str, how: How) -> Command[Verified]:
    """The piece of the tables after *after*: empty for the first piece, then ``next`` of the piece before."""
    stages = _QUICK if how.quick else tuple(_STAGES)
    stage, _, at = (after or stages[0]).partition(":")
    if stage not in stages:
        raise ConfigurationError(
            f"{after!r} is not a position to continue from.", next="Take it from what was printed."
        )
    try:
        found, following = yield from _STAGES[stage](at, how)
    except ValueError:
        raise ConfigurationError(
            f"{after!r} is not a position to continue from.", next="Take it from what was printed."
        ) from None
    if following is not None:
        return Verified(found, f"{stage}:{following}")
    later = stages[stages.index(stage) + 1 :]
    return Verified(found, later[0] if later else None)

"""A pilot: some jobs of a batch run first, and say what the whole will cost, take and lose.

The intervals are deterministic. Means have a bootstrap interval: 2,000 resamples of the pilot's jobs, with a generator
that starts from the number of the batch. A share of failures has Wilson's interval, which also says something of none
in twenty.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from decimal import Decimal
from typing import NamedTuple

from retoma.model.batch import Batch
from retoma.model.job import JobState

CONFIDENCE = 0.90
LEAST = 3
"""With fewer jobs that ended, nothing is projected."""
_RESAMPLES = 2000
_Z = 1.6448536269514722  # of a normal distribution, for 90 %


class Tried(NamedTuple):
    """A job of a pilot: how it stands, how long it worked, and what it cost."""

    id: int
    state: str
    size: int
    seconds: float
    began_at: datetime | None
    ended_at: datetime | None
    cost: Decimal
    unpriced: int


@dataclass(frozen=True, slots=True)
class Range:
    """A projection: what is most likely, and between which values it lies in nine cases of ten."""

    likely: float
    low: float
    high: float


@dataclass(frozen=True, slots=True)
class Pilot:
    """How the pilot of a batch went, and what that says of the whole batch, the pilot included."""

    batch: Batch
    jobs: int
    """How many jobs the pilot has; 0 for a batch without one."""
    ended: int
    completed: int
    failed: int
    held: int
    """Jobs that wait until they are released."""
    released: bool
    spent: Decimal
    unpriced: int
    """Calls of the pilot at an unknown cost; then no cost is projected."""
    cost: Range | None
    """US dollars."""
    work_seconds: Range | None
    """Seconds of work, of all jobs together."""
    elapsed_seconds: Range | None
    """Seconds on the clock, with as many jobs at the same time as in the pilot."""
    failure_rate: Range | None
    """A part of 1."""
    confidence: float = CONFIDENCE
    method: str = "bootstrap of the means, 2,000 resamples; Wilson for the failures"

    @property
    def over(self) -> bool:
        """Whether every job of the pilot has ended."""
        return self.jobs > 0 and self.ended == self.jobs


def pilot_of(batch: Batch, tried: Sequence[Tried]) -> Pilot:
    """What *tried* says of *batch*."""
    total = batch.total or 0
    ended = [each for each in tried if JobState(each.state).ended and each.state != JobState.CANCELLED]
    failed = sum(each.state == JobState.FAILED for each in ended)
    enough = len(ended) >= LEAST
    unpriced = sum(each.unpriced for each in tried)
    seconds = [each.seconds for each in ended]
    work = _projected([*seconds], total, batch.id) if enough else None
    at_once = _at_once(ended)
    return Pilot(
        batch=batch,
        jobs=len(tried),
        ended=sum(JobState(each.state).ended for each in tried),
        completed=len(ended) - failed,
        failed=failed,
        held=total - len(tried) if batch.held_at is not None else 0,
        released=bool(tried) and batch.held_at is None,
        spent=sum((each.cost for each in tried), Decimal(0)),
        unpriced=unpriced,
        cost=_projected([float(each.cost) for each in ended], total, batch.id) if enough and not unpriced else None,
        work_seconds=work,
        elapsed_seconds=None if work is None or at_once is None else _each(work, lambda value: value / at_once),
        failure_rate=_wilson(failed, len(ended)) if enough else None,
    )


def _at_once(ended: Sequence[Tried]) -> float | None:
    """How many jobs of the pilot ran at the same time, on average; at least one."""
    began = [each.began_at for each in ended if each.began_at is not None]
    over = [each.ended_at for each in ended if each.ended_at is not None]
    if not began or not over:
        return None
    elapsed = (max(over) - min(began)).total_seconds()
    return max(1.0, sum(each.seconds for each in ended) / elapsed) if elapsed > 0 else None


def _projected(values: Sequence[float], total: int, seed: int) -> Range:
    """The sum of *total* jobs, of which these are a sample."""
    chance = random.Random(seed)  # noqa: S311 - not a secret, and the same each time
    means = sorted(math.fsum(chance.choices(values, k=len(values))) / len(values) for _ in range(_RESAMPLES))
    tail = round(_RESAMPLES * (1 - CONFIDENCE) / 2)
    likely = math.fsum(values) / len(values)
    return _each(Range(likely, means[tail], means[-tail - 1]), lambda value: value * total)


def _wilson(failed: int, ended: int) -> Range:
    share, square = failed / ended, _Z * _Z
    middle = (share + square / (2 * ended)) / (1 + square / ended)
    spread = _Z / (1 + square / ended) * math.sqrt(share * (1 - share) / ended + square / (4 * ended * ended))
    return Range(share, max(0.0, middle - spread), min(1.0, middle + spread))


def _each(range: Range, change: Callable[[float], float]) -> Range:
    return Range(change(range.likely), change(range.low), change(range.high))

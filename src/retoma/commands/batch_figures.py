"""Commands that only look: what pages show of batches."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from retoma.commands import batches as batch_commands
from retoma.errors import ConfigurationError, NotFound
from retoma.model import validation
from retoma.model.batch import Operation, Progress
from retoma.model.batch_figures import Bucket, Member
from retoma.model.ids import BatchId, JobId
from retoma.model.job import JobState
from retoma.store import batch_figures, operations
from retoma.store.batch_figures import MemberFilter
from retoma.store.query import Command

MOST_BUCKETS = 200
_FINGERPRINT = re.compile(r"[0-9a-f]{12}")


def standings(ids: Collection[BatchId]) -> Command[dict[BatchId, Progress]]:
    """The progress of many batches at once; missing batches are left out."""
    rows: list[Progress] = (yield batch_figures.standings(ids)) if ids else []
    return {each.id: each for each in rows}


def mosaic(id: BatchId) -> Command[str]:
    batch_commands.check_id(id)
    letters: str = (yield batch_figures.mosaic(id))[0]
    yield from batch_commands.there(id, letters)
    return letters


def placed(id: BatchId, place: int) -> Command[JobId]:
    """The job at a *place* of the mosaic; the first is 0."""
    validation.whole("place", place, 0, 2**31 - 1)
    batch_commands.check_id(id)
    rows: list[JobId] = yield batch_figures.placed(id, place)
    yield from batch_commands.there(id, rows)
    if not rows:
        raise NotFound(f"Batch {id} has no job at place {place}.")
    return rows[0]


def series(id: BatchId, *, buckets: int) -> Command[list[Bucket]]:
    validation.whole("buckets", buckets, 1, MOST_BUCKETS)
    batch_commands.check_id(id)
    rows: list[Bucket] = yield batch_figures.series(id, buckets=buckets)
    yield from batch_commands.there(id, rows)
    return rows


def members(
    id: BatchId,
    *,
    states: Sequence[str] | None,
    fingerprint: str | None,
    text: str | None,
    saved: bool | None,
    after: int,
    limit: int,
) -> Command[list[Member]]:
    for state in states or ():
        if state not in set(JobState):
            raise ConfigurationError(f"There is no state {state!r}.", next=f"States are {', '.join(JobState)}.")
    if fingerprint is not None and not _FINGERPRINT.fullmatch(fingerprint):
        raise ConfigurationError(f"An error group has 12 hexadecimal digits, not {fingerprint[:80]!r}.")
    validation.page("jobs", limit)
    wanted = MemberFilter(
        # A fingerprint is that of a failure.
        states=["failed"] if fingerprint else list(states or map(str, JobState)),
        fingerprint=fingerprint,
        text=text or None,
        saved=saved,
        after=max(0, min(after, validation.LARGEST_ID)),
        limit=limit,
    )
    batch_commands.check_id(id)
    rows: list[Member] = yield batch_figures.members(id, wanted)
    yield from batch_commands.there(id, rows)
    return rows


def operations_of(id: BatchId, *, limit: int) -> Command[list[Operation]]:
    """The commands that were or are being carried out on a batch in pieces, newest first."""
    batch_commands.check_id(id)
    rows: list[Operation] = yield operations.of(id, limit=limit)
    yield from batch_commands.there(id, rows)
    return rows

"""What a worker writes: checkpoints and endings, in group commits, each guarded by its fence."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Iterable, Sequence
from typing import Any

import psycopg
from psycopg_pool import PoolClosed

from retoma.errors import DatabaseUnreachable, LeaseLost, Unstorable
from retoma.model.job import AttemptEnding, Claim, Ended, NewCheckpoint, Saved
from retoma.model.result import StoredResult
from retoma.postgres.batch_notify import BatchHints
from retoma.postgres.database import Database, SyncDatabase, fetch, fetch_sync
from retoma.postgres.faults import is_lost
from retoma.postgres.group_commit import GroupCommit
from retoma.run.steps import AsyncConnection, SyncConnection
from retoma.store import batches, checkpoints, jobs
from retoma.system.concurrency import Few, finish_before_cancel
from retoma.values.text import storable

_Saving = tuple[NewCheckpoint, asyncio.Future[None]]
_GROUP_BYTES = 8_000_000
# Where transactions are short, a handful of connections serves many handlers that come at once, and a new one takes
# longer than they wait. Where they are long, each handler gets its own after a moment.
_FEW, _PATIENCE = 4, 0.05
_BARE = "The output could not be stored, and neither could the reason."


class Journal:
    """Stores the checkpoints of runs and the endings of jobs. *ended* is called with each group of endings that is
    written and the new state of each job, or None when this worker no longer held it; *lost* is called as soon as a
    save is refused. *transactions* is the pool for the user's own statements, without the planner settings of the
    engine's connections.
    """

    def __init__(
        self,
        database: Database,
        worker_id: int,
        *,
        transactions: Database | None = None,
        ended: Callable[[Sequence[tuple[Ended, str | None]]], None],
        lost: Callable[[int, int], None],
        group_bytes: int = _GROUP_BYTES,
    ) -> None:
        self._database = database
        self._transactions = transactions or database
        self._few = Few(_FEW, patience=_PATIENCE)
        self._sync: SyncDatabase | None = None
        self._opening = threading.Lock()
        self._worker_id = worker_id
        self._tell = ended
        self._tell_lost = lost
        self._saves: GroupCommit[_Saving] = GroupCommit(
            self._write_saves,
            most=200,
            most_bytes=group_bytes,
            size=lambda each: len(each[0].value),
            refuse=self._refuse_save,
            doing="saving steps",
            outages=database.outages,
        )
        self._endings: GroupCommit[Ended] = GroupCommit(
            self._write_endings,
            most=500,
            most_bytes=group_bytes,
            size=lambda each: len(each.output or "") + len(each.error or ""),
            refuse=self._refuse_ending,
            doing="writing endings",
            outages=database.outages,
        )
        self._hints = BatchHints(lambda: database)

    @property
    def backlog(self) -> int:
        """The number of endings that are not written yet."""
        return len(self._endings)

    def unwritten(self) -> Iterable[Ended]:
        """The endings that the database has not confirmed yet."""
        return iter(self._endings)

    def end(self, ended: Ended) -> None:
        """Queue an ending for the next group commit."""
        self._endings.put(ended)

    async def settled(self) -> None:
        """Wait until everything queued is written."""
        await self._saves.idle()
        await self._endings.idle()
        await self._hints.flush()

    # — checkpoints of runs —

    async def recall(self, claim: Claim) -> Sequence[Saved]:
        return await self._database.persist(checkpoints.of(claim.id), doing="reading steps")

    async def read(self, claim: Claim, saved: Saved) -> str | None:
        query = checkpoints.value(claim.id, saved.step, saved.generation)
        rows = await self._database.persist(query, doing="reading steps")
        return rows[0] if rows else None

    async def save(self, checkpoint: NewCheckpoint) -> None:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._saves.put((checkpoint, written))
        # The value may be paid for, so the save finishes even when the awaiting task is cancelled.
        await finish_before_cancel(written)

    async def set_aside(self, claim: Claim, saved: Saved, reason: str) -> None:
        query = checkpoints.set_aside(
            claim.id, step=saved.step, generation=saved.generation, reason=reason, fence=claim.fence
        )
        await self._database.persist(query)

    async def hear(self, claim: Claim, name: str) -> tuple[str | None, int]:
        job = await self._database.persist(jobs.heard(claim.id, name))
        # Signals are counted on the job's row, so a signal that arrives after this read is noticed when
        # the wait is written.
        return (job[0], 0) if job else (None, claim.signals)

    async def results(
        self, claim: Claim, states: Sequence[str], steps: Sequence[str], *, after: int, limit: int
    ) -> Sequence[StoredResult]:
        assert claim.batch_id is not None
        query = batches.results(claim.batch_id, states=states, after=after, limit=limit, steps=steps)
        return await self._database.persist(query, doing="reading results")

    async def transact(
        self, checkpoint: Callable[[Any], NewCheckpoint], function: Callable[[AsyncConnection], Awaitable[Any]]
    ) -> None:
        made: list[NewCheckpoint] = []
        try:
            async with self._few.inside(), self._transactions.transaction() as connection:
                made.append(checkpoint(await function(connection)))
                if not await fetch(connection, checkpoints.save(self._worker_id, made)):
                    self._tell_lost(made[0].job_id, made[0].fence)
                    raise lease_lost(made[0])
        except psycopg.Error as error:
            await self._committed(made, error)

    async def transact_sync(
        self, checkpoint: Callable[[Any], NewCheckpoint], function: Callable[[SyncConnection], Any]
    ) -> None:
        database = self._sync if self._sync is not None else await asyncio.to_thread(self._open_sync)
        loop = asyncio.get_running_loop()

        made: list[NewCheckpoint] = []

        def whole() -> None:
            with database.connection() as connection, connection.transaction():
                made.append(checkpoint(function(connection)))
                if not fetch_sync(connection, checkpoints.save(self._worker_id, made)):
                    loop.call_soon_threadsafe(self._tell_lost, made[0].job_id, made[0].fence)
                    raise lease_lost(made[0])

        try:
            await finish_before_cancel(asyncio.ensure_future(asyncio.to_thread(whole)))
        except psycopg.Error as error:
            await self._committed(made, error)

    async def _committed(self, made: Sequence[NewCheckpoint], error: psycopg.Error) -> None:
        """Handle an error during a transaction: return when the transaction has committed nevertheless, raise
        otherwise. An error that the user's function raised before the commit is raised as it is.
        """
        if not made or not is_lost(error):
            raise error
        if not await self._database.persist(checkpoints.saved(made), doing="looking for a commit"):
            raise DatabaseUnreachable(
                "The connection to the database was lost in the middle of a transaction; nothing of it was kept.",
                next="The job is tried again by itself.",
            ) from error

    def _open_sync(self) -> SyncDatabase:
        """The connections for synchronous handlers, opened in a thread when the first of them needs one. A failed
        opening is not kept: the next call tries again.
        """
        with self._opening:
            if self._sync is not None:
                return self._sync
            opened = SyncDatabase(self._database.url, self._database.settings)
            opened.open()
            self._sync = opened
            return opened

    def close(self) -> None:
        """Close the connections of synchronous handlers, and stop sending hints."""
        self._hints.close()
        if self._sync is not None:
            self._sync.close()

    # — statements —

    async def _write_saves(self, group: list[_Saving]) -> list[_Saving]:
        """Write a group of checkpoints and return those that must wait for the next statement: a job that was lost and
        claimed again can save the same step twice.
        """
        waiting: dict[tuple[int, str], _Saving] = {}
        later = [each for each in group if waiting.setdefault((each[0].job_id, each[0].step), each) is not each]
        order = sorted(waiting)
        found = set(await self._database.all(checkpoints.save(self._worker_id, [waiting[each][0] for each in order])))
        if doubtful := [waiting[each][0] for each in order if each not in found]:
            # An earlier attempt may have written them although its acknowledgement was lost.
            found.update(await self._database.all(checkpoints.saved(doubtful)))
        for each in order:
            new, written = waiting[each]
            if each in found:
                _resolve(written)
            else:
                self._tell_lost(new.job_id, new.fence)
                _resolve(written, lease_lost(new))
        return later

    def _refuse_save(self, each: _Saving, error: Exception) -> None:
        new, written = each
        _resolve(written, error if isinstance(error, PoolClosed) else _refused(new, error))

    async def _write_endings(self, group: list[Ended]) -> list[Ended]:
        waiting: dict[int, Ended] = {}
        later = [each for each in group if waiting.setdefault(each.id, each) is not each]
        order = [waiting[id] for id in sorted(waiting)]
        # Updating batch and lane is a third of the statement's cost even when there is neither, so jobs without a lane
        # use a shorter statement.
        end = jobs.end if any(each.claim.lane_id for each in order) else jobs.end_alone
        states = dict(await self._database.all(end(self._worker_id, order)))
        if doubtful := [each for each in order if each.id not in states]:
            states.update(await self._database.all(jobs.ended(doubtful)))
        if changed := {each.claim.batch_id for each in order if each.id in states} - {None}:
            self._hints.put(id for id in changed if id is not None)
        self._tell([(each, states.get(each.id)) for each in order])
        return later

    def _refuse_ending(self, each: Ended, error: Exception) -> Ended | None:
        """A replacement for an ending that cannot be stored; None when no replacement is left."""
        if isinstance(error, PoolClosed):
            return None
        if each.reason == "unstorable":
            return Ended(each.claim, AttemptEnding.FAILED, reason="unstorable", error=_BARE, seconds=each.seconds)
        text = f"The output could not be stored: {type(error).__name__}: {error}"
        text = storable(text[:2000])
        return Ended(
            each.claim, AttemptEnding.FAILED, reason="unstorable", error=text, step=each.step, seconds=each.seconds
        )


def lease_lost(checkpoint: NewCheckpoint) -> LeaseLost:
    """The error for a job that another worker holds now."""
    return LeaseLost(
        f"Job {checkpoint.job_id} was given to another worker while step {checkpoint.step!r} ran; "
        "its result was dropped.",
        next="If this happens often, raise RETOMA_LEASE_SECONDS or look at why the heartbeats were late.",
    )


def _refused(new: NewCheckpoint, error: Exception) -> Unstorable:
    return Unstorable(
        f"Cannot save what step {new.step!r} of job {new.job_id} returned: the database refused it "
        f"({type(error).__name__}: {str(error).splitlines()[0][:200]}).",
        next="Return a value that JSON can hold.",
    )


def _resolve(future: asyncio.Future[None], error: Exception | None = None) -> None:
    if future.done():
        return
    if error is None:
        future.set_result(None)
    else:
        future.set_exception(error)

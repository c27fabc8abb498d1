"""What a worker writes: checkpoints and endings, in group commits, each held to its fence."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence, Sized
from typing import Any, TypeVar

import psycopg

from retoma.database import LOST, TRANSIENT, Database, SyncDatabase, fetch, fetch_sync, is_lost, jitter
from retoma.errors import DatabaseUnreachable, LeaseLost, Unstorable
from retoma.model import Claim, Ended, NewCheckpoint, Saved
from retoma.query import Query
from retoma.steps import AsyncConnection, SyncConnection
from retoma.store import checkpoints, jobs
from retoma.telemetry import emit
from retoma.telemetry.events import DatabaseLost
from retoma.writer import GroupCommit, see_through

T = TypeVar("T")

REFUSED = (psycopg.Error, ValueError, TypeError)
"""What says no to one of a batch: the database, or the driver that cannot put it into words."""
_Saving = tuple[NewCheckpoint, asyncio.Future[None]]


class Ledger:
    """The database as a run's memory, and as the place where endings go. *ended* hears what became of each job:
    its new state, or None when it was no longer ours; *lost* hears of a job as soon as a save was refused.
    *transactions* are for the user's own rows: the planner is not told there what to do.
    """

    def __init__(
        self,
        database: Database,
        worker_id: int,
        *,
        transactions: Database | None = None,
        ended: Callable[[Ended, str | None], None],
        lost: Callable[[int, int], None],
    ) -> None:
        self._database = database
        self._transactions = transactions or database
        self._sync: SyncDatabase | None = None
        self._worker_id = worker_id
        self._tell = ended
        self._tell_lost = lost
        self._saves: GroupCommit[_Saving] = GroupCommit(self._write_saves, most=200)
        self._endings: GroupCommit[Ended] = GroupCommit(self._write_endings, most=500)

    @property
    def backlog(self) -> int:
        """Endings that the database has not taken yet."""
        return len(self._endings)

    def end(self, ended: Ended) -> None:
        """Have an ending written down with the next statement."""
        self._endings.put(ended)

    async def settled(self) -> None:
        """Come back when everything has been written."""
        await self._saves.idle()
        await self._endings.idle()

    # — a run's memory —

    async def recall(self, claim: Claim) -> Sequence[Saved]:
        return await self._database.persist(checkpoints.of(claim.id))

    async def save(self, checkpoint: NewCheckpoint) -> None:
        written: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._saves.put((checkpoint, written))
        # What is paid for is written down, even when the one who waits is told to stop meanwhile.
        await see_through(written)

    async def set_aside(self, claim: Claim, saved: Saved, reason: str) -> None:
        query = checkpoints.set_aside(
            claim.id, step=saved.step, generation=saved.generation, reason=reason, fence=claim.fence
        )
        await self._database.persist(query)

    async def hear(self, claim: Claim, name: str) -> tuple[str | None, int]:
        job = await self._database.persist(jobs.heard(claim.id, name))
        # Signals are counted on the job's row: one that comes after this look is seen when the wait is written.
        return (job[0], 0) if job else (None, claim.signals)

    async def transact(
        self, checkpoint: Callable[[Any], NewCheckpoint], function: Callable[[AsyncConnection], Awaitable[Any]]
    ) -> None:
        made: list[NewCheckpoint] = []
        try:
            async with self._transactions.transaction() as connection:
                made.append(checkpoint(await function(connection)))
                if not await fetch(connection, checkpoints.save(self._worker_id, made)):
                    self._tell_lost(made[0].job_id, made[0].fence)
                    raise lease_lost(made[0])
        except LOST as error:
            await self._committed(made, error)

    async def transact_sync(
        self, checkpoint: Callable[[Any], NewCheckpoint], function: Callable[[SyncConnection], Any]
    ) -> None:
        database = self._blocking()
        loop = asyncio.get_running_loop()

        made: list[NewCheckpoint] = []

        def whole() -> None:
            with database.connection() as connection, connection.transaction():
                made.append(checkpoint(function(connection)))
                if not fetch_sync(connection, checkpoints.save(self._worker_id, made)):
                    loop.call_soon_threadsafe(self._tell_lost, made[0].job_id, made[0].fence)
                    raise lease_lost(made[0])

        try:
            await see_through(asyncio.ensure_future(asyncio.to_thread(whole)))
        except LOST as error:
            await self._committed(made, error)

    async def _committed(self, made: Sequence[NewCheckpoint], error: Exception) -> None:
        """The connection went away during a transaction: come back when it had been committed all the same."""
        if not is_lost(error):
            raise error
        if not made or not await self._database.persist(checkpoints.saved(made)):
            raise DatabaseUnreachable(
                "The connection to the database was lost in the middle of a transaction; nothing of it was kept.",
                next="The job is tried again by itself.",
            ) from error

    def _blocking(self) -> SyncDatabase:
        if self._sync is None:
            self._sync = SyncDatabase(self._database.url, self._database.settings)
            self._sync.open()
        return self._sync

    def close(self) -> None:
        """Let go of the connections that handlers without async used."""
        if self._sync is not None:
            self._sync.close()

    # — the statements —

    async def _write_saves(self, batch: list[_Saving]) -> None:
        waiting: dict[tuple[int, str], _Saving] = {}
        # A job that was taken from us and given to us again may have two who save the same step: one after the other.
        later = [each for each in batch if waiting.setdefault((each[0].job_id, each[0].step), each) is not each]
        await self._write_these_saves(waiting)
        if later:
            await self._write_saves(later)

    async def _write_these_saves(self, waiting: dict[tuple[int, str], _Saving]) -> None:
        order = sorted(waiting)

        def news() -> list[NewCheckpoint]:
            return [waiting[each][0] for each in order if each in waiting]

        def done(found: Sequence[tuple[int, str]]) -> None:
            for each in found:
                _, written = waiting.pop(each)
                _resolve(written)

        try:
            await self._insist(
                "saving steps",
                lambda: checkpoints.save(self._worker_id, news()),
                done,
                lambda: checkpoints.saved(news()),
                waiting,
            )
        except REFUSED as error:
            if len(waiting) > 1:
                for each in list(waiting.values()):
                    await self._write_saves([each])
                return
            for new, written in waiting.values():
                _resolve(written, _refused(new, error))
            return
        for new, written in waiting.values():
            self._tell_lost(new.job_id, new.fence)
            _resolve(written, lease_lost(new))

    async def _write_endings(self, batch: list[Ended]) -> None:
        waiting: dict[int, Ended] = {}
        later = [each for each in batch if waiting.setdefault(each.id, each) is not each]
        await self._write_these_endings(dict(sorted(waiting.items())))
        if later:
            await self._write_endings(later)

    async def _write_these_endings(self, waiting: dict[int, Ended]) -> None:
        # What a batch must be told is a third of the statement's cost, also when there is no batch.
        end = jobs.end if any(each.claim.batch_id is not None for each in waiting.values()) else jobs.end_alone

        def done(found: Sequence[tuple[int, str]]) -> None:
            for id, state in found:
                self._tell(waiting.pop(id), state)

        try:
            await self._insist(
                "writing endings",
                lambda: end(self._worker_id, list(waiting.values())),
                done,
                lambda: jobs.ended(list(waiting.values())),
                waiting,
            )
        except REFUSED as error:
            if len(waiting) > 1:
                for each in list(waiting.values()):
                    await self._write_endings([each])
                return
            for each in waiting.values():
                if each.reason == "unstorable":
                    raise
                text = f"The output could not be stored: {type(error).__name__}: {error}"
                failed = Ended(each.claim, "failed", reason="unstorable", error=text[:2000].replace("\0", ""))
                await self._write_endings([failed])
            return
        for each in waiting.values():
            self._tell(each, None)

    async def _insist(
        self,
        doing: str,
        write: Callable[[], Query[T]],
        done: Callable[[Sequence[T]], None],
        doubt: Callable[[], Query[T]],
        left: Sized,
    ) -> None:
        """Write until the database has answered. What does not come back may have been written before, by a
        statement whose acknowledgement was lost: that is looked for before it is given up.
        """
        attempt = 0
        while True:
            try:
                done(await self._database.all(write()))
                if left:
                    done(await self._database.all(doubt()))
                return
            except (*TRANSIENT, DatabaseUnreachable) as error:
                attempt += 1
                emit(DatabaseLost(doing=doing, error=type(error).__name__))
                await asyncio.sleep(jitter(attempt, longest=2.0))


def lease_lost(checkpoint: NewCheckpoint) -> LeaseLost:
    """The news that somebody else has the job now."""
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

"""An executor: claims jobs, runs their handlers at once, writes how they ended."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from collections import deque
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from retoma.attempt import attempt
from retoma.board import Board, Totals
from retoma.claiming import Claiming
from retoma.configurations import Configurations
from retoma.database import Database
from retoma.desk import Desk
from retoma.held import Held
from retoma.ledger import Ledger
from retoma.model import Claim, Ended
from retoma.notify import listen
from retoma.pipeline import Pipeline
from retoma.settings import Settings
from retoma.telemetry import emit, heard
from retoma.telemetry.events import AttemptEnded, AttemptStarted, JobLost
from retoma.writer import called_off

_TICK = 0.1
_AHEAD = 0.05  # seconds of work to have at hand when jobs are short
_MOST_AHEAD = 4  # times at_once
_MOST_BACKLOG = 2000
_LONGEST_FETCHED = 1.0  # seconds without a beginning, after which what waits here goes back


class Executor:
    """Runs handlers for one worker row. Knows nothing of processes: a supervisor beats for it."""

    def __init__(
        self,
        *,
        database: Database,
        transactions: Database | None = None,
        settings: Settings,
        pipelines: Mapping[str, Pipeline[Any, Any]],
        providers: Mapping[str, Mapping[str, Any]],
        queues: Sequence[str],
        worker_id: int,
        board: Board,
        apart: bool = False,
    ) -> None:
        """*apart*: for the jobs that must run alone, one at a time, and only while there are any."""
        self.database = database
        self.settings = settings
        self.pipelines = pipelines
        self.providers = providers
        self.queues = list(queues)
        self.worker_id = worker_id
        self.board = board
        self.apart = apart
        self.at_once = board.places
        self.ledger = Ledger(database, worker_id, transactions=transactions, ended=self._ended, lost=self._lost)
        self.draining = False
        self.totals = Totals()
        self._ready: deque[Claim] = deque()
        self._running: dict[tuple[int, int], Held] = {}  # by job and fence: what was taken away may come again
        self._free = list(range(board.places))
        self._settling: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self._claiming = Claiming(database, settings, worker_id=worker_id, queues=queues, pipelines=list(pipelines))
        self._configurations = Configurations(database)
        self._desk = Desk(database, worker_id, tenant=settings.tenant)
        self._wake = asyncio.Event()
        self._full = False  # no more was claimed for want of a place
        self._rate = 0.0
        self._threads = self._pool(self.at_once, "handler")

    @property
    def memory(self) -> Ledger:
        """Where runs keep their checkpoints."""
        return self.ledger

    def _pool(self, most: int, name: str) -> ThreadPoolExecutor:
        return ThreadPoolExecutor(most, name, initializer=_give_way, initargs=(self.settings.worker_nice,))

    # — the loops —

    async def run(self) -> None:
        """Work until told to drain; come back when every job is finished or handed back."""
        loop = asyncio.get_running_loop()
        loop.set_default_executor(self._pool(max(32, 4 * self.at_once), "step"))
        self.totals.ready = True
        self.board.tell(self.totals)
        background = [
            loop.create_task(listen(self.database.url, self.settings, frozenset(self.queues), self.wake)),
            loop.create_task(self._tick()),
        ]
        try:
            await self._work()
        finally:
            await called_off(*background)
            self.board.tell(self.totals)
            self._threads.shutdown(wait=False, cancel_futures=True)
            self.ledger.close()

    async def drain(self) -> None:
        """Run what is ready until nothing is; for tests and one-off programs."""
        self.totals.ready = True
        while True:
            claims = await self._claiming.claim(self.at_once)
            if not claims and not self._running and not self._ready:
                claims = await self._claiming.claim(1, suspects=True)
            self._take(claims)
            if not claims and not self._running and not self._ready:
                await self._desk.settled()
                await self.ledger.settled()
                return
            while self._running:
                await asyncio.wait([held.handling for held in self._running.values() if held.handling], timeout=_TICK)
                self._start()
                self._overdue()
            await self.ledger.settled()

    def wake(self) -> None:
        """There may be something to do."""
        self._wake.set()

    def stop(self, *, now: bool = False) -> None:
        """Finish the step at hand and hand back; *now* does not wait for the step."""
        self.draining = self.totals.draining = True
        while self._ready:
            self._release(self._ready.popleft())
        if now:
            for held in list(self._running.values()):
                held.cut("released")
        self.wake()

    def settle(self) -> None:
        """End soon, for a handler does not let go of its job: begin nothing more, and say on
        the board when nothing that is paid for is on its way any more.
        """
        self.stop()
        self._settling = self._settling or asyncio.get_running_loop().create_task(self._settle())

    async def _settle(self) -> None:
        await self._desk.settled()
        await self.ledger.settled()
        self.totals.settled = True
        self.board.tell(self.totals)

    def call_off(self, id: int, fence: int, why: str) -> None:
        """Let go of a job: at once when it was cancelled or lost, after the step at hand when it is to rest. One that
        only waits here is not begun.
        """
        if held := self._running.get((id, fence)):
            held.let_go(why)
        for claim in [each for each in self._ready if (each.id, each.fence) == (id, fence)]:
            self._ready.remove(claim)
            if why == "cancelled":
                self.ledger.end(Ended(claim, "cancelled", reason="person"))
            elif why == "released":
                self._release(claim)

    def cut_off(self) -> bool:
        """Whether so long has passed since a heartbeat reached the database that our jobs may be another's."""
        beat = self.board.beat
        return beat > 0 and time.monotonic() - beat > self.settings.lease_seconds

    async def _work(self) -> None:
        idle = 0
        while not self.draining:
            room = self._room()
            self._full = room <= 0
            if self._full:
                await self._rest(_TICK)
                continue
            claims = await self._claiming.claim(room, suspects=self.apart)
            if self.apart and not claims and not self._running:
                self.stop()
            if self.draining:
                for claim in claims:
                    self._release(claim)
                break
            self._take(claims)
            idle = 0 if claims else idle + 1
            if claims:
                await asyncio.sleep(0)  # what was taken begins before more is asked for
            else:
                # A little chance, so that a fleet does not look all at the same moment.
                await self._rest(self.settings.poll_seconds * (0.8 + 0.4 * (hash((self.worker_id, idle)) % 100) / 100))
        while self._running:
            await self._rest(_TICK)
        # Answers that are still on their way to handlers that were stopped: they are paid for.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.drain_seconds):
                await self._desk.settled()
        await self.ledger.settled()

    async def _rest(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._wake.wait()
        self._wake.clear()

    async def _tick(self) -> None:
        before, at = 0, time.monotonic()
        while True:
            await asyncio.sleep(_TICK)
            self._overdue()
            self._start()
            now = self.totals.ticked = time.monotonic()
            self._hand_back(now)
            ended = self.totals.completed + self.totals.failed + self.totals.retried
            self._rate = 0.7 * self._rate + 0.3 * (ended - before) / max(now - at, 0.001)
            before, at = ended, now
            self.board.tell(self.totals)

    def _overdue(self) -> None:
        now = time.monotonic()
        for held in list(self._running.values()):
            if now > held.deadline:
                held.cut("timeout")

    def _hand_back(self, now: float) -> None:
        """What was fetched ahead and cannot begin, because what runs takes longer than it did, is another's to have."""
        if now - self._began_at < _LONGEST_FETCHED or self.cut_off():
            return
        while self._ready:
            self._release(self._ready.popleft(), reason="fetched too early")

    # — taking jobs —

    def _room(self) -> int:
        """How many to claim now. Short jobs are fetched ahead, in larger bites; long ones only when a place is
        free, so that another worker may have them.
        """
        if self.ledger.backlog > _MOST_BACKLOG or self.cut_off():
            return 0
        ahead = min(int(self._rate * _AHEAD), _MOST_AHEAD * self.at_once)
        at_hand = len(self._ready) + len(self._running)
        room = self.at_once + ahead - at_hand
        return room if ahead == 0 or at_hand <= (self.at_once + ahead) // 2 else 0

    def _take(self, claims: Sequence[Claim]) -> None:
        """Have them ready. They begin in the order in which they were given: recovery counts on it."""
        self.totals.claimed += len(claims)
        self._ready.extend(claims)
        self._start()

    # — running them —

    def _start(self) -> None:
        while self._ready and self._free and not self.cut_off():
            claim = self._ready.popleft()
            self._began_at = time.monotonic()
            held = Held(self, claim, self.pipelines[claim.pipeline], self._free.pop())
            self.board.begin(held.place, claim.id, claim.fence, self._began_at, held.deadline, held.again)
            self._running[claim.id, claim.fence] = held
            held.handling = asyncio.get_running_loop().create_task(self._run(held))

    async def _handle(self, held: Held) -> Ended:
        if held.why is not None:  # it was stopped between the claim and the handler's first line
            return held.ending()
        if held.claim.batch_id is not None:
            held.steps.configuration = await self._configurations.of(held.claim)
        held.steps.desk = self._desk
        providers = self.providers.get(held.claim.pipeline, {})
        return await attempt(held.claim, held.pipeline, held.steps, providers, self._threads)

    async def _run(self, held: Held) -> None:
        claim = held.claim
        if heard():
            emit(AttemptStarted(**_who(held.worker_id, claim)))
        held.begun = True
        try:
            ended = await self._handle(held)
        except asyncio.CancelledError:
            ended = held.ending()
        finally:
            self.board.clear(held.place)
            self._free.append(held.place)
            del self._running[claim.id, claim.fence]
        if held.why == "lost":
            emit(JobLost(**_who(self.worker_id, claim)))
        else:
            self.ledger.end(ended)
        self._start()
        if not self._ready and (self._full or self.draining):
            self._wake.set()

    def _release(self, claim: Claim, *, reason: str = "draining") -> None:
        self.ledger.end(Ended(claim, "released", reason=reason))

    def _lost(self, job: int, fence: int) -> None:
        # Cancelled rather than only told: a handler that catches every Exception must not go on paying.
        if held := self._running.get((job, fence)):
            held.cut("lost")

    def _ended(self, ended: Ended, state: str | None) -> None:
        if state == "completed" or state == "skipped" or state == "review":  # noqa: PLR1714 - the hot path
            self.totals.completed += 1
            self.totals.busy += ended.seconds
        elif state == "failed":
            self.totals.failed += 1
        elif state == "queued" and ended.ending == "failed":
            self.totals.retried += 1
        if self._claiming.hungry and (ended.claim.lane_id or state == "queued"):
            self.wake()  # its place in a full lane is free now, or it may come again at once
        if state is None:
            emit(JobLost(**_who(self.worker_id, ended.claim)))
        elif heard():
            emit(
                AttemptEnded(
                    **_who(self.worker_id, ended.claim),
                    state=state,
                    ending=ended.ending,
                    duration_ms=ended.seconds * 1000,
                    reason=ended.reason,
                    error=(ended.error or "").partition("\n")[0] or None,
                )
            )


def _who(worker_id: int, claim: Claim) -> dict[str, Any]:
    return {
        "worker": worker_id,
        "job": claim.id,
        "pipeline": claim.pipeline,
        "attempt": claim.attempt,
        "correlation": claim.correlation_id,
    }


def _give_way(nice: int) -> None:
    """Let those come first who wait for an answer here; our loop, which claims and writes, is one of them."""
    if sys.platform == "linux":  # where a thread has a niceness of its own
        os.nice(nice)

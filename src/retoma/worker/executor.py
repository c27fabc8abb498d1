"""An executor: claims jobs, runs their handlers concurrently, and writes their endings."""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import time
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from retoma.calls.caller import Caller
from retoma.model.job import AttemptEnding, Claim, Ended
from retoma.postgres.database import Database
from retoma.postgres.notify import listening
from retoma.run.pipeline import Pipeline
from retoma.system.concurrency import cancel_and_wait, wait_for_leader
from retoma.system.marks import MARK, Marked
from retoma.system.settings import Settings
from retoma.system.threads import pool
from retoma.telemetry import emit, emit_all, heard
from retoma.telemetry.context import JOB, who
from retoma.telemetry.events import AttemptEnded, AttemptStarted, JobForgotten, JobLost, JobsClaimed
from retoma.worker.attempt import attempt, cancelled_by_itself, ending_of
from retoma.worker.batch_configs import Configurations
from retoma.worker.claimer import Claimer
from retoma.worker.journal import Journal
from retoma.worker.reconciliation import reconcile
from retoma.worker.running_job import RunningJob, SentAway
from retoma.worker.status_board import StatusBoard, Totals, step_threads

_TICK = 0.1
_AHEAD = 0.05  # seconds of work to prefetch when jobs are short
_MOST_AHEAD = 4  # times at_once, at most
_MOST_BACKLOG = 2000
_LONGEST_FETCHED = 1.0  # seconds without a started job after which prefetched jobs are released


class Executor:
    """Runs handlers for one worker row. It manages no processes: the supervisor sends its heartbeats."""

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
        board: StatusBoard,
        apart: bool = False,
        hint: int | None = None,
    ) -> None:
        """*apart*: run only jobs that must run alone, one at a time, and stop when none is left. *hint*: the key of the
        advisory lock that this worker's connections hold.
        """
        self.database = database
        self.settings = settings
        self.pipelines = pipelines
        self.providers = providers
        self.queues = list(queues)
        self.worker_id = worker_id
        self.board = board
        self.apart = apart
        self.at_once = board.places
        self.journal = Journal(database, worker_id, transactions=transactions, ended=self._ended, lost=self._lost)
        self.draining = False
        self.totals = Totals()
        self._sent_away = SentAway()
        self._context = contextvars.copy_context()
        self._ready: deque[Claim] = deque()
        self._running: dict[tuple[int, int], RunningJob] = {}  # by job and fence: a lost job can come again
        self._free = list(range(board.places))
        self._settling: asyncio.Task[None] | None = None
        self._began_at = 0.0
        self._hint = hint
        self._claimer = Claimer(database, settings, worker_id=worker_id, queues=queues, pipelines=list(pipelines))
        self._configurations = Configurations(database)
        self.caller = Caller(database, worker_id, tenant=settings.reuse_within, unknown_price=settings.unknown_price)
        self._wake = asyncio.Event()
        self._full = False  # whether the last claim was skipped because no place was free
        self._rate = 0.0
        self._threads = pool(self.at_once, "handler", nice=settings.worker_nice)

    # — loops —

    async def run(self) -> None:
        """Work until told to drain, and return when every job is finished or released. When this raises, running
        handlers are no longer supervised: exit the process.
        """
        loop = asyncio.get_running_loop()
        loop.set_default_executor(pool(step_threads(self.at_once), "step", nice=self.settings.worker_nice))
        self.totals.ready = True
        self.board.tell(self.totals)
        # One connection both claims and listens, so an idle executor needs no other.
        line = listening(self.database.url, self.settings, frozenset(self.queues), self.wake, hint=self._hint)
        self._claimer.line = line
        reconciling = reconcile(self._claimer, self._known, self._give_back)
        background = [loop.create_task(each) for each in (line.keep(), self._tick(), reconciling)]
        working = loop.create_task(self._work())
        try:
            await wait_for_leader(working, *background)
        except BaseException:
            for running in self._running.values():
                self.board.clear(running.place)  # no handler caused this: without a note no job is blamed
            for each in (working, *background):
                each.cancel()
            ended = asyncio.gather(working, *background, return_exceptions=True)
            ended.add_done_callback(lambda _: line.drop())
            raise
        await cancel_and_wait(*background)
        await line.close()
        self.board.tell(self.totals)
        self._threads.shutdown(wait=False, cancel_futures=True)
        self.journal.close()

    def _known(self) -> set[tuple[int, int]]:
        """Job and fence of every job that this executor holds: prefetched, running, or with an
        ending not yet written.
        """
        claims = (*self._ready, *(each.claim for each in self.journal.unwritten()))
        return {*self._running, *((claim.id, claim.fence) for claim in claims)}

    def _give_back(self, claim: Claim) -> None:
        emit(JobForgotten(**who(self.worker_id, claim)))
        self._release(claim, reason="forgotten")

    async def drain(self) -> None:
        """Run jobs until none is ready; for tests and one-off programs."""
        self.totals.ready = True
        while True:
            claims = await self._claimer.claim(self.at_once)
            if not claims and not self._running and not self._ready:
                claims = await self._claimer.claim(1, suspects=True)
            self._take(claims)
            if not claims and not self._running and not self._ready:
                await self.caller.settled()
                await self.journal.settled()
                return
            while self._running:
                await asyncio.wait(
                    [running.handling for running in self._running.values() if running.handling], timeout=_TICK
                )
                self._start()
                self._overdue()
            await self.journal.settled()

    def wake(self) -> None:
        """Interrupt the current wait: there may be a job to claim."""
        self._wake.set()

    def stop(self, *, now: bool = False) -> None:
        """Drain: let running steps finish, then release the jobs. With *now*, cancel running steps too."""
        self.draining = self.totals.draining = True
        while self._ready:
            self._release(self._ready.popleft())
        if now:
            for running in list(self._running.values()):
                running.cut(AttemptEnding.RELEASED)
        self.wake()

    def settle(self) -> None:
        """Prepare for a kill, because a handler ignores its cancellation: start nothing more, and set *settled* on the
        board once every paid answer in flight is written.
        """
        self.stop()
        self._settling = self._settling or asyncio.get_running_loop().create_task(self._settle())

    async def _settle(self) -> None:
        await self.caller.settled()
        await self.journal.settled()
        self.totals.settled = True
        self.board.tell(self.totals)

    def call_off(self, id: int, fence: int, why: AttemptEnding) -> None:
        """Stop holding a job: at once when it was cancelled or lost, after the current step when its batch is paused
        or failed. A prefetched job is not started.
        """
        if running := self._running.get((id, fence)):
            running.let_go(why)
        for claim in [each for each in self._ready if (each.id, each.fence) == (id, fence)]:
            self._ready.remove(claim)
            if why is AttemptEnding.CANCELLED:
                self.journal.end(Ended(claim, AttemptEnding.CANCELLED, reason="person"))
            elif why is AttemptEnding.RELEASED:
                self._release(claim)

    def cut_off(self) -> bool:
        """Whether no heartbeat has reached the database for a whole lease, so that other workers may hold our jobs."""
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
            claims = await self._claimer.claim(room, suspects=self.apart)
            if self.apart and not claims and not self._running:
                self.stop()
            if self.draining:
                for claim in claims:
                    self._release(claim)
                break
            self._take(claims)
            idle = 0 if claims else idle + 1
            if claims:
                await asyncio.sleep(0)  # let the claimed jobs start before the next claim
            else:
                # Jitter, so that the workers of a fleet do not poll at the same moment.
                await self._rest(self.settings.poll_seconds * (0.8 + 0.4 * (hash((self.worker_id, idle)) % 100) / 100))
        while self._running:
            await self._rest(_TICK)
        # Wait for answers still in flight for stopped handlers: they are paid for.
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(self.settings.drain_seconds):
                await self.caller.settled()
        await self.journal.settled()

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
        for running in list(self._running.values()):
            if now > running.deadline:
                running.cut(AttemptEnding.TIMEOUT)

    def _hand_back(self, now: float) -> None:
        """Release prefetched jobs that cannot start because the running jobs take longer than expected, so that other
        workers can claim them.
        """
        if now - self._began_at < _LONGEST_FETCHED or self.cut_off():
            return
        while self._ready:
            self._release(self._ready.popleft(), reason="fetched too early")

    # — claiming jobs —

    def _room(self) -> int:
        """How many jobs to claim now. Short jobs are prefetched in larger groups. Long jobs are claimed only when a
        place is free, so that other workers can claim the rest.
        """
        if self.journal.backlog > _MOST_BACKLOG or self.cut_off():
            return 0
        ahead = min(int(self._rate * _AHEAD), _MOST_AHEAD * self.at_once)
        at_hand = len(self._ready) + len(self._running)
        room = self.at_once + ahead - at_hand
        return room if ahead == 0 or at_hand <= (self.at_once + ahead) // 2 else 0

    def _take(self, claims: Sequence[Claim]) -> None:
        """Put the claims into the ready queue. They start in the order of the claim, and
        recovery relies on that order.
        """
        self.totals.claimed += len(claims)
        if claims and heard(JobsClaimed):
            self._tell_claimed(claims)
        self._ready.extend(claims)
        self._start()

    def _tell_claimed(self, claims: Sequence[Claim]) -> None:
        # Times of one zone are quick to compare, but only where the clock is never changed.
        zone = None if claims[0].run_at is None else claims[0].run_at.tzinfo
        now = datetime.now(zone if str(zone) == "UTC" else UTC)
        by_queue: dict[str, list[float]] = {claim.queue: [] for claim in claims}
        for claim in claims:
            if claim.run_at is not None:
                by_queue[claim.queue].append((now - claim.run_at).total_seconds())
        jobs = Counter([claim.queue for claim in claims])
        for queue, waited in by_queue.items():
            least = tuple(waited) if min(waited, default=0.0) >= 0 else tuple(max(0.0, each) for each in waited)
            emit(JobsClaimed(worker=self.worker_id, queue=queue, jobs=jobs[queue], waited=least))

    # — running jobs —

    def _start(self) -> None:
        while self._ready and self._free and not self.cut_off():
            claim = self._ready.popleft()
            self._began_at = time.monotonic()
            running = RunningJob(self, claim, self.pipelines[claim.pipeline], self._free.pop())
            self.board.begin(running.place, claim.id, claim.fence, self._began_at, running.deadline, running.again)
            self._running[claim.id, claim.fence] = running
            marked = Marked(self._run(running), running.mark, self.board.marks)
            # The end of a job starts the next one, which must not inherit what the first has set.
            running.handling = asyncio.get_running_loop().create_task(marked, context=self._context.copy())

    async def _handle(self, running: RunningJob) -> Ended:
        if running.why is not None:  # stopped between the claim and the first line of the handler
            return running.ending()
        claim = running.claim
        configuration, run = ({}, None) if claim.batch_id is None else await self._configurations.of(claim)
        if heard(AttemptStarted):
            emit_all(AttemptStarted, ((running.worker_id, claim, run),))
        providers = self.providers.get(claim.pipeline, {})
        return await attempt(running.pipeline, running.steps, providers, self._threads, configuration=configuration)

    async def _run(self, running: RunningJob) -> None:
        claim = running.claim
        running.begun = True
        JOB.set((running.worker_id, claim, time.monotonic()))
        MARK.set(running.mark)
        try:
            ended = await self._handle(running)
        except asyncio.CancelledError as error:
            ended = running.ending()
            if running.why is None:
                ended = ending_of(claim, running.pipeline, cancelled_by_itself(error))
                ended.step = running.steps.last
        except BaseException as error:  # noqa: BLE001 - whatever it was, the job has an ending
            ended = ending_of(claim, running.pipeline, error)
        finally:
            running.mark.over(self.board.marks)
            self.board.clear(running.place)
            self._free.append(running.place)
            del self._running[claim.id, claim.fence]
        if running.why is AttemptEnding.LOST:
            emit(JobLost(**who(self.worker_id, claim), state="lost", duration_ms=running.seconds * 1000))
        else:
            self.journal.end(ended)
        self._start()
        if not self._ready and (self._full or self.draining):
            self._wake.set()

    def _release(self, claim: Claim, *, reason: str = "draining") -> None:
        self.journal.end(Ended(claim, AttemptEnding.RELEASED, reason=reason))

    def _lost(self, job: int, fence: int) -> None:
        # Cancel the task instead of raising in the step: a handler that catches every Exception must not
        # make more paid calls.
        if running := self._running.get((job, fence)):
            running.cut(AttemptEnding.LOST)

    def _ended(self, group: Sequence[tuple[Ended, str | None]]) -> None:
        for ended, state in group:
            self._count(ended, state)
        if heard(AttemptEnded):
            worker_id = self.worker_id
            told = [(worker_id, each, state) for each, state in group if state is not None]
            if self._sent_away or any(state == "queued" for _, state in group):
                told = [each for each in told if not self._sent_away.again(each[1], each[2])]
            emit_all(AttemptEnded, told)

    def _count(self, ended: Ended, state: str | None) -> None:
        if state == "completed" or state == "skipped" or state == "review":  # noqa: PLR1714 - the hot path
            self.totals.completed += 1
            self.totals.busy += ended.seconds
        elif state == "failed":
            self.totals.failed += 1
        elif state == "queued" and ended.ending == AttemptEnding.FAILED:
            self.totals.retried += 1
        if self._claimer.hungry and (ended.claim.lane_id or state == "queued"):
            self.wake()  # the job has freed a slot in a full lane, or is ready again
        if state is None:
            emit(JobLost(**who(self.worker_id, ended.claim), state="lost", duration_ms=ended.seconds * 1000))

"""A worker: a supervisor that runs no handler, and executors that do.

The supervisor beats for its executors, so that no handler can stop the heart; it holds every job to its time-out;
and when an executor dies it gives the jobs back at once, with the name of the one that was being worked on.
"""

from __future__ import annotations

import asyncio
import math
import os
import signal
import socket
import time
from collections.abc import Callable, Sequence
from importlib.metadata import version
from typing import Protocol, TypeVar

from retoma.chores import QUEUE, plant
from retoma.database import TRANSIENT, Database, jitter
from retoma.errors import ConfigurationError, DatabaseUnreachable
from retoma.find import reference_to
from retoma.front import Front
from retoma.join import run_on
from retoma.model import Metrics
from retoma.process import Counted, Process
from retoma.query import Query
from retoma.store import jobs, workers
from retoma.telemetry import emit
from retoma.telemetry.events import (
    DatabaseLost,
    ExecutorCrashed,
    ExecutorKilled,
    ExecutorStarted,
    ExecutorStopped,
)
from retoma.watchdog import Watchdog, tell
from retoma.writer import called_off

T = TypeVar("T")

_LOOK = 0.25
_MEND_SECONDS = 60.0
_LONGEST_PAUSE = 30.0


class House(Protocol):
    """What a supervisor needs of the app it works for."""

    @property
    def database(self) -> Database: ...

    async def open(self) -> object: ...

    async def close(self) -> None: ...

    async def metrics(self, label: str) -> Metrics: ...


class Worker:
    """Executors of one app on this machine, and the one who looks after them."""

    def __init__(
        self,
        app: House,
        front: Front,
        *,
        processes: int | None = None,
        at_once: int | None = None,
        queues: Sequence[str] | None = None,
        label: str | None = None,
        reference: str | None = None,
    ) -> None:
        settings = front.settings
        self._app = app
        self._front = front
        self._settings = settings
        self._processes = processes or settings.worker_processes
        self._at_once = at_once or settings.worker_at_once
        self._queues = sorted({*(queues or front.queues), QUEUE})
        self._pipelines = sorted(front.pipelines)
        self._label = label or settings.worker_label
        self._reference = reference or reference_to(app)
        if not front.own:
            raise ConfigurationError("This app has no pipelines to work on.", next="Pass pipelines=[…] to Retoma.")
        self._children: dict[int, Process] = {}
        self._stopping = 0
        self._asked = asyncio.Event()
        self._no_longer_than = math.inf
        self._watchdog = Watchdog(lambda: app.database, lease=settings.lease_seconds, recovered=self._count_recovered)
        self._untold = Counted()
        self._said_stopping: set[int] = set()

    async def run(self) -> None:
        """Work until stopped. The first SIGTERM or Ctrl-C drains, a second one hands everything back now."""
        await self._app.open()
        restore = self._hear_signals()
        try:
            async with self._app.database.connection() as connection:
                await run_on(connection, plant(self._settings.zone, self._front.pipelines.values()))
            await self._supervise()
        finally:
            restore()
            await self._app.close()

    def stop(self, *, now: bool = False) -> None:
        """Finish the steps at hand and hand back; *now* does not wait for the steps."""
        self._stopping = max(self._stopping, 2 if now else 1)
        drain = 0.0 if now else self._settings.drain_seconds
        self._no_longer_than = min(self._no_longer_than, time.monotonic() + drain + self._settings.grace_seconds + 5)
        for child in self._children.values():
            child.tell({"stop": now})
        self._asked.set()

    async def metrics(self) -> Metrics:
        """The seven figures of this worker, up to this moment."""
        await self._beat()
        return await self._app.metrics(self._label)

    @property
    def executors(self) -> list[int]:
        """The process ids of the executors."""
        return [child.pid for child in self._children.values()]

    # — the loops —

    async def _supervise(self) -> None:
        settings, watchdog = self._settings, self._watchdog
        duties = (
            (settings.heartbeat_seconds, self._beat),
            (settings.sweep_seconds, watchdog.sweep),
            (1.0, watchdog.fire),
            (_MEND_SECONDS, watchdog.mend),
            (settings.watchdog_seconds, watchdog.look_after),
            (_LOOK, self._look),
        )
        loops = [asyncio.create_task(watchdog.every(seconds, duty)) for seconds, duty in duties]
        places = [asyncio.create_task(self._keep_one()) for _ in range(self._processes)]
        places.append(asyncio.create_task(self._keep_apart()))
        try:
            await asyncio.gather(*places)
        finally:
            await called_off(*loops, *places)

    def _hear_signals(self) -> Callable[[], None]:
        loop = asyncio.get_running_loop()

        def heard() -> None:
            self.stop(now=self._stopping >= 1)

        try:
            for each in (signal.SIGTERM, signal.SIGINT):
                loop.add_signal_handler(each, heard)
        except (RuntimeError, ValueError):  # not in the main thread: whoever runs us there calls stop()
            return lambda: None

        def restore() -> None:
            for each in (signal.SIGTERM, signal.SIGINT):
                loop.remove_signal_handler(each)

        return restore

    async def _keep_one(self) -> None:
        """Keep one executor alive, with a pause that grows while it dies young."""
        pause = 0.0
        while not self._stopping:
            began = time.monotonic()
            await self._one_life()
            pause = 0.0 if time.monotonic() - began > _LONGEST_PAUSE else min(_LONGEST_PAUSE, 2 * pause + 0.1)
            if pause > 0.1:  # noqa: PLR2004 - the first death is mended at once
                await self._rest(pause)

    async def _keep_apart(self) -> None:
        """Jobs that must run alone have an executor of their own, while there are any: nobody waits behind them."""
        look = jobs.suspects(self._queues, self._pipelines)
        while not self._stopping:
            if await self._persist("looking for suspects", look, until=lambda: self._stopping > 0):
                await self._one_life(apart=True)
            await self._rest(self._settings.sweep_seconds)

    async def _rest(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._asked.wait()
        except TimeoutError:
            pass

    async def _one_life(self, *, apart: bool = False) -> None:
        at_once = 1 if apart else self._at_once
        hello = workers.hello(
            label=self._label,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version("retoma"),
            queues=self._queues,
            pipelines=self._pipelines,
            at_once=at_once,
            lease=self._settings.lease_seconds,
        )
        if not (made := await self._persist("starting", hello, until=lambda: self._stopping > 0)):
            return
        worker_id = made[0]
        child = Process(
            worker_id,
            self._reference,
            database_url=self._app.database.url,
            settings=self._settings.model_copy(update={"worker_label": self._label}),
            queues=self._queues,
            at_once=at_once,
            apart=apart,
        )
        child.board.beat = time.monotonic()
        self._children[worker_id] = child
        emit(ExecutorStarted(worker=worker_id, pid=child.pid))
        if self._stopping:
            child.tell({"stop": self._stopping > 1})
        try:
            await self._beat_for(child)
            await child.gone
        except asyncio.CancelledError:
            child.kill("the supervisor stopped")
            raise
        finally:
            await asyncio.shield(self._bury(child))

    async def _persist(self, doing: str, query: Query[T], *, until: Callable[[], bool]) -> list[T]:
        """Every row of *query*, which can be repeated without harm: tried again until the database answers, or
        until it is time to go all the same. Whatever was held then goes back when the lease ends.
        """
        attempt = 0
        while True:
            try:
                return await self._app.database.all(query)
            except (*TRANSIENT, DatabaseUnreachable) as error:
                attempt += 1
                emit(DatabaseLost(doing=doing, error=type(error).__name__))
                if until():
                    return []
                await asyncio.sleep(jitter(attempt))

    # — the end of an executor —

    async def _bury(self, child: Process) -> None:
        await self._beat_for(child)
        self._children.pop(child.worker_id, None)
        death = child.death()
        query = jobs.bury(
            child.worker_id,
            death.blamed,
            reason=death.reason,
            error=death.error,
            signal=death.signal,
            peak_megabytes=death.peak_megabytes,
        )
        given_back = await self._persist("handing back", query, until=lambda: time.monotonic() > self._no_longer_than)
        child.close()
        if death.orderly:
            emit(ExecutorStopped(worker=child.worker_id, pid=child.pid))
        else:
            emit(
                ExecutorCrashed(
                    worker=child.worker_id,
                    pid=child.pid,
                    reason=death.reason,
                    signal=death.signal,
                    peak_megabytes=death.peak_megabytes,
                    jobs=len(given_back),
                )
            )
        tell(given_back)
        self._untold.failed += sum(each.state == "failed" for each in given_back)
        self._untold.retried += sum(each.state == "queued" and each.ending != "released" for each in given_back)
        if death.cannot_start and not self._stopping:
            raise ConfigurationError(
                f"The executors of {self._reference} cannot start; they said why above.",
                next="Mend that and start again.",
            )

    async def _beat_for(self, child: Process) -> None:
        """Out of turn: when it has just been given a process, and for its last figures before its row is closed."""
        try:
            await self._app.database.all(workers.heartbeat([child.pulse()]))
        except (*TRANSIENT, DatabaseUnreachable) as error:
            emit(DatabaseLost(doing="beating", error=type(error).__name__))

    # — the duties —

    async def _beat(self) -> None:
        children = list(self._children.values())
        if not children:
            return
        at = time.monotonic()
        # What no executor could count: jobs that were recovered, and jobs that ended with their executor.
        children[0].count(self._untold)
        self._untold = Counted()
        pulses = [child.pulse() for child in children]
        alive = set(await self._app.database.all(workers.heartbeat(pulses)))
        for child in children:
            if child.worker_id not in self._children:
                continue  # it died meanwhile, and its board is closed
            if child.worker_id in alive:
                child.board.beat = at
            else:
                child.kill("its lease was lost: no heartbeat reached the database in time")
        believed = [each for child in children if child.worker_id in self._children for each in child.believed()]
        for job, worker_id, fence, why in await self._app.database.all(workers.called_off(list(alive), believed)):
            if child_of := self._children.get(worker_id):
                child_of.call_off(job, fence, why)

    async def _say_stopping(self) -> None:
        untold = [child.worker_id for child in self._children.values() if child.worker_id not in self._said_stopping]
        if untold:
            self._said_stopping.update(untold)
            await self._app.database.all(workers.stopping(untold))

    def _count_recovered(self, jobs: int) -> None:
        self._untold.recovered += jobs

    async def _look(self) -> None:
        """Hold every handler to its time. One that does not let go after its time-out, or after it was cancelled,
        takes its executor along: the rest of its jobs go back untouched.
        """
        now = time.monotonic()
        for child in list(self._children.values()):
            late = child.overdue(now, grace=self._settings.grace_seconds)
            if late and child.has_settled(now, longest=self._settings.drain_seconds) and child.kill(late.reason):
                emit(ExecutorKilled(worker=child.worker_id, pid=child.pid, reason=late.reason, jobs=late.jobs))
        if self._stopping:
            await self._say_stopping()
            for child in self._children.values():
                child.hurry(now, drain=self._settings.drain_seconds, grace=self._settings.grace_seconds)

"""A worker: a supervisor that runs no handler, and the executors that run them.

The supervisor sends the heartbeats of its executors, so that no handler can block them. It enforces the time-out of
every job. When an executor dies, it releases the jobs at once and blames those that had started.
"""

from __future__ import annotations

import asyncio
import math
import os
import secrets
import socket
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from importlib.metadata import version
from typing import TypeVar

from retoma.commands.maintenance import tell_recovered
from retoma.errors import ConfigurationError
from retoma.isolate import adopt
from retoma.isolate.probe import watch_over
from retoma.model.job import AttemptEnding
from retoma.model.worker import Metrics
from retoma.postgres.connections import run_on
from retoma.postgres.database import Database
from retoma.postgres.dedicated import Line
from retoma.postgres.faults import UNAVAILABLE, retrying
from retoma.postgres.migrate import HEAD
from retoma.run.registry import Registry
from retoma.store import jobs, workers
from retoma.store.migrations import LOCK_SECONDS
from retoma.store.query import Query
from retoma.system.concurrency import cancel_and_wait
from retoma.system.process_identity import own_identity
from retoma.system.signals import hear
from retoma.telemetry import emit
from retoma.telemetry.events import (
    ExecutorCrashed,
    ExecutorKilled,
    ExecutorStarted,
    ExecutorStopped,
    ExecutorUnstarted,
    WorkerDraining,
)
from retoma.telemetry.metrics import measure
from retoma.telemetry.sheet import Figure, Sheet, added
from retoma.telemetry.spans import follow
from retoma.telemetry.tracing import configure, home_of
from retoma.worker.executor_process import ExtraCounts, Process
from retoma.worker.loader import Host, reference_to
from retoma.worker.maintenance_jobs import QUEUE, schedule_all
from retoma.worker.template import Template
from retoma.worker.watchdog import Asks, Watchdog, every

T = TypeVar("T")

_LOOK = 0.25
_LONGEST_PAUSE = 30.0
_SUSPECTED, _LONGEST_SUSPECTED = 0.5, 15.0  # seconds between looks for a suspect of our own, and for how long
_LONGEST_BEAT = 5.0  # seconds for a heartbeat statement, at most
_SHORTEST_BEAT = LOCK_SECONDS + 0.5  # longer than a schema upgrade holds its lock
_IDLE = 5.0  # seconds after which an unused connection of the watchdog is closed


class Worker:
    """The executors of one app on this machine, and their supervisor."""

    def __init__(
        self,
        app: Host,
        registry: Registry,
        *,
        processes: int | None = None,
        at_once: int | None = None,
        queues: Sequence[str] | None = None,
        label: str | None = None,
        reference: str | None = None,
    ) -> None:
        settings = registry.settings
        self._app = app
        self._registry = registry
        self._settings = settings
        self._processes = processes or settings.worker_processes
        self._at_once = at_once or settings.worker_at_once
        self._queues = sorted({*(queues or registry.queues), QUEUE})
        self._pipelines = sorted(registry.pipelines)
        self._label = label or settings.worker_label
        self._reference = reference or reference_to(app)
        if not registry.own:
            raise ConfigurationError("This app has no pipelines to work on.", next="Pass pipelines=[…] to Retoma.")
        self._children: dict[int, Process] = {}
        self._stopping = 0
        self._asked = asyncio.Event()
        self._suspected = asyncio.Event()
        self._suspected_until = 0.0
        self._no_longer_than = math.inf
        self._hint = None if settings.pooler == "transaction" else secrets.randbits(62)
        self._remade = asyncio.Event()
        self._untold = ExtraCounts()
        self._said_stopping: set[int] = set()
        self.metrics_port = settings.metrics_port
        """Where scrapes are answered while it runs; None for nowhere."""
        self._sheets: list[Sheet] = []
        self._template = Template(self._reference, settings)

    async def run(self) -> None:
        """Work until stopped. The first SIGTERM or Ctrl-C drains; a second one releases everything now."""
        settings = self._settings
        adopt(settings)
        if settings.sandbox == "require":
            await watch_over(settings.sandbox)
        await self._app.open()
        url = self._app.database.url
        # Heartbeats have a connection of their own: no other statement can block it, and no exhausted pool can refuse
        # it. The watchdog's connections are opened when needed.
        within = max(_SHORTEST_BEAT, min(_LONGEST_BEAT, settings.lease_seconds / 4))
        short = settings.model_copy(update={"statement_seconds": min(settings.statement_seconds, within)})
        self._heart = Line(url, short, within=within + 1, hint=self._hint, made=self._remade.set)
        self._rounds = Database(url, settings, least=0, most=4, idle=_IDLE)
        send_spans = configure(label=self._label)
        unfollow = follow(home_of(url))
        restore = hear(lambda: self.stop(now=self._stopping >= 1))
        try:
            await self._heart.ready()
            await self._rounds.open()
            await self._plant()
            with self._measured():
                await self._supervise()
        finally:
            await self._rounds.close()
            await self._heart.close()
            await self._app.close()
            unfollow()
            await asyncio.to_thread(send_spans)
            restore(ending=self._stopping > 0)

    @property
    def sheets(self) -> list[Sheet]:
        """What is counted: a sheet of the supervisor itself, and one for each place of an executor. Whoever reads them
        makes the worker count.
        """
        if not self._sheets:
            self._sheets = [Sheet() for _ in range(self._processes + 2)]
        return self._sheets

    @contextmanager
    def _measured(self) -> Iterator[None]:
        """Count meanwhile, when somebody wants to know, and answer scrapes."""
        if self.metrics_port is None and not self._sheets:
            yield
            return
        from retoma.telemetry.exposition import serve  # noqa: PLC0415 - a server that only those need who are scraped

        with ExitStack() as stack:
            stack.callback(measure(self.sheets[0]))
            if self.metrics_port is not None:
                server, thread = serve(self._settings.metrics_host, self.metrics_port, self._figures)
                stack.callback(thread.join)
                stack.callback(server.server_close)
                stack.callback(server.shutdown)
            yield

    def _figures(self) -> list[Figure]:
        from retoma.telemetry.exposition import build  # noqa: PLC0415

        return [*added(self.sheets), build(HEAD)]

    async def _plant(self) -> None:
        """Create the schedules that this program declares. Waits while the server cannot write."""

        async def plant() -> None:
            async with self._rounds.connection() as connection:
                await run_on(connection, schedule_all(self._settings.zone, self._registry.pipelines.values()))

        with suppress(*UNAVAILABLE):
            await retrying(plant, doing="starting", outages=self._rounds.outages, until=lambda: self._stopping > 0)

    def stop(self, *, now: bool = False) -> None:
        """Drain: let running steps finish, then release the jobs. With *now*, do not wait for the steps."""
        self._stopping = max(self._stopping, 2 if now else 1)
        drain = 0.0 if now else self._settings.drain_seconds
        self._no_longer_than = min(self._no_longer_than, time.monotonic() + drain + self._settings.grace_seconds + 5)
        for child in self._children.values():
            child.tell({"stop": now})
        self._asked.set()
        self._suspected.set()

    async def metrics(self) -> Metrics:
        """The seven counters of this worker, up to this moment."""
        await self._beat()
        return (await self._app.database.all(workers.metrics(self._label)))[0]

    @property
    def executors(self) -> list[int]:
        """The process ids of the executors."""
        return [child.pid for child in self._children.values()]

    # — loops —

    async def _supervise(self) -> None:
        watchdog = Watchdog(lambda: self._rounds, line=self._heart, recovered=self._count_recovered)
        outages = self._rounds.outages
        loops = [
            asyncio.create_task(each)
            for each in (
                self._heart.keep(),
                every(self._settings.heartbeat_seconds, self._beat, outages, at_once=self._remade),
                every(_LOOK, self._look, outages),
                every(_LOOK, self._say_stopping, outages),
                watchdog.keep_looking(),
                *([watch_over("auto")] if self._settings.sandbox == "auto" else []),
            )
        ]
        places = [asyncio.create_task(self._keep_one(place)) for place in range(self._processes)]
        places.append(asyncio.create_task(self._keep_apart()))
        try:
            await asyncio.gather(*places)
        finally:
            await cancel_and_wait(*loops, *places)
            self._template.close()

    async def _keep_one(self, place: int) -> None:
        """Keep one executor running. The pause before a restart grows while executors die soon after their start and
        have completed no job: one that has completed some is replaced at once, because a single job killed it, and
        that job is quarantined.
        """
        pause = 0.0
        while not self._stopping:
            began = time.monotonic()
            useful = await self._one_life(place)
            long = time.monotonic() - began > _LONGEST_PAUSE
            pause = 0.0 if useful or long else min(_LONGEST_PAUSE, 2 * pause + 0.1)
            if pause > 0.1:  # noqa: PLR2004 - the first restart has no pause
                await self._rest(pause)

    async def _keep_apart(self) -> None:
        """Run an executor for jobs that must run alone, as long as there are such jobs, so that no other job waits
        behind them. Those of other workers are found with a sweep, those of this one at once.
        """
        look = jobs.suspects(self._queues, self._pipelines)
        while not self._stopping:
            if await self._persist("looking for suspects", look, on=self._heart, until=lambda: self._stopping > 0):
                await self._one_life(self._processes, apart=True)
            # One of this worker's own may have to wait until those before it in its line are claimed.
            known = time.monotonic() < self._suspected_until
            await self._rest(
                min(_SUSPECTED, self._settings.sweep_seconds) if known else self._settings.sweep_seconds,
                self._suspected,
            )
            self._suspected.clear()

    async def _rest(self, seconds: float, until: asyncio.Event | None = None) -> None:
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await (until or self._asked).wait()

    async def _one_life(self, place: int, *, apart: bool = False) -> bool:
        """Start an executor and look after it until it is gone; whether it has completed a job. It counts on the sheet
        of its *place*, as the one before it did.
        """
        at_once = 1 if apart else self._at_once
        # Now, because nobody beats for an executor that is not there yet.
        await self._template.prepare(child.board for child in self._children.values())
        hello = workers.hello(
            label=self._label,
            host=socket.gethostname(),
            pid=os.getpid(),
            version=version("retoma"),
            queues=self._queues,
            pipelines=self._pipelines,
            at_once=at_once,
            lease=self._settings.lease_seconds,
            hint=self._hint,
            where=own_identity(),
        )
        if not (made := await self._persist("starting", hello, on=self._heart, until=lambda: self._stopping > 0)):
            return False
        worker_id = made[0]
        sheet = self._sheets[place + 1].file if self._sheets else None
        board, begun = await self._template.begin(at_once, sheet)
        try:
            child = Process(
                worker_id,
                self._reference,
                database_url=self._app.database.url,
                settings=self._settings.model_copy(update={"worker_label": self._label}),
                queues=self._queues,
                at_once=at_once,
                apart=apart,
                hint=self._hint,
                sheet=sheet,
                board=board,
                begun=begun,
            )
        except OSError as error:  # out of processes, memory or disk space: this may pass
            emit(ExecutorUnstarted(worker=worker_id, error=str(error)))
            nobody = jobs.bury(worker_id, [], reason="could not be started", error=str(error))
            await self._persist("handing back", nobody, on=self._rounds, until=lambda: self._stopping > 0)
            return False
        child.board.beat = time.monotonic()
        self._children[worker_id] = child
        emit(ExecutorStarted(worker=worker_id, pid=child.pid))
        if self._stopping:
            child.tell({"stop": self._stopping > 1})
        try:
            await self._beat_for(child)
            await child.gone
            if self._sheets:
                self._sheets[place + 1].clear_gauges()
            self._template.learn(child.board)
            return child.board.totals().completed > 0
        except asyncio.CancelledError:
            child.kill("the supervisor stopped")
            raise
        finally:
            await asyncio.shield(self._bury(child))

    async def _persist(self, doing: str, query: Query[T], *, on: Asks, until: Callable[[], bool]) -> list[T]:
        """The rows of the idempotent *query*, retried until the database answers or *until* is true. In the second case
        the jobs that were held are recovered when the lease ends.
        """
        with suppress(*UNAVAILABLE):
            return await retrying(lambda: on.all(query), doing=doing, outages=self._rounds.outages, until=until)
        return []

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
        given_back = await self._persist(
            "handing back", query, on=self._rounds, until=lambda: time.monotonic() > self._no_longer_than
        )
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
        tell_recovered(given_back)
        if any(each.state == "queued" and each.ending == AttemptEnding.CRASHED for each in given_back):
            # One of them may have to run alone: look now, and not with the next sweep.
            self._suspected_until = time.monotonic() + _LONGEST_SUSPECTED
            self._suspected.set()
        self._untold.failed += sum(each.state == "failed" for each in given_back)
        self._untold.retried += sum(
            each.state == "queued" and each.ending != AttemptEnding.RELEASED for each in given_back
        )
        if death.cannot_start and not self._stopping:
            raise ConfigurationError(
                f"The executors of {self._reference} cannot start; they said why above.",
                next="Mend that and start again.",
            )

    async def _beat_for(self, child: Process) -> None:
        """Send one extra heartbeat: right after the start of the process, and before the worker row is closed, to
        record its final counters.
        """
        try:
            await self._heart.all(workers.heartbeat([child.pulse()]))
        except UNAVAILABLE as error:
            self._rounds.outages.tell("beating", error)

    # — periodic duties —

    async def _beat(self) -> None:
        children = list(self._children.values())
        if not children:
            return
        at = time.monotonic()
        # No executor can count these: recovered jobs, and jobs that ended together with their executor.
        children[0].count(self._untold)
        self._untold = ExtraCounts()
        pulses = [child.pulse() for child in children]
        alive = set(await self._heart.all(workers.heartbeat(pulses)))
        if self._sheets:
            self._sheets[0].set(("retoma_worker_last_heartbeat_timestamp_seconds",), time.time())
        for child in children:
            if child.worker_id not in self._children:
                continue  # it died during the heartbeat, and its board is closed
            if child.worker_id in alive:
                child.board.beat = at
            else:
                child.kill("its lease was lost: no heartbeat reached the database in time")
        believed = [each for child in children if child.worker_id in self._children for each in child.believed()]
        called = await self._heart.all(workers.called_off(list(alive), believed))
        for child in children:
            if child.worker_id in self._children:
                child.call_off(
                    [(each.id, each.fence, each.why) for each in called if each.worker_id == child.worker_id]
                )
        if not self._stopping and (asked := await self._heart.all(workers.asked_to_drain(list(alive)))):
            emit(WorkerDraining(worker=min(asked), label=self._label))
            self.stop()

    async def _say_stopping(self) -> None:
        if not self._stopping:
            return
        untold = [child.worker_id for child in self._children.values() if child.worker_id not in self._said_stopping]
        if untold:
            await self._heart.all(workers.stopping(untold))
            self._said_stopping.update(untold)

    def _count_places(self) -> None:
        busy = sum(len(child.board.notes()) for child in self._children.values())
        every = sum(child.board.places for child in self._children.values())
        self._sheets[0].set(("retoma_worker_slots", "busy"), busy)
        self._sheets[0].set(("retoma_worker_slots", "free"), every - busy)

    def _count_recovered(self, jobs: int) -> None:
        self._untold.recovered += jobs

    async def _look(self) -> None:
        """Enforce time-outs. A handler that still runs after its time-out or cancellation and the grace period gets its
        executor killed; the other jobs of that executor are released without blame.
        """
        now = time.monotonic()
        if self._sheets:
            self._count_places()
        for child in list(self._children.values()):
            child.flush()
            late = child.overdue(now, grace=self._settings.grace_seconds)
            if late and child.has_settled(now, longest=self._settings.drain_seconds) and child.kill(late.reason):
                emit(ExecutorKilled(worker=child.worker_id, pid=child.pid, reason=late.reason, jobs=late.jobs))
        if self._stopping:
            for child in self._children.values():
                child.hurry(now, drain=self._settings.drain_seconds, grace=self._settings.grace_seconds)

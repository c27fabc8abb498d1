"""For your tests: rehearse a handler without a database, drain a queue, crash a worker, let time pass."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from importlib.metadata import version
from itertools import count
from typing import IO, Any, Generic, TypeVar, cast

import orjson
from pydantic_core import PydanticSerializationError, to_json

from retoma import sync
from retoma.app import Retoma
from retoma.attempt import attempt as attempt_once
from retoma.board import Board
from retoma.codec import checksum
from retoma.commands import Command, fire_schedules
from retoma.database import TRANSIENT, Database
from retoma.endings import Review, ending_in
from retoma.errors import ConfigurationError, DatabaseUnreachable, NotFound, RetomaError
from retoma.executor import Executor
from retoma.find import find_app, reference_to
from retoma.isolate import Isolated
from retoma.join import run_on
from retoma.model import Claim, Ended, Job, NewCheckpoint, Receipt, Saved
from retoma.pipeline import Pipeline
from retoma.query import Query
from retoma.run import Run, SyncRun
from retoma.settings import Settings
from retoma.steps import AsyncConnection, Steps, SyncConnection
from retoma.store import ageing, jobs, workers
from retoma.store.workers import Pulse

__all__ = ["Rehearsal", "age", "crash", "drain", "rehearse"]

T = TypeVar("T")
In = TypeVar("In")
Out = TypeVar("Out")

_LONG_AGO = 1e9
_LOOK = 0.01
_numbers = count(1)


# — rehearse —


@dataclass(frozen=True, slots=True, kw_only=True)
class Rehearsal(Generic[Out]):
    """How a handler did, without a database."""

    ending: str
    """*completed*, *skipped*, *failed*, *postponed*, *waiting* or *review*."""
    reason: str | None
    """Why it ended so, in the word that the job would carry."""
    error: str | None
    """What the job would say of its failure."""
    raised: BaseException | None
    """The exception itself, where the handler raised one."""
    again: bool
    """Whether a failed attempt would be tried again, as long as attempts are left."""
    delay: float | None
    """In how many seconds it would be taken up again."""
    done: list[str]
    """The steps that were done now, in order."""
    restored: list[str]
    """The steps whose checkpoint was given back, in order."""
    set_aside: dict[str, str]
    """The checkpoints that did not fit any more, and why."""
    checkpoints: dict[str, Any]
    """What is saved now, as plain JSON."""
    returned: Any = field(repr=False)

    @property
    def output(self) -> Out:
        """What the handler returned (or proposed for review), as whoever asks for the job's output gets it."""
        if self.ending not in {"completed", "review"}:
            why = self.error or self.reason or "no reason was given"
            raise AssertionError(f"The rehearsal ended {self.ending} and has no output: {why}") from self.raised
        return cast(Out, self.returned)


async def rehearse(
    pipeline: Pipeline[In, Out],
    input: In,
    *,
    saved: Mapping[str, Any] | None = None,
    signals: Mapping[str, Any] | None = None,
    connection: Any = None,
    attempt: int = 1,
    isolated: bool = True,
    **providers: Any,
) -> Rehearsal[Out]:
    """Run a handler once, without a database.

    *saved* is the past: what each step gave in an earlier attempt, long ago. *signals* is what the outside world
    has said. ``run.transact`` gets *connection*, which may be a fake. Isolated functions run in their child unless
    *isolated* is False. What the handler asks for by keyword is given by keyword.
    """
    if missing := sorted(pipeline.needs.keys() - providers.keys()):
        raise ConfigurationError(
            f"Pipeline {pipeline.name!r} asks for {', '.join(missing)}, and this rehearsal has none.",
            next=f"Pass {missing[0]}=… to rehearse, the real one or a fake.",
        )
    claim = _claim_of(pipeline, input, attempt, again=bool(saved))
    memory = _Notebook(saved or {}, signals or {}, connection)
    steps = _Steps(claim, memory, _Nobody(), step_timeout=pipeline.step_timeout)
    raised: list[BaseException] = []
    rehearsed = replace(pipeline, handler=_watched(pipeline, raised, isolated=isolated))
    with ThreadPoolExecutor(1, thread_name_prefix="rehearsal") as threads:
        ended = await attempt_once(claim, rehearsed, steps, providers, threads)
    return Rehearsal(
        ending=ended.ending,
        reason=ended.reason,
        error=ended.error,
        raised=raised[0] if raised else None,
        again=ended.again,
        delay=ended.delay,
        done=memory.done,
        restored=memory.restored,
        set_aside=memory.aside,
        checkpoints={name: orjson.loads(text) for name, text in memory.texts.items()},
        returned=_returned(pipeline, ended, raised),
    )


def _claim_of(pipeline: Pipeline[In, Any], input: In, attempt: int, *, again: bool) -> Claim:
    return Claim(
        id=next(_numbers),
        batch_id=None,
        queue=pipeline.queue,
        lane_id=0,
        pipeline=pipeline.name,
        key=None,
        attempt=attempt,
        max_attempts=max(attempt, pipeline.retry.attempts),
        crashes=0,
        # Only a job that was claimed before can have something to give back.
        fence=2 if again else 1,
        signals=0,
        timeout_seconds=pipeline.timeout,
        correlation_id=None,
        traceparent=None,
        input=pipeline.input.encode(input, what=f"the input of a {pipeline.name!r} job").text,
    )


def _returned(pipeline: Pipeline[Any, Any], ended: Ended, raised: Sequence[BaseException]) -> Any:
    if ended.ending == "review":
        review = ending_in(raised[0])
        return review.value if isinstance(review, Review) else None
    return None if ended.output is None else pipeline.output.decode(ended.output)


def _watched(pipeline: Pipeline[Any, Any], raised: list[BaseException], *, isolated: bool) -> Callable[..., Any]:
    """The handler of *pipeline*, which notes what it raises; its run may call isolated functions plainly."""

    async def handler(given: Any, run: Run, **providers: Any) -> Any:
        try:
            return await pipeline.handler(given, run if isolated else _PlainRun(run._steps), **providers)  # noqa: SLF001
        except BaseException as error:
            raised.append(error)
            raise

    def sync_handler(given: Any, run: SyncRun, **providers: Any) -> Any:
        try:
            plain = run if isolated else _PlainSyncRun(run._steps, run._loop)  # noqa: SLF001
            return pipeline.handler(given, plain, **providers)
        except BaseException as error:
            raised.append(error)
            raise

    return handler if pipeline.is_async else sync_handler


def _plain(function: Callable[..., Any]) -> Callable[..., Any]:
    return function.function if isinstance(function, Isolated) else function


class _PlainRun(Run):
    async def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return await super().step(name, _plain(function), *args, **kwargs)


class _PlainSyncRun(SyncRun):
    def step(self, name: str, function: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Any:
        return super().step(name, _plain(function), *args, **kwargs)


class _Nobody:
    """Nobody watches a rehearsal."""

    worker_id = 0

    def before_step(self, name: str) -> None: ...

    def after_step(self) -> None: ...


class _Notebook:
    """A run's memory in a dictionary."""

    def __init__(self, saved: Mapping[str, Any], signals: Mapping[str, Any], connection: Any) -> None:
        self.texts = {name: _json(value, f"saved[{name!r}]") for name, value in saved.items()}
        self.done: list[str] = []
        self.restored: list[str] = []
        self.aside: dict[str, str] = {}
        self._signals = {name: _json(value, f"signals[{name!r}]") for name, value in signals.items()}
        self._connection = connection

    async def recall(self, _claim: Claim) -> list[Saved]:
        return [
            Saved(name, 1, text, checksum(text), fingerprint="", input_hash=None, fence=1, age=_LONG_AGO)
            for name, text in self.texts.items()
        ]

    async def save(self, checkpoint: NewCheckpoint) -> None:
        self.texts[checkpoint.step] = checkpoint.value
        self.done.append(checkpoint.step)

    async def set_aside(self, _claim: Claim, saved: Saved, reason: str) -> None:
        self.aside[saved.step] = reason
        del self.texts[saved.step]

    async def hear(self, _claim: Claim, name: str) -> tuple[str | None, int]:
        return self._signals.get(name), 0

    async def transact(
        self, checkpoint: Callable[[Any], NewCheckpoint], function: Callable[[AsyncConnection], Awaitable[Any]]
    ) -> None:
        await self.save(checkpoint(await function(self._lent())))

    async def transact_sync(
        self, checkpoint: Callable[[Any], NewCheckpoint], function: Callable[[SyncConnection], Any]
    ) -> None:
        await self.save(checkpoint(await asyncio.to_thread(function, self._lent())))

    def _lent(self) -> Any:
        if self._connection is None:
            raise ConfigurationError(
                "run.transact needs a connection, and this rehearsal has none.",
                next="Pass connection=… to rehearse, a real one or a fake.",
            )
        return self._connection


class _Steps(Steps):
    memory: _Notebook

    def _restored(self, saved: Saved, arguments: str | None) -> None:
        self.memory.restored.append(saved.step)
        super()._restored(saved, arguments)


def _json(value: Any, what: str) -> str:
    try:
        return to_json(value, bytes_mode="base64", inf_nan_mode="constants").decode()
    except (PydanticSerializationError, ValueError) as error:
        raise ConfigurationError(
            f"{what} cannot be written as JSON: {error}.", next="Give what the step returns, or the JSON of it."
        ) from error


# — drain —


async def drain(app: Retoma, *, at_once: int | None = None, queues: Sequence[str] | None = None) -> int:
    """Run everything that is ready, in this process, until nothing is; how many jobs ended.

    First it does the rounds of a worker: jobs of silent workers are recovered, late ones expire, schedules fire.
    """
    async with app:
        while await app.recover():
            pass
        while await app.fetch(jobs.expire()):
            pass
        async with app.database.connection() as connection:
            await run_on(connection, fire_schedules())
        async with _executor(app, at_once or app.settings.worker_at_once, queues) as executor:
            await executor.drain()
            return executor.totals.completed + executor.totals.failed


@asynccontextmanager
async def _executor(app: Retoma, at_once: int, queues: Sequence[str] | None) -> AsyncIterator[Executor]:
    """An executor in this process, with a row of its own among the workers and a heart that beats."""
    front = app.front
    if not front.pipelines:
        raise ConfigurationError("This app has no pipelines to work on.", next="Pass pipelines=[…] to Retoma.")
    names = list(queues or front.queues)
    hello = workers.hello(
        label=app.settings.worker_label,
        host=socket.gethostname(),
        pid=os.getpid(),
        version=version("retoma"),
        queues=names,
        pipelines=sorted(front.pipelines),
        at_once=at_once,
        lease=app.settings.lease_seconds,
    )
    worker_id = (await app.fetch(hello))[0]
    # Its own pool, made as a worker makes it, so that a test sees the plans that production gets.
    database = Database(app.database.url, app.settings, hot=True, most=4 + min(at_once, 16))
    board = Board.new(at_once)
    executor = Executor(
        database=database,
        settings=app.settings,
        pipelines=front.pipelines,
        providers=front.providers,
        queues=names,
        worker_id=worker_id,
        board=board,
    )
    await database.open()
    beating = asyncio.create_task(_beat_for(app, executor))
    try:
        yield executor
    finally:
        executor.stop(now=True)
        beating.cancel()
        await asyncio.gather(beating, return_exceptions=True)
        await executor.ledger.settled()
        await _beat(app, executor)
        await app.fetch(jobs.bury(worker_id, [], reason="stopped", error="The test was over."))
        await database.close()
        board.close()


async def _beat_for(app: Retoma, executor: Executor) -> None:
    while True:
        with contextlib.suppress(*TRANSIENT, DatabaseUnreachable):
            if not await _beat(app, executor):
                executor.stop(now=True)
            asked = await app.fetch(workers.cancelling([executor.worker_id]))
            executor.cancel([job for job, _, _ in asked])
        await asyncio.sleep(app.settings.heartbeat_seconds)


async def _beat(app: Retoma, executor: Executor) -> bool:
    totals = executor.totals
    at = time.monotonic()
    pulse = Pulse(
        id=executor.worker_id,
        pid=os.getpid(),
        claimed=totals.claimed,
        completed=totals.completed,
        failed=totals.failed,
        retried=totals.retried,
        busy=totals.busy,
    )
    alive = bool(await app.fetch(workers.heartbeat([pulse])))
    if alive:
        executor.board.beat = at
    return alive


# — crash —


async def crash(
    app: Retoma,
    *,
    after: int = 0,
    steps: int = 0,
    processes: int = 1,
    at_once: int | None = None,
    reference: str | None = None,
    timeout: float = 60.0,
) -> int:
    """Start a real worker and kill it with -9 once *after* jobs have ended and *steps* steps were saved.

    Its executors go with it, and what they had in hand stays *running* under their lease: see ``age`` and ``drain``.
    They find the app by *reference* (module:attribute or file:attribute), or by the module that holds it. How many
    jobs have ended by then.
    """
    if after < 1 and steps < 1:
        raise ConfigurationError("crash() does not know when.", next="Say after=… jobs or steps=… checkpoints.")
    orders = {
        "reference": reference or reference_to(app),
        "settings": app.settings.model_dump(mode="json", exclude={"database_url"}),
        "processes": processes,
        "at_once": at_once,
    }
    async with app:
        orders["settings"]["database_url"] = app.database.url
        before = (await app.fetch(ageing.tally()))[0]
        with tempfile.TemporaryFile() as said:
            worker = _start_worker(orders, said)
            try:
                async with asyncio.timeout(timeout):
                    while True:
                        now = (await app.fetch(ageing.tally()))[0]
                        if now.ended - before.ended >= after and now.saved - before.saved >= steps:
                            return now.ended - before.ended
                        _still_hope(worker, now, said)
                        await asyncio.sleep(_LOOK)
            finally:
                # The whole group, executors and their children included, at one moment.
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()


def _start_worker(orders: dict[str, Any], said: IO[bytes]) -> subprocess.Popen[bytes]:
    worker = subprocess.Popen(
        [sys.executable, "-c", "from retoma.testing import work_until_killed; work_until_killed()"],
        stdin=subprocess.PIPE,
        stdout=said,
        stderr=said,
        start_new_session=True,
    )
    assert worker.stdin is not None
    # On its standard input, because the database's address holds a password and others can read a command line.
    with worker.stdin as control:
        control.write(orjson.dumps(orders))
    return worker


def _still_hope(worker: subprocess.Popen[bytes], tally: ageing.Tally, said: IO[bytes]) -> None:
    if worker.poll() is None and tally.left:
        return
    said.seek(0)
    words = said.read()[-2000:].decode(errors="replace").strip()
    if worker.poll() is not None:
        raise RetomaError(f"The worker that was to be killed ended by itself: {words or worker.returncode}.")
    raise RetomaError(
        f"All jobs ended before the worker could be killed: {tally.ended} in all, {tally.saved} steps.",
        next="Enqueue more, or crash earlier.",
    )


def work_until_killed() -> None:
    """The process that ``crash`` starts and kills: a worker, as its orders on standard input say."""
    orders = orjson.loads(sys.stdin.buffer.read())
    app = find_app(orders["reference"])
    app.front.settings = Settings.load(**orders["settings"])
    worker = app.worker(processes=orders["processes"], at_once=orders["at_once"], reference=orders["reference"])
    asyncio.run(worker.run())


# — age —


async def age(
    where: Retoma | sync.Retoma | object,
    job: int | Job | Receipt | None = None,
    *,
    days: float = 0,
    hours: float = 0,
    minutes: float = 0,
    seconds: float = 0,
) -> None:
    """Let time pass for one job, or for all: its past is moved further back, and no clock is touched.

    *where* is an app or a connection. The worker of a running job has then been silent for as long.
    """
    span = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds)
    id = job if isinstance(job, int) or job is None else job.id
    query = ageing.age(id, span.total_seconds())
    if isinstance(where, Retoma):
        aged = await where.fetch(query)
    elif isinstance(where, sync.Retoma):
        aged = where.fetch(query)
    else:
        aged = await run_on(where, _just(query))
    if id is not None and not aged:
        raise NotFound(f"There is no job {id}.", next="It may have been pruned.")


def _just(query: Query[T]) -> Command[list[T]]:
    rows: list[T] = yield query
    return rows

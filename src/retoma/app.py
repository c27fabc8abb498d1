"""Retoma: the front door. Definitions meet a database here."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import asynccontextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import psycopg

from retoma import commands, embedded, notify, scheduling
from retoma.access import Access
from retoma.batches import Batches
from retoma.calling import Calls
from retoma.commands import Command, only, options_of
from retoma.database import TRANSIENT, Database
from retoma.errors import ConfigurationError, DatabaseUnreachable
from retoma.front import LATE_SECONDS, Enqueueing, Front, always, keys_of, prepare
from retoma.front import reach as reach  # noqa: PLC0414 - the command line comes for it here
from retoma.join import run_on, run_whole_on
from retoma.model import (
    Attempt,
    Checkpoint,
    Health,
    Job,
    JobState,
    Metrics,
    Presence,
    Queue,
    Receipt,
    Recovered,
    Schedule,
)
from retoma.pipeline import Pipeline
from retoma.query import Query
from retoma.settings import Settings
from retoma.store import health, jobs, queues, schedules, workers
from retoma.supervisor import Worker

T = TypeVar("T")
I = TypeVar("I")
O = TypeVar("O")


class Retoma(Batches, Calls):
    """An app: its pipelines, the providers they ask for, and a database. Use it as ``async with app:``."""

    def __init__(
        self,
        database_url: str | None = None,
        *,
        pipelines: Iterable[Pipeline[Any, Any]] = (),
        providers: Mapping[type, object] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.front = Front(database_url, pipelines=pipelines, providers=providers or {}, settings=settings)
        self._database: Database | None = None
        self._embedded: embedded.Embedded | None = None
        self._late_hints: dict[str, asyncio.TimerHandle] = {}
        self._openings = 0
        self.access = Access(lambda: self.database)

    @property
    def settings(self) -> Settings:
        """What can be set from outside."""
        return self.front.settings

    # — coming and going —

    async def open(self, *, upgrade: bool | None = None) -> Self:
        """Connect. The embedded database is brought to the right schema by itself; another only when asked."""
        self._openings += 1
        if self._database is not None:
            return self
        server = None
        try:
            url, server = await asyncio.to_thread(prepare, self.settings, upgrade=upgrade)
            database = Database(url, self.settings)
            await database.open()
        except BaseException:
            self._openings -= 1
            if server is not None:
                server.release()
            raise
        self._database, self._embedded = database, server
        return self

    async def close(self) -> None:
        """Let go of the database, once for each time it was opened; an embedded server stops with its last user."""
        self._openings -= 1
        if self._openings > 0:
            return
        for late in self._late_hints.values():
            late.cancel()
        self._late_hints.clear()
        database, server = self._database, self._embedded
        self._database = self._embedded = None  # first: a loop that ends calls off what we wait for below
        try:
            if database is not None:
                await database.close()
        finally:
            if server is not None:
                server.release()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    @property
    def database(self) -> Database:
        """The open database."""
        if self._database is None:
            raise ConfigurationError("This app is not open.", next="Write 'async with app:' around what uses it.")
        return self._database

    async def fetch(self, query: Query[T]) -> list[T]:
        """The rows of a query; for pipelines that have tables of their own."""
        return await self.database.all(query)

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection with a transaction around the block; pass it on as ``conn=``."""
        async with self.database.transaction() as connection:
            yield connection

    async def _ask(self, command: Command[T], conn: object = None) -> T:
        if conn is not None:
            return await run_on(conn, command)
        async with self.database.connection() as connection:
            return await run_on(connection, command)

    async def _transact(self, command: Command[T], conn: object = None) -> T:
        if conn is not None:
            return await run_whole_on(conn, command)
        async with self.database.transaction() as connection:
            return await run_on(connection, command)

    # — queueing —

    async def enqueue(
        self,
        pipeline: Pipeline[I, Any],
        input: I,
        *,
        key: str | None = None,
        conn: object = None,
        **options: Unpack[Enqueueing],
    ) -> Receipt:
        """Queue one job. With *conn*, a connection of the caller's own, it commits or rolls back with the
        caller's rows. The same *key* gives the same job back, or raises KeyTaken with ``if_taken='raise'``.
        """
        hint = self._hint if conn is None else always
        return await self._ask(commands.enqueue_one(pipeline, input, key, options_of(options), notify=hint), conn)

    async def enqueue_many(
        self,
        pipeline: Pipeline[I, Any],
        inputs: Iterable[I],
        *,
        key: str | Callable[[I], str] | None = None,
        conn: object = None,
        **options: Unpack[Enqueueing],
    ) -> list[Receipt]:
        """Queue one job per input, all or none."""
        hint = self._hint if conn is None else always
        command = commands.enqueue(pipeline, inputs, keys_of(key), options_of(options), notify=hint)
        return await self._transact(command, conn)

    def _hint(self, queue: str) -> bool:
        if self.front.hint_due(queue):
            return True
        # Too soon after the last hint: one more follows, for whoever went back to sleep in between.
        if queue not in self._late_hints:
            self._hint_later(queue)
        return False

    def _hint_later(self, queue: str) -> None:
        wait = LATE_SECONDS - self.front.hinted_ago(queue)
        self._late_hints[queue] = asyncio.get_running_loop().call_later(wait, self._hint_now, queue)

    def _hint_now(self, queue: str) -> None:
        if self.front.hint_due(queue):
            del self._late_hints[queue]
            self._hinting = asyncio.create_task(self._send_hint(queue))  # kept, or it might vanish before it is done
        else:
            self._hint_later(queue)  # a job carried one meanwhile, and others may have come after it

    async def _send_hint(self, queue: str) -> None:
        if self._database is not None:
            with contextlib.suppress(*TRANSIENT, DatabaseUnreachable):  # only a hint: workers look by themselves, too
                await self._database.all(queues.hint(queue))

    # — looking —

    async def job(self, id: int, *, conn: object = None) -> Job:
        """A job as it stands."""
        return await self._ask(commands.job(id), conn)

    async def jobs(
        self,
        *,
        state: JobState | str | None = None,
        pipeline: str | None = None,
        queue: str | None = None,
        key: str | None = None,
        batch_id: int | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Job]:
        """Jobs, newest first, *before* an id for the next page. The dead letters are ``state='failed'``."""
        return await self._ask(
            commands.page(
                state=state, pipeline=pipeline, queue=queue, key=key, batch_id=batch_id, before=before, limit=limit
            )
        )

    async def attempts(self, id: int) -> list[Attempt]:
        """How each claim of a job ended."""
        return await self._ask(commands.attempts_of(id))

    async def checkpoints(self, id: int) -> list[Checkpoint]:
        """What the steps of a job produced, also what was set aside."""
        return await self._ask(commands.checkpoints_of(id))

    async def output(self, pipeline: Pipeline[Any, O], id: int) -> O:
        """What a completed job returned."""
        return await self._ask(commands.output(pipeline, id))

    async def wait(self, id: int, *, timeout: float | None = None, every: float = 0.1) -> Job:
        """The job, once it has ended."""
        async with asyncio.timeout(timeout):
            while not (job := await self.job(id)).state.ended:
                await asyncio.sleep(every)
        return job

    async def workers(self, *, gone: bool = False) -> list[Presence]:
        """Who works, newest first; *gone* shows also those who stopped."""
        return await self.fetch(workers.all(gone=gone))

    async def metrics(self, label: str | int) -> Metrics:
        """The seven figures of the worker that carries *label*, or of the executor of that number."""
        return (await self.fetch(workers.metrics(label)))[0]

    async def queues(self) -> list[Queue]:
        """The queues, with how many jobs wait and run in each."""
        return await self.fetch(queues.all())

    async def health(self) -> Health:
        """How the database is doing: what can make a queue slow or unsafe, and who works."""
        found = (await self.fetch(health.look()))[0]
        echo = await asyncio.to_thread(notify.echo, self.database.url, self.settings)
        return dataclasses.replace(found, echo_seconds=echo)

    # — asking —

    async def cancel(self, id: int, *, reason: str = "person", conn: object = None) -> Job:
        """Stop a job: at once when it waits, with the next heartbeat when it runs."""
        return await self._ask(commands.cancel(id, reason=reason), conn)

    async def retry(self, id: int, *, attempts: int | None = None, conn: object = None) -> Job:
        """Try a failed, cancelled or reviewed job again; finished steps are not done again."""
        return await self._ask(commands.retry(id, attempts=attempts), conn)

    async def restart(self, id: int, *, attempts: int | None = None, conn: object = None) -> Job:
        """Run an ended job anew, from its first step; its checkpoints are set aside."""
        return await self._ask(commands.restart(id, attempts=attempts), conn)

    async def signal(self, id: int, name: str, value: Any = None, *, conn: object = None) -> bool:
        """Tell a job something it waits for (``run.wait_for``); False when it was told before."""
        return await self._ask(commands.signal(id, name, value), conn)

    async def pause_queue(self, name: str, *, reason: str = "person", conn: object = None) -> None:
        """Let nobody take jobs from a queue; what runs goes on."""
        await self._ask(only(queues.pause(name, reason=reason)), conn)

    async def resume_queue(self, name: str, *, conn: object = None) -> None:
        """Let a queue go on."""
        await self._ask(only(queues.resume(name)), conn)

    async def limit_lane(self, queue: str, lane: str, *, at_once: int | None, conn: object = None) -> None:
        """Let at most *at_once* jobs of a lane run at the same time; None lifts the limit."""
        await self._ask(commands.limit_lane(queue, lane, at_once=at_once), conn)

    async def prune(self, older_than: timedelta | None = None) -> int:
        """Remove jobs that ended longer ago than *older_than* (the retention setting); how many went."""
        keep = timedelta(days=self.settings.retention_days)
        return await self._ask(commands.prune(keep if older_than is None else older_than))

    async def recover(self) -> list[Recovered]:
        """Take back the jobs of workers that fell silent; every worker does this by itself every few seconds."""
        return await self.fetch(jobs.recover())

    # — by the clock —

    async def schedule(
        self, pipeline: Pipeline[I, Any], input: I, *, name: str, cron: str, zone: str = "UTC"
    ) -> Schedule:
        """Queue a job whenever *cron* comes, on the clocks of *zone*; the same *name* changes it."""
        return await self._ask(scheduling.put(pipeline, name, cron, input, zone=zone))

    async def change_schedule(self, name: str, *, cron: str | None = None, zone: str | None = None) -> Schedule:
        """Let a schedule come at another time."""
        return await self._ask(scheduling.change(name, cron=cron, zone=zone))

    async def schedules(self) -> list[Schedule]:
        """The schedules, by name."""
        return await self.fetch(schedules.all())

    async def run_schedule(self, name: str, *, conn: object = None) -> int:
        """Queue a schedule's job now; its clock goes on as it was. The job's id."""
        return await self._ask(scheduling.run_now(name), conn)

    async def pause_schedule(self, name: str, *, conn: object = None) -> None:
        """Let a schedule rest."""
        await self._ask(scheduling.pause(name), conn)

    async def resume_schedule(self, name: str, *, conn: object = None) -> Schedule:
        """Let a schedule go on, from the next time that comes."""
        return await self._ask(scheduling.resume(name), conn)

    async def remove_schedule(self, name: str) -> None:
        """Forget a schedule; jobs it queued stay."""
        await self._ask(scheduling.remove(name))

    # — working —

    def worker(
        self,
        *,
        processes: int | None = None,
        at_once: int | None = None,
        queues: Sequence[str] | None = None,
        label: str | None = None,
        reference: str | None = None,
    ) -> Worker:
        """A worker for this app: ``await app.worker().run()``. Its executors are processes of their own, which
        import the app by *reference* (module:attribute); found by itself when the app is a module's global.
        """
        return Worker(
            self, self.front, processes=processes, at_once=at_once, queues=queues, label=label, reference=reference
        )

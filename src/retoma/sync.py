"""Retoma without await: the same door, the same words, for programs that are not async."""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import psycopg

from retoma import commands, embedded, notify, scheduling
from retoma.commands import Command, options_of
from retoma.database import LOST, SyncDatabase
from retoma.errors import ConfigurationError, DatabaseUnreachable
from retoma.front import LATE_SECONDS, Enqueueing, Front, always, keys_of, prepare
from retoma.join import run_on_sync, run_whole_on_sync
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
from retoma.sync_batches import Batches
from retoma.sync_calling import Calls

T = TypeVar("T")
In = TypeVar("In")
Out = TypeVar("Out")


class Retoma(Batches, Calls):
    """An app for programs without async: ``with app:``. It queues, looks and asks; workers are async and apart."""

    def __init__(
        self,
        database_url: str | None = None,
        *,
        pipelines: Iterable[Pipeline[Any, Any]] = (),
        providers: Mapping[type, object] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.front = Front(database_url, pipelines=pipelines, providers=providers or {}, settings=settings)
        self._database: SyncDatabase | None = None
        self._embedded: embedded.Embedded | None = None
        self._late_hints: dict[str, threading.Timer] = {}
        self._openings = 0

    @property
    def settings(self) -> Settings:
        """What can be set from outside."""
        return self.front.settings

    # — coming and going —

    def open(self, *, upgrade: bool | None = None) -> Self:
        """Connect. The embedded database is brought to the right schema by itself; another only when asked."""
        self._openings += 1
        if self._database is not None:
            return self
        server = None
        try:
            url, server = prepare(self.settings, upgrade=upgrade)
            database = SyncDatabase(url, self.settings)
            database.open()
        except BaseException:
            self._openings -= 1
            if server is not None:
                server.release()
            raise
        self._database, self._embedded = database, server
        return self

    def close(self) -> None:
        """Let go of the database, once for each time it was opened."""
        self._openings -= 1
        if self._openings > 0:
            return
        for late in list(self._late_hints.values()):
            late.cancel()
        self._late_hints.clear()
        if self._database is not None:
            self._database.close()
        if self._embedded is not None:
            self._embedded.release()
        self._database = self._embedded = None

    def __enter__(self) -> Self:
        return self.open()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def database(self) -> SyncDatabase:
        """The open database."""
        if self._database is None:
            raise ConfigurationError("This app is not open.", next="Write 'with app:' around what uses it.")
        return self._database

    def fetch(self, query: Query[T]) -> list[T]:
        """The rows of a query; for pipelines that have tables of their own."""
        return self.database.all(query)

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection with a transaction around the block; pass it on as ``conn=``."""
        with self.database.transaction() as connection:
            yield connection

    def _ask(self, command: Command[T], conn: object = None) -> T:
        if conn is not None:
            return run_on_sync(conn, command)
        with self.database.connection() as connection:
            return run_on_sync(connection, command)

    def _transact(self, command: Command[T], conn: object = None) -> T:
        if conn is not None:
            return run_whole_on_sync(conn, command)
        with self.database.transaction() as connection:
            return run_on_sync(connection, command)

    # — queueing —

    def enqueue(
        self,
        pipeline: Pipeline[In, Any],
        input: In,
        *,
        key: str | None = None,
        conn: object = None,
        **options: Unpack[Enqueueing],
    ) -> Receipt:
        """Queue one job, on the caller's own *conn* if there is one; the same *key* gives the same job back."""
        hint = self._hint if conn is None else always
        return self._ask(commands.enqueue_one(pipeline, input, key, options_of(options), notify=hint), conn)

    def enqueue_many(
        self,
        pipeline: Pipeline[In, Any],
        inputs: Iterable[In],
        *,
        key: str | Callable[[In], str] | None = None,
        conn: object = None,
        **options: Unpack[Enqueueing],
    ) -> list[Receipt]:
        """Queue one job per input, all or none."""
        hint = self._hint if conn is None else always
        command = commands.enqueue(pipeline, inputs, keys_of(key), options_of(options), notify=hint)
        return self._transact(command, conn)

    def _hint(self, queue: str) -> bool:
        if self.front.hint_due(queue):
            return True
        # Too soon after the last hint: one more follows, for whoever went back to sleep in between.
        if queue not in self._late_hints:
            self._hint_later(queue)
        return False

    def _hint_later(self, queue: str) -> None:
        late = threading.Timer(LATE_SECONDS - self.front.hinted_ago(queue), self._hint_now, [queue])
        late.daemon = True
        self._late_hints[queue] = late
        late.start()

    def _hint_now(self, queue: str) -> None:
        if self._openings > 0 and not self.front.hint_due(queue):
            self._hint_later(queue)  # a job carried one meanwhile, and others may have come after it
            return
        self._late_hints.pop(queue, None)
        try:
            self.fetch(queues.hint(queue))
        except (*LOST, DatabaseUnreachable, ConfigurationError):
            return  # closed meanwhile, or unreachable: workers look by themselves

    # — looking —

    def job(self, id: int, *, conn: object = None) -> Job:
        """A job as it stands."""
        return self._ask(commands.job(id), conn)

    def jobs(
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
        return self._ask(
            commands.page(
                state=state, pipeline=pipeline, queue=queue, key=key, batch_id=batch_id, before=before, limit=limit
            )
        )

    def attempts(self, id: int) -> list[Attempt]:
        """How each claim of a job ended."""
        return self._ask(commands.attempts_of(id))

    def checkpoints(self, id: int) -> list[Checkpoint]:
        """What the steps of a job produced, also what was set aside."""
        return self._ask(commands.checkpoints_of(id))

    def output(self, pipeline: Pipeline[Any, Out], id: int) -> Out:
        """What a completed job returned."""
        return self._ask(commands.output(pipeline, id))

    def wait(self, id: int, *, timeout: float | None = None, every: float = 0.1) -> Job:
        """The job, once it has ended."""
        until = None if timeout is None else time.monotonic() + timeout
        while not (job := self.job(id)).state.ended:
            if until is not None and time.monotonic() > until:
                raise TimeoutError
            time.sleep(every)
        return job

    def workers(self, *, gone: bool = False) -> list[Presence]:
        """Who works, newest first; *gone* shows also those who stopped."""
        return self.fetch(workers.all(gone=gone))

    def metrics(self, label: str | int) -> Metrics:
        """The seven figures of the worker that carries *label*, or of the executor of that number."""
        return self.fetch(workers.metrics(label))[0]

    def queues(self) -> list[Queue]:
        """The queues, with how many jobs wait and run in each."""
        return self.fetch(queues.all())

    def health(self) -> Health:
        """How the database is doing: what can make a queue slow or unsafe, and who works."""
        found = self.fetch(health.look())[0]
        return dataclasses.replace(found, echo_seconds=notify.echo(self.database.url, self.settings))

    # — asking —

    def cancel(self, id: int, *, reason: str = "person", conn: object = None) -> Job:
        """Stop a job: at once when it waits, with the next heartbeat when it runs."""
        return self._ask(commands.cancel(id, reason=reason), conn)

    def retry(self, id: int, *, attempts: int | None = None, conn: object = None) -> Job:
        """Try a failed, cancelled or reviewed job again; finished steps are not done again."""
        return self._ask(commands.retry(id, attempts=attempts), conn)

    def restart(self, id: int, *, attempts: int | None = None, conn: object = None) -> Job:
        """Run an ended job anew, from its first step; its checkpoints are set aside."""
        return self._ask(commands.restart(id, attempts=attempts), conn)

    def signal(self, id: int, name: str, value: Any = None, *, conn: object = None) -> bool:
        """Tell a job something it waits for (``run.wait_for``); False when it was told before."""
        return self._ask(commands.signal(id, name, value), conn)

    def pause_queue(self, name: str, *, reason: str = "person", conn: object = None) -> None:
        """Let nobody take jobs from a queue; what runs goes on."""
        self._ask(commands.only(queues.pause(name, reason=reason)), conn)

    def resume_queue(self, name: str, *, conn: object = None) -> None:
        """Let a queue go on."""
        self._ask(commands.only(queues.resume(name)), conn)

    def limit_lane(self, queue: str, lane: str, *, at_once: int | None, conn: object = None) -> None:
        """Let at most *at_once* jobs of a lane run at the same time; None lifts the limit."""
        self._ask(commands.limit_lane(queue, lane, at_once=at_once), conn)

    def prune(self, older_than: timedelta | None = None) -> int:
        """Remove jobs that ended longer ago than *older_than* (the retention setting); how many went."""
        keep = timedelta(days=self.settings.retention_days)
        return self._ask(commands.prune(keep if older_than is None else older_than))

    def recover(self) -> list[Recovered]:
        """Take back the jobs of workers that fell silent; every worker does this by itself every few seconds."""
        return self.fetch(jobs.recover())

    # — by the clock —

    def schedule(self, pipeline: Pipeline[In, Any], input: In, *, name: str, cron: str, zone: str = "UTC") -> Schedule:
        """Queue a job whenever *cron* comes, on the clocks of *zone*; the same *name* changes it."""
        return self._ask(scheduling.put(pipeline, name, cron, input, zone=zone))

    def change_schedule(self, name: str, *, cron: str | None = None, zone: str | None = None) -> Schedule:
        """Let a schedule come at another time."""
        return self._ask(scheduling.change(name, cron=cron, zone=zone))

    def schedules(self) -> list[Schedule]:
        """The schedules, by name."""
        return self.fetch(schedules.all())

    def run_schedule(self, name: str, *, conn: object = None) -> int:
        """Queue a schedule's job now; its clock goes on as it was. The job's id."""
        return self._ask(scheduling.run_now(name), conn)

    def pause_schedule(self, name: str, *, conn: object = None) -> None:
        """Let a schedule rest."""
        self._ask(scheduling.pause(name), conn)

    def resume_schedule(self, name: str, *, conn: object = None) -> Schedule:
        """Let a schedule go on, from the next time that comes."""
        return self._ask(scheduling.resume(name), conn)

    def remove_schedule(self, name: str) -> None:
        """Forget a schedule; jobs it queued stay."""
        self._ask(scheduling.remove(name))

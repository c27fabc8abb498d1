"""Retoma without await: the same class and the same names, for synchronous programs."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self, TypeVar, Unpack

import psycopg

from retoma.app.extension import Extension, branches_of, reviews_of, unique
from retoma.commands import batches as batch_commands
from retoma.commands import jobs as job_commands
from retoma.commands.jobs import only
from retoma.commands.options import Batching, Enqueueing, always, keys_of
from retoma.commands.reviews import Desk
from retoma.errors import ConfigurationError, DatabaseUnreachable
from retoma.model.batch import Batch
from retoma.model.job import (
    Receipt,
)
from retoma.postgres.connections import run_on_sync
from retoma.postgres.database import LOST, SyncDatabase
from retoma.postgres.embedded import server as embedded_server
from retoma.postgres.prepare import prepare
from retoma.run.pipeline import Pipeline
from retoma.run.registry import LATE_SECONDS, Registry, listed
from retoma.store import queues
from retoma.store.query import Query
from retoma.sync.batches import Batches
from retoma.sync.calls import Calls
from retoma.sync.jobs import Jobs
from retoma.sync.queues import Queues
from retoma.sync.reviews import Reviews
from retoma.sync.runner import Runner
from retoma.sync.schedules import Schedules
from retoma.sync.system import System
from retoma.sync.workers import Workers
from retoma.system.settings import Settings
from retoma.worker.maintenance_jobs import MAINTENANCE_JOBS

T = TypeVar("T")
In = TypeVar("In")
Out = TypeVar("Out")


class Retoma:
    """An app for synchronous programs: ``with app:``. It enqueues, reads and acts; workers are
    async and run elsewhere.
    """

    def __init__(
        self,
        database_url: str | None = None,
        *,
        pipelines: Iterable[Pipeline[Any, Any]] = (),
        extensions: Iterable[Extension] = (),
        providers: Mapping[type, object] | None = None,
        settings: Settings | None = None,
    ) -> None:
        self.extensions = tuple(unique(extensions))
        brought = (pipeline for each in self.extensions for pipeline in each.load_pipelines())
        self.registry = Registry(
            database_url,
            maintenance=MAINTENANCE_JOBS,
            pipelines=(*listed(pipelines), *brought),
            providers=providers or {},
            settings=settings,
        )
        self._database: SyncDatabase | None = None
        self._embedded: embedded_server.Embedded | None = None
        self._late_hints: dict[str, threading.Timer] = {}
        self._openings = 0
        self._reviewing: Desk | None = None
        self._run = Runner(lambda: self.database, self.settings)
        self.jobs = Jobs(self._run)
        self.batches = Batches(self._run)
        self.calls = Calls(self._run)
        self.reviews = Reviews(self._run, self._desk)
        self.queues = Queues(self._run)
        self.schedules = Schedules(self._run)
        self.workers = Workers(self._run)
        self.system = System(self._run)

    def _desk(self) -> Desk:
        if self._reviewing is None:
            self._reviewing = Desk(reviews_of(self.extensions), self.registry.pipelines)
        return self._reviewing

    @property
    def settings(self) -> Settings:
        """The settings of the app."""
        return self.registry.settings

    # — opening and closing —

    def open(self, *, upgrade: bool | None = None) -> Self:
        """Connect. The schema of the embedded database is upgraded automatically; that of another only on request."""
        self._openings += 1
        if self._database is not None:
            return self
        server = None
        try:
            url, server = prepare(self.settings, upgrade=upgrade, branches=branches_of(self.extensions))
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
        """Close the database; each ``open`` needs one ``close``."""
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

    def provider(self, protocol: type[T] | Callable[..., T]) -> T:
        """The provider of *protocol* for the pipelines, such as ``app.provider(Chat)``."""
        return self.registry.provider(protocol)

    def provides(self, protocol: type) -> bool:
        """Whether there is a provider of *protocol*."""
        return protocol in self.registry.providers

    @property
    def database(self) -> SyncDatabase:
        """The open database."""
        if self._database is None:
            raise ConfigurationError("This app is not open.", next="Write 'with app:' around what uses it.")
        return self._database

    def fetch(self, query: Query[T], *, conn: object = None) -> list[T]:
        """The rows of a query, for products with tables of their own. With *conn*, in the caller's transaction."""
        return self.database.all(query) if conn is None else run_on_sync(conn, only(query))

    @contextmanager
    def transaction(self) -> Iterator[psycopg.Connection[Any]]:
        """A connection in a transaction for the block; pass it on as ``conn=``."""
        with self.database.transaction() as connection:
            yield connection

    # — enqueueing —

    def enqueue(
        self,
        pipeline: Pipeline[In, Any],
        input: In,
        *,
        key: str | None = None,
        conn: object = None,
        **options: Unpack[Enqueueing],
    ) -> Receipt:
        """Enqueue one job, on the caller's own *conn* if there is one; the same *key* returns the same job."""
        hint = self._hint if conn is None else always
        return self._run.ask(job_commands.enqueue_one(pipeline, input, key, options, notify=hint), conn)

    def enqueue_many(
        self,
        pipeline: Pipeline[In, Any],
        inputs: Iterable[In],
        *,
        key: str | Callable[[In], str] | None = None,
        conn: object = None,
        **options: Unpack[Enqueueing],
    ) -> list[Receipt]:
        """Enqueue one job per input, all or none."""
        hint = self._hint if conn is None else always
        command = job_commands.enqueue(pipeline, inputs, keys_of(key), options, notify=hint)
        return self._run.transact(command, conn)

    def batch(
        self,
        pipeline: Pipeline[In, Any],
        inputs: Iterable[In],
        *,
        name: str,
        key: Callable[[In], str] | None = None,
        conn: object = None,
        **options: Unpack[Batching],
    ) -> Batch:
        """Enqueue one job per input as one batch, all or nothing. *key* names each input."""
        command = batch_commands.create(pipeline, inputs, keys_of(key), name, batch_commands.options_of(options))
        return self._run.transact(command, conn)

    def _hint(self, queue: str) -> bool:
        if self.registry.hint_due(queue):
            return True
        # It is too soon after the last hint: send one more later, for workers that went idle in between.
        if queue not in self._late_hints:
            self._hint_later(queue)
        return False

    def _hint_later(self, queue: str) -> None:
        late = threading.Timer(LATE_SECONDS - self.registry.hinted_ago(queue), self._hint_now, [queue])
        late.daemon = True
        self._late_hints[queue] = late
        late.start()

    def _hint_now(self, queue: str) -> None:
        if self._openings > 0 and not self.registry.hint_due(queue):
            self._hint_later(queue)  # a job carried a hint meanwhile, and others may have followed it
            return
        self._late_hints.pop(queue, None)
        try:
            self.fetch(queues.hint(queue))
        except (*LOST, DatabaseUnreachable, ConfigurationError):
            return  # closed meanwhile, or unreachable: workers also poll

"""Retoma: the public entry point, which binds pipelines and providers to a database."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Any, Self, TypeVar, Unpack

import psycopg

from retoma.app.access.audit import Audit
from retoma.app.access.keys import Access
from retoma.app.access.sessions import Sessions
from retoma.app.batches import Batches
from retoma.app.calls import Calls
from retoma.app.extension import Extension, branches_of, reviews_of, standing_of, unique
from retoma.app.fetch import fetch
from retoma.app.jobs import Jobs
from retoma.app.queues import Queues
from retoma.app.reviews import Reviews
from retoma.app.runner import Runner
from retoma.app.schedules import Schedules
from retoma.app.system import System
from retoma.app.webhooks import Webhooks
from retoma.app.workers import Workers
from retoma.calls.caller import Caller
from retoma.calls.perform import perform
from retoma.commands import batches as batch_commands
from retoma.commands import jobs as job_commands
from retoma.commands.options import Batching, Enqueueing, always, keys_of
from retoma.commands.reviews import Desk
from retoma.errors import ConfigurationError
from retoma.isolate import child
from retoma.model.batch import Batch
from retoma.model.endings import Suspend
from retoma.model.job import Receipt
from retoma.postgres.database import Database
from retoma.postgres.embedded import server as embedded_server
from retoma.postgres.faults import UNAVAILABLE
from retoma.postgres.prepare import prepare
from retoma.providers import Chat, Embedder, Prompt, RateLimited
from retoma.providers.request import Request
from retoma.providers.requests.ask import Ask
from retoma.providers.requests.embed import Embed
from retoma.run.pipeline import Pipeline
from retoma.run.registry import LATE_SECONDS, Registry, listed
from retoma.store import queues
from retoma.store.query import Query
from retoma.system.settings import Settings
from retoma.worker.maintenance_jobs import MAINTENANCE_JOBS
from retoma.worker.supervisor import Worker

T = TypeVar("T")
In = TypeVar("In")
I = TypeVar("I")
O = TypeVar("O")


class Retoma:
    """An app: its pipelines, the providers they need, and a database. Use it as ``async with app:``.

    The commands on jobs, batches, calls, queues, schedules and workers are in namespaces: ``app.jobs.cancel(id)``,
    ``app.batches.explain(id)``.
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
        # The child of an isolated function imports the function's module, and with it an app in the same module. The
        # child runs no job, and does not see the settings that choose the providers.
        offered = () if child.inside else (*listed(pipelines), *brought)
        self.registry = Registry(
            database_url,
            maintenance=MAINTENANCE_JOBS,
            pipelines=offered,
            providers=providers or {},
            settings=settings,
        )
        self._database: Database | None = None
        self._embedded: embedded_server.Embedded | None = None
        self._late_hints: dict[str, asyncio.TimerHandle] = {}
        self._openings = 0
        self._caller: Caller | None = None
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
        self.access = Access(lambda: self.database)
        self.webhooks = Webhooks(lambda: self.database)
        self.sessions = Sessions(lambda: self.database)
        self.audit = Audit(lambda: self.database, lambda: standing_of(self.extensions))

    def _desk(self) -> Desk:
        if self._reviewing is None:
            self._reviewing = Desk(reviews_of(self.extensions), self.registry.pipelines)
        return self._reviewing

    @property
    def settings(self) -> Settings:
        """The settings of the app."""
        return self.registry.settings

    # — opening and closing —

    async def open(self, *, upgrade: bool | None = None) -> Self:
        """Connect. The schema of the embedded database is upgraded automatically; that of another only on request."""
        self._openings += 1
        if self._database is not None:
            return self
        server = None
        try:
            url, server = await asyncio.to_thread(
                prepare, self.settings, upgrade=upgrade, branches=branches_of(self.extensions)
            )
            database = Database(url, self.settings, least=0, most=self.settings.pool_connections)
            await database.open()
        except BaseException:
            self._openings -= 1
            if server is not None:
                server.release()
            raise
        self._database, self._embedded = database, server
        return self

    async def close(self) -> None:
        """Close the database; each ``open`` needs one ``close``. An embedded server stops with its last user."""
        self._openings -= 1
        if self._openings > 0:
            return
        for late in self._late_hints.values():
            late.cancel()
        self._late_hints.clear()
        await self._run.close()
        database, server = self._database, self._embedded
        self._database = self._embedded = None  # first, because a closing event loop cancels the waits below
        try:
            if database is not None:
                await database.close()
        finally:
            if server is not None:
                server.release()

    async def __aenter__(self) -> Self:
        return await self.open()

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    @property
    def database(self) -> Database:
        """The open database."""
        if self._database is None:
            raise ConfigurationError("This app is not open.", next="Write 'async with app:' around what uses it.")
        return self._database

    async def fetch(self, query: Query[T], *, conn: object = None) -> list[T]:
        """The rows of a query, for products with tables of their own. With *conn*, in the caller's transaction."""
        return await self.database.all(query) if conn is None else await fetch(conn, query)

    def provider(self, protocol: type[T] | Callable[..., T]) -> T:
        """The provider of *protocol* for the pipelines, such as ``app.provider(Chat)``."""
        return self.registry.provider(protocol)

    def provides(self, protocol: type) -> bool:
        """Whether there is a provider of *protocol*."""
        return protocol in self.registry.providers

    @asynccontextmanager
    async def transaction(self) -> AsyncIterator[psycopg.AsyncConnection[Any]]:
        """A connection in a transaction for the block; pass it on as ``conn=``."""
        async with self.database.transaction() as connection:
            yield connection

    # — enqueueing —

    async def enqueue(
        self,
        pipeline: Pipeline[I, Any],
        input: I,
        *,
        key: str | None = None,
        conn: object = None,
        **options: Unpack[Enqueueing],
    ) -> Receipt:
        """Enqueue one job. With *conn*, a connection of the caller's own, it commits or rolls back with the caller's
        rows. The same *key* returns the same job, or raises KeyTaken with ``if_taken='raise'``.
        """
        hint = self._hint if conn is None else always
        return await self._run.ask(job_commands.enqueue_one(pipeline, input, key, options, notify=hint), conn)

    async def enqueue_many(
        self,
        pipeline: Pipeline[I, Any],
        inputs: Iterable[I],
        *,
        key: str | Callable[[I], str] | None = None,
        conn: object = None,
        **options: Unpack[Enqueueing],
    ) -> list[Receipt]:
        """Enqueue one job per input, all or none."""
        hint = self._hint if conn is None else always
        command = job_commands.enqueue(pipeline, inputs, keys_of(key), options, notify=hint)
        return await self._run.transact(command, conn)

    async def batch(
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
        return await self._run.transact(command, conn)

    def _hint(self, queue: str) -> bool:
        if self.registry.hint_due(queue):
            return True
        # It is too soon after the last hint: send one more later, for workers that went idle in between.
        if queue not in self._late_hints:
            self._hint_later(queue)
        return False

    def _hint_later(self, queue: str) -> None:
        wait = LATE_SECONDS - self.registry.hinted_ago(queue)
        self._late_hints[queue] = asyncio.get_running_loop().call_later(wait, self._hint_now, queue)

    def _hint_now(self, queue: str) -> None:
        if self.registry.hint_due(queue):
            del self._late_hints[queue]
            self._hinting = asyncio.create_task(self._send_hint(queue))  # kept: the loop holds no reference
        else:
            self._hint_later(queue)  # a job carried a hint meanwhile, and others may have followed it

    async def _send_hint(self, queue: str) -> None:
        if self._database is not None:
            with contextlib.suppress(*UNAVAILABLE):  # only a hint: workers also poll
                await self._database.all(queues.hint(queue))

    # — outside a job —

    async def call(self, name: str, request: Request[T]) -> T:
        """The answer of a provider to *request*, of whatever kind, outside a job; ``ask`` and ``embed``
        are short forms of it.
        """
        with _rate_limit_for(request.provider):
            return await perform(self._own_caller(), None, name, request)

    async def ask(
        self,
        name: str,
        chat: Chat,
        prompt: str | Prompt,
        *,
        into: type[T] = str,  # type: ignore[assignment]
        repairs: int = 2,
        timeout: float = 60.0,
        reuse: bool = True,
    ) -> T:
        """The answer of a model outside a job, as with ``run.ask``: recorded as *name*, limited, and paid once. No
        batch pays for it. Raises RateLimited when the limit would make the caller wait too long.
        """
        return await self.call(
            name, Ask(chat=chat, prompt=prompt, into=into, repairs=repairs, timeout=timeout, reuse=reuse)
        )

    async def embed(
        self, name: str, embedder: Embedder, texts: Sequence[str], *, timeout: float = 30.0, reuse: bool = True
    ) -> list[list[float]]:
        """One vector per text outside a job, as with ``ask``."""
        return await self.call(name, Embed(embedder=embedder, texts=texts, timeout=timeout, reuse=reuse))

    def _own_caller(self) -> Caller:
        if self._caller is None or self._caller.database is not self.database:
            self._caller = Caller(
                self.database, None, tenant=self.settings.reuse_within, unknown_price=self.settings.unknown_price
            )
        return self._caller

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
        """A worker for this app: ``await app.worker().run()``. Its executors are separate processes that import the app
        by *reference* (module:attribute); it is found automatically when the app is a global of a module.
        """
        return Worker(
            self, self.registry, processes=processes, at_once=at_once, queues=queues, label=label, reference=reference
        )


@contextmanager
def _rate_limit_for(provider: str) -> Iterator[None]:
    """Raise RateLimited where a job would be suspended: a caller outside a job is told how long to wait."""
    try:
        yield
    except Suspend as wait:
        raise RateLimited(
            f"{provider} cannot be asked now ({wait}).",
            next="Ask again later.",
            provider=provider,
            retry_after=wait.delay,
            paid=False,
        ) from None

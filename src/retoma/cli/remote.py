"""A server over HTTP, as the commands use an app. What it changes and shows is audited there, and not here."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from retoma.cli.language import Phrase
from retoma.errors import ConfigurationError
from retoma.model.batch import Batch, Operation, Plan, Resumed
from retoma.model.job import Job, JobState

if TYPE_CHECKING:
    from retoma.client import AsyncClient
    from retoma.client.values import Done
    from retoma.model.ids import BatchId
    from retoma.model.review import Decision

_LOCAL = ("conn", "by", "wait", "words")
"""What only an app is told: the transaction, who asks, whether to wait, and whether content is left out."""
_AT_ONCE = 8
_TOLD = (JobState.FAILED, JobState.REVIEW)


class Remote:
    """The namespaces of a client, with the words that commands use."""

    def __init__(self, client: AsyncClient) -> None:
        self.url = client.url
        self.batches = _Batches(client.batches)
        self.jobs = _Jobs(client.jobs)
        self.reviews = _Reviews(client.reviews)
        for name in ("calls", "queues", "schedules", "workers", "system"):
            setattr(self, name, _Namespace(getattr(client, name)))

    def __getattr__(self, name: str) -> Any:
        raise needs_database()


class _Namespace:
    """The methods of a namespace of the client, without what only an app is told."""

    def __init__(self, asked: Any) -> None:
        self._asked = asked

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._asked, name, None)
        if method is None:
            raise needs_database()
        return lambda *args, **options: method(*args, **_without_local(options))


class _Batches(_Namespace):
    """Batches. An operation belongs to a batch, and is followed there."""

    def __init__(self, asked: Any) -> None:
        super().__init__(asked)
        self._batch_of: dict[int, BatchId] = {}

    async def plan(self, id: BatchId, *, configuration: object = None) -> Plan:
        """What a resume would do; what a restart under another configuration would, no server says."""
        if configuration is not None:
            raise needs_database()
        plan: Plan = await self._asked.plan(id)
        return plan

    async def resume(self, id: BatchId, **how: Any) -> Resumed:
        return await self._resumed(id, await self._asked.resume(id, **_without_local(how)))

    async def retry_failed(self, id: BatchId, **how: Any) -> Resumed:
        return await self._resumed(id, await self._asked.retry_failed(id, **_without_local(how)))

    async def restart(self, id: BatchId, **how: Any) -> Resumed:
        return await self._resumed(id, await self._asked.restart(id, **_without_local(how)))

    async def replan(self, id: BatchId, **how: Any) -> Resumed:
        return await self._resumed(id, await self._asked.replan(id, **_said(how)))

    async def cancel(self, id: BatchId, **how: Any) -> Batch:
        batch: Batch = await self._asked.cancel(id, **_without_local(how))
        return self._noted(batch)

    async def carry_out(self, operation: int) -> AsyncIterator[Operation]:
        if operation not in self._batch_of:  # one of jobs of any batch, which the server carries out by itself
            return
        async for now in self._asked.carry_out(operation, batch=self._batch_of[operation]):
            yield now

    async def _resumed(self, id: BatchId, done: Done) -> Resumed:
        batch = replace(await self._asked.get(id), operation_id=done.operation_id)
        return Resumed(self._noted(batch), done.changed, done.word, done.jobs)

    def _noted(self, batch: Batch) -> Batch:
        if batch.operation_id is not None:
            self._batch_of[batch.operation_id] = batch.id
        return batch


class _Jobs(_Namespace):
    """Jobs. A list over HTTP has no content, so a job is asked for where its content or its error is shown."""

    async def find(self, *, content: bool = True, **wanted: Any) -> Sequence[Job]:
        found: Sequence[Job] = await self._asked.find(**wanted)
        turns = asyncio.Semaphore(_AT_ONCE)

        async def whole(job: Job) -> Job:
            if not content and job.state not in _TOLD:
                return job
            async with turns:
                got: Job = await self._asked.get(job.id)
                return got

        return await asyncio.gather(*map(whole, found))


class _Reviews(_Namespace):
    """Reviews. Who decides is whoever the server knows by the key."""

    async def accept(self, id: int, _who: str, **by: Any) -> Decision:
        decision: Decision = await self._asked.accept(id, **_said(by))
        return decision

    async def correct(self, id: int, value: Any, _who: str, **by: Any) -> Decision:
        decision: Decision = await self._asked.correct(id, value, **_said(by))
        return decision

    async def reject(self, id: int, _who: str, **by: Any) -> Decision:
        decision: Decision = await self._asked.reject(id, **_said(by))
        return decision

    async def undo(self, _who: str, id: int | None = None, **by: Any) -> Decision:
        decision: Decision = await self._asked.undo(id, **_said(by))
        return decision


def client_of(url: str) -> AsyncClient:
    """A client of the server at *url*."""
    try:
        from retoma.client import AsyncClient
    except ModuleNotFoundError as error:
        raise ConfigurationError(
            Phrase("To ask a server, {module} is missing.", module=error.name), next="pip install 'retoma[client]'"
        ) from error
    return AsyncClient(url)


def needs_database() -> ConfigurationError:
    """What is said of a thing that no server does."""
    return ConfigurationError(
        Phrase("This needs the database, and cannot be asked of a server."),
        next=Phrase("set DATABASE_URL, without --api and RETOMA_API_URL."),
    )


def _said(by: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in _without_local(by).items() if value is not None}


def _without_local(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if name not in _LOCAL}

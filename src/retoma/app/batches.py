"""Batches of an app: many jobs followed as one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from retoma.app.runner import Runner
from retoma.commands import batch_actions, maintenance
from retoma.commands import batches as batch_commands
from retoma.commands import jobs as job_commands
from retoma.commands import operations as operation_commands
from retoma.commands.options import Batching, Changing, keys_of
from retoma.model.batch import (
    Batch,
    BatchState,
    Durations,
    ErrorGroup,
    Event,
    Operation,
    Plan,
    Progress,
    Resumed,
    StepFigures,
)
from retoma.model.evidence import Explanation
from retoma.model.ids import BatchId
from retoma.model.job import (
    Receipt,
)
from retoma.run.pipeline import Pipeline
from retoma.store import batches, operations

In = TypeVar("In")


class Batches:
    """Batches of an app: many jobs followed as one."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    async def open(
        self,
        pipeline: Pipeline[Any, Any],
        *,
        name: str,
        expires: float = 3600.0,
        conn: object = None,
        **options: Unpack[Batching],
    ) -> Batch:
        """A batch to be filled bit by bit. None of its jobs is taken until it is sealed; if that does not happen
        within *expires* seconds, it is cancelled.
        """
        return await self._run.transact(
            batch_commands.open(pipeline, name, batch_commands.options_of(options), expires=expires), conn
        )

    async def fill(
        self,
        id: BatchId,
        pipeline: Pipeline[In, Any],
        inputs: Iterable[In],
        *,
        key: Callable[[In], str] | None = None,
        conn: object = None,
        **options: Unpack[Batching],
    ) -> list[Receipt]:
        """Add jobs to an open batch; the same key gives the same job back, so a part may be sent twice."""
        command = batch_commands.fill(id, pipeline, inputs, keys_of(key), batch_commands.options_of(options))
        return await self._run.transact(command, conn)

    async def get(self, id: BatchId, *, conn: object = None) -> Batch:
        """A batch as it stands."""
        return await self._run.ask(batch_commands.one(id), conn)

    async def hold(self, id: BatchId, *, conn: object) -> None:
        """Nobody else gives the batch an order until the transaction of *conn* ends."""
        await self._run.ask(batch_commands.hold(id), conn)

    async def find(
        self,
        *,
        states: Sequence[BatchState | str] | None = None,
        pipeline: str | None = None,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Batch]:
        """Batches, newest first, *before* an id for the next page."""
        return await self._run.ask(
            batch_commands.page(states=states, pipeline=pipeline, labels=labels, name=name, before=before, limit=limit)
        )

    async def progress(self, id: BatchId) -> Progress:
        """How far a batch has come, every figure from one snapshot."""
        return await self._run.ask(batch_commands.progress(id))

    async def steps(self, id: BatchId) -> list[StepFigures]:
        """Step by step: how often, how long, and how many jobs got as far as this."""
        return await self._run.ask(batch_commands.steps(id))

    async def durations(self, id: BatchId) -> Durations:
        """How long the attempts that ended well took."""
        return await self._run.ask(batch_commands.durations(id))

    async def errors(self, id: BatchId) -> list[ErrorGroup]:
        """What failed in a batch, by what is the same in the errors."""
        return await self._run.ask(batch_commands.errors(id))

    async def plan(self, id: BatchId, *, configuration: Mapping[str, Any] | None = None) -> Plan:
        """What a resume would skip, continue and begin; with another *configuration*, what a restart would do again."""
        return await self._run.ask(batch_commands.plan(id, configuration=configuration))

    async def explain(self, id: BatchId, *, words: bool = True) -> Explanation:
        """Why a batch moves, or does not, and what to do; without *words*, nothing that errors say is told."""
        return await self._run.ask(batch_commands.explained(id, words=words))

    async def events(self, id: BatchId, *, after: int = 0, limit: int = 500) -> list[Event]:
        """What happened to a batch, in order, after a cursor."""
        return await self._run.ask(batch_commands.events(id, after=after, limit=limit))

    async def pipelines_of(self, ids: Collection[int]) -> dict[int, str]:
        """Of which pipeline each batch is; those that are not there are left out."""
        return dict(await self._run.ask(job_commands.only(batches.pipelines(ids))))

    async def news(self, cursors: Mapping[BatchId, int], *, limit: int = 500) -> list[Event]:
        """What happened to many batches, each after its own cursor."""
        return await self._run.ask(job_commands.only(batches.news(cursors, limit=limit)))

    async def seal(self, id: BatchId, *, expected: int | None = None, conn: object = None) -> Batch:
        """Let the jobs of an open batch be taken; *expected* must be how many there are."""
        return await self._run.transact(batch_commands.seal(id, expected=expected), conn)

    async def resume(
        self,
        id: BatchId,
        *,
        epoch: int | None = None,
        max_resumes: int | None = None,
        by: str = "person",
        conn: object = None,
    ) -> Resumed:
        """Continue a batch from where it stopped. Safe to ask many times: of several at once, one does it. Jobs that
        hang are taken back; *max_resumes* allows more than before; *epoch* refuses when it changed since you looked.
        """
        return await self._run.transact(batch_actions.resume(id, epoch=epoch, max_resumes=max_resumes, by=by), conn)

    async def retry_failed(
        self,
        id: BatchId,
        *,
        fingerprint: str | None = None,
        cancelled: bool = False,
        attempts: int | None = None,
        by: str = "person",
        wait: bool = True,
        conn: object = None,
    ) -> Resumed:
        """Try only the failed jobs of a batch again, perhaps one error group; finished steps are not done again. A
        batch of many thousands is worked through in pieces; without *wait*, or with *conn*, that goes on afterwards.
        """
        command = batch_actions.retry_failed(id, fingerprint=fingerprint, cancelled=cancelled, attempts=attempts, by=by)
        return await self._resumed(await self._run.transact(command, conn), wait=wait and conn is None)

    async def pause(self, id: BatchId, *, reason: str = "person", by: str = "person", conn: object = None) -> Batch:
        """Let a batch rest: nobody takes its jobs, and those that run go back after the step at hand."""
        return await self._run.transact(batch_actions.pause(id, reason=reason, by=by), conn)

    async def cancel(
        self, id: BatchId, *, reason: str = "person", by: str = "person", wait: bool = True, conn: object = None
    ) -> Batch:
        """Stop a batch: what waits ends now, what runs within a heartbeat; what is done stays done. A batch of many
        thousands is worked through in pieces; without *wait*, or with *conn*, that goes on afterwards.
        """
        batch = await self._run.transact(batch_actions.cancel(id, reason=reason, by=by), conn)
        return await self._carried_out(batch, wait=wait and conn is None)

    async def restart(
        self,
        id: BatchId,
        *,
        configuration: Mapping[str, Any] | None = None,
        by: str = "person",
        wait: bool = True,
        conn: object = None,
    ) -> Resumed:
        """Run every job of an ended batch anew, also what is done, perhaps under another *configuration*. A batch of
        many thousands is worked through in pieces; without *wait*, or with *conn*, that goes on afterwards.
        """
        command = batch_actions.restart(id, configuration=configuration, by=by)
        return await self._resumed(await self._run.transact(command, conn), wait=wait and conn is None)

    async def operations(self, id: BatchId, *, limit: int = 20) -> list[Operation]:
        """The commands that were carried out on a batch in pieces, or still are; the newest first."""
        await self.get(id)
        return await self._run.ask(job_commands.only(operations.of(id, limit=limit)))

    async def carry_out(self, operation: int) -> AsyncIterator[Operation]:
        """Work through an operation, and say after each piece how far it is; several may do so at once."""
        async for now in self._run.carry_out(operation):
            yield now

    async def _carried_out(self, batch: Batch, *, wait: bool) -> Batch:
        if batch.operation_id is None or not wait:
            self._run.carry_later(batch.operation_id)
            return batch
        async for _ in self.carry_out(batch.operation_id):
            pass
        return await self.get(batch.id)

    async def _resumed(self, did: Resumed, *, wait: bool) -> Resumed:
        id = did.batch.operation_id
        if id is None or not wait or not did.changed:
            self._run.carry_later(id)
            return did
        batch = await self._carried_out(did.batch, wait=True)
        done = await self._run.ask(operation_commands.one(id))
        return replace(did, batch=batch, jobs=done.done, changed=done.done > 0)

    async def change(
        self,
        id: BatchId,
        *,
        epoch: int | None = None,
        by: str = "person",
        conn: object = None,
        **changes: Unpack[Changing],
    ) -> Batch:
        """Another name, limit, budget or labels for a batch; refused when it changed since *epoch*."""
        return await self._run.transact(batch_actions.change(id, changes, epoch=epoch, by=by), conn)

    async def look_after(self) -> maintenance.Round:
        """Ask why batches do not move, and go on with what is half done; every worker does this by itself."""
        did = await self._run.transact(maintenance.look_after())
        maintenance.tell_round(did)
        await self._run.carry_on()
        return did

    async def watch(self, id: BatchId, *, every: float = 0.5) -> AsyncIterator[Progress]:
        """The progress of a batch, again whenever something happened to it, until it has ended."""
        seen = -1
        while True:
            now = await self.progress(id)
            if now.event_seq != seen:
                seen = now.event_seq
                yield now
            if now.state.ended:
                return
            await self._run.sleep(every)

"""What the front door says of batches."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar, Unpack

from retoma import batching, commands, resuming, verifying
from retoma.batch import (
    Batch,
    BatchState,
    Breach,
    Durations,
    ErrorGroup,
    Event,
    Plan,
    Progress,
    Resumed,
    StepFigures,
)
from retoma.batching import BatchOptions
from retoma.commands import Command
from retoma.evidence import Explanation
from retoma.front import Batching, Changing, keys_of
from retoma.model import Receipt
from retoma.pipeline import Pipeline
from retoma.store import batches

T = TypeVar("T")
In = TypeVar("In")


class Batches:
    """Batches, as an app offers them."""

    async def _ask(self, command: Command[T], conn: object = None) -> T:
        raise NotImplementedError

    async def _transact(self, command: Command[T], conn: object = None) -> T:
        raise NotImplementedError

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
        """Queue one job per input and follow them as one; all of it is there, or nothing. *key* names each input."""
        command = batching.create(pipeline, inputs, keys_of(key), name, BatchOptions(**options))
        return await self._transact(command, conn)

    async def open_batch(
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
        return await self._transact(batching.open(pipeline, name, BatchOptions(**options), expires=expires), conn)

    async def fill(
        self,
        id: int,
        pipeline: Pipeline[In, Any],
        inputs: Iterable[In],
        *,
        key: Callable[[In], str] | None = None,
        conn: object = None,
        **options: Unpack[Batching],
    ) -> list[Receipt]:
        """Add jobs to an open batch; the same key gives the same job back, so a part may be sent twice."""
        command = batching.fill(id, pipeline, inputs, keys_of(key), BatchOptions(**options))
        return await self._transact(command, conn)

    async def get_batch(self, id: int, *, conn: object = None) -> Batch:
        """A batch as it stands."""
        return await self._ask(batching.one(id), conn)

    async def batches(
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
        return await self._ask(
            batching.page(states=states, pipeline=pipeline, labels=labels, name=name, before=before, limit=limit)
        )

    async def progress(self, id: int) -> Progress:
        """How far a batch has come, every figure from one snapshot."""
        return await self._ask(batching.progress(id))

    async def steps(self, id: int) -> list[StepFigures]:
        """Step by step: how often, how long, and how many jobs got as far as this."""
        return await self._ask(batching.steps(id))

    async def durations(self, id: int) -> Durations:
        """How long the attempts that ended well took."""
        return await self._ask(batching.durations(id))

    async def errors(self, id: int) -> list[ErrorGroup]:
        """What failed in a batch, by what is the same in the errors."""
        return await self._ask(batching.errors(id))

    async def plan(self, id: int, *, configuration: Mapping[str, Any] | None = None) -> Plan:
        """What a resume would skip, continue and begin; with another *configuration*, what a restart would do again."""
        return await self._ask(batching.plan(id, configuration=configuration))

    async def explain(self, id: int) -> Explanation:
        """Why a batch moves, or does not, and what to do."""
        return await self._ask(batching.explained(id))

    async def events(self, id: int, *, after: int = 0, limit: int = 500) -> list[Event]:
        """What happened to a batch, in order, after a cursor."""
        return await self._ask(batching.events(id, after=after, limit=limit))

    async def news(self, cursors: Mapping[int, int], *, limit: int = 500) -> list[Event]:
        """What happened to many batches, each after its own cursor."""
        return await self._ask(commands.only(batches.news(dict(cursors), limit=limit)))

    async def seal(self, id: int, *, expected: int | None = None, conn: object = None) -> Batch:
        """Let the jobs of an open batch be taken; *expected* must be how many there are."""
        return await self._transact(batching.seal(id, expected=expected), conn)

    async def resume(
        self,
        id: int,
        *,
        epoch: int | None = None,
        max_resumes: int | None = None,
        by: str = "person",
        conn: object = None,
    ) -> Resumed:
        """Continue a batch from where it stopped. Safe to ask many times: of several at once, one does it. Jobs that
        hang are taken back; *max_resumes* allows more than before; *epoch* refuses when it changed since you looked.
        """
        return await self._transact(resuming.resume(id, epoch=epoch, max_resumes=max_resumes, by=by), conn)

    async def retry_failed(
        self,
        id: int,
        *,
        fingerprint: str | None = None,
        cancelled: bool = False,
        attempts: int | None = None,
        conn: object = None,
    ) -> Resumed:
        """Try only the failed jobs of a batch again, perhaps one error group; finished steps are not done again."""
        return await self._transact(
            resuming.retry_failed(id, fingerprint=fingerprint, cancelled=cancelled, attempts=attempts), conn
        )

    async def retry_all_failed(self, *, pipeline: str | None = None, attempts: int | None = None) -> list[int]:
        """Try every failed job again, of any batch or none, or those of one *pipeline*; the ids of those it found."""
        return await self._ask(commands.retry_all_failed(pipeline=pipeline, attempts=attempts))

    async def pause(self, id: int, *, reason: str = "person", conn: object = None) -> Batch:
        """Let a batch rest: nobody takes its jobs, and those that run go back after the step at hand."""
        return await self._transact(resuming.pause(id, reason=reason), conn)

    async def cancel_batch(self, id: int, *, reason: str = "person", conn: object = None) -> Batch:
        """Stop a batch: what waits ends now, what runs within a heartbeat; what is done stays done."""
        return await self._transact(resuming.cancel(id, reason=reason), conn)

    async def restart_batch(
        self, id: int, *, configuration: Mapping[str, Any] | None = None, conn: object = None
    ) -> Resumed:
        """Run every job of an ended batch anew, also what is done, perhaps under another *configuration*."""
        return await self._transact(resuming.restart(id, configuration=configuration), conn)

    async def change_batch(self, id: int, *, conn: object = None, **changes: Unpack[Changing]) -> Batch:
        """Another name, limit, budget or labels for a batch."""
        return await self._transact(resuming.change(id, changes), conn)

    async def verify(self, *, sweep_seconds: float = 5.0) -> list[Breach]:
        """Recompute every invariant from the tables: what does not hold. Nothing, when all is well."""
        return await self._ask(verifying.breaches(sweep_seconds=sweep_seconds))

    async def look_after_batches(self) -> resuming.Round:
        """Ask why batches do not move; every worker does this by itself."""
        return await self._transact(resuming.look_after())

    async def watch(self, id: int, *, every: float = 0.5) -> AsyncIterator[Progress]:
        """The progress of a batch, again whenever something happened to it, until it has ended."""
        seen = -1
        while True:
            now = await self.progress(id)
            if now.event_seq != seen:
                seen = now.event_seq
                yield now
            if now.state.ended:
                return
            await asyncio.sleep(every)

"""What the front door says of batches, without await."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
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

    def _ask(self, command: Command[T], conn: object = None) -> T:
        raise NotImplementedError

    def _transact(self, command: Command[T], conn: object = None) -> T:
        raise NotImplementedError

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
        """Queue one job per input and follow them as one; all of it is there, or nothing. *key* names each input."""
        command = batching.create(pipeline, inputs, keys_of(key), name, BatchOptions(**options))
        return self._transact(command, conn)

    def open_batch(
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
        return self._transact(batching.open(pipeline, name, BatchOptions(**options), expires=expires), conn)

    def fill(
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
        return self._transact(command, conn)

    def get_batch(self, id: int, *, conn: object = None) -> Batch:
        """A batch as it stands."""
        return self._ask(batching.one(id), conn)

    def batches(
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
        return self._ask(
            batching.page(states=states, pipeline=pipeline, labels=labels, name=name, before=before, limit=limit)
        )

    def progress(self, id: int) -> Progress:
        """How far a batch has come, every figure from one snapshot."""
        return self._ask(batching.progress(id))

    def steps(self, id: int) -> list[StepFigures]:
        """Step by step: how often, how long, and how many jobs got as far as this."""
        return self._ask(batching.steps(id))

    def durations(self, id: int) -> Durations:
        """How long the attempts that ended well took."""
        return self._ask(batching.durations(id))

    def errors(self, id: int) -> list[ErrorGroup]:
        """What failed in a batch, by what is the same in the errors."""
        return self._ask(batching.errors(id))

    def plan(self, id: int, *, configuration: Mapping[str, Any] | None = None) -> Plan:
        """What a resume would skip, continue and begin; with another *configuration*, what a restart would do again."""
        return self._ask(batching.plan(id, configuration=configuration))

    def explain(self, id: int) -> Explanation:
        """Why a batch moves, or does not, and what to do."""
        return self._ask(batching.explained(id))

    def events(self, id: int, *, after: int = 0, limit: int = 500) -> list[Event]:
        """What happened to a batch, in order, after a cursor."""
        return self._ask(batching.events(id, after=after, limit=limit))

    def news(self, cursors: Mapping[int, int], *, limit: int = 500) -> list[Event]:
        """What happened to many batches, each after its own cursor."""
        return self._ask(commands.only(batches.news(dict(cursors), limit=limit)))

    def seal(self, id: int, *, expected: int | None = None, conn: object = None) -> Batch:
        """Let the jobs of an open batch be taken; *expected* must be how many there are."""
        return self._transact(batching.seal(id, expected=expected), conn)

    def resume(
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
        return self._transact(resuming.resume(id, epoch=epoch, max_resumes=max_resumes, by=by), conn)

    def retry_failed(
        self,
        id: int,
        *,
        fingerprint: str | None = None,
        cancelled: bool = False,
        attempts: int | None = None,
        conn: object = None,
    ) -> Resumed:
        """Try only the failed jobs of a batch again, perhaps one error group; finished steps are not done again."""
        return self._transact(
            resuming.retry_failed(id, fingerprint=fingerprint, cancelled=cancelled, attempts=attempts), conn
        )

    def retry_all_failed(self, *, pipeline: str | None = None, attempts: int | None = None) -> list[int]:
        """Try every failed job again, of any batch or none, or those of one *pipeline*; the ids of those it found."""
        return self._ask(commands.retry_all_failed(pipeline=pipeline, attempts=attempts))

    def pause(self, id: int, *, reason: str = "person", conn: object = None) -> Batch:
        """Let a batch rest: nobody takes its jobs, and those that run go back after the step at hand."""
        return self._transact(resuming.pause(id, reason=reason), conn)

    def cancel_batch(self, id: int, *, reason: str = "person", conn: object = None) -> Batch:
        """Stop a batch: what waits ends now, what runs within a heartbeat; what is done stays done."""
        return self._transact(resuming.cancel(id, reason=reason), conn)

    def restart_batch(self, id: int, *, configuration: Mapping[str, Any] | None = None, conn: object = None) -> Resumed:
        """Run every job of an ended batch anew, also what is done, perhaps under another *configuration*."""
        return self._transact(resuming.restart(id, configuration=configuration), conn)

    def change_batch(self, id: int, *, conn: object = None, **changes: Unpack[Changing]) -> Batch:
        """Another name, limit, budget or labels for a batch."""
        return self._transact(resuming.change(id, changes), conn)

    def verify(self, *, sweep_seconds: float = 5.0) -> list[Breach]:
        """Recompute every invariant from the tables: what does not hold. Nothing, when all is well."""
        return self._ask(verifying.breaches(sweep_seconds=sweep_seconds))

    def look_after_batches(self) -> resuming.Round:
        """Ask why batches do not move; every worker does this by itself."""
        return self._transact(resuming.look_after())

    def watch(self, id: int, *, every: float = 0.5) -> Iterator[Progress]:
        """The progress of a batch, again whenever something happened to it, until it has ended."""
        seen = -1
        while True:
            now = self.progress(id)
            if now.event_seq != seen:
                seen = now.event_seq
                yield now
            if now.state.ended:
                return
            time.sleep(every)

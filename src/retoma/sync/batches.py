"""Batches of an app: many jobs followed as one."""

# Made by tools/sync.py from app/batches.py; change that one.

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar, Unpack

from retoma.commands import batch_actions, maintenance
from retoma.commands import batch_figures as figure_commands
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
from retoma.model.batch_figures import Bucket, Member
from retoma.model.cohort import Cohort
from retoma.model.evidence import Explanation
from retoma.model.ids import BatchId, JobId
from retoma.model.job import JobState, Receipt
from retoma.model.pilot import Pilot
from retoma.run.pipeline import Pipeline
from retoma.store import batches
from retoma.sync.runner import Runner

In = TypeVar("In")


class Batches:
    """Batches of an app: many jobs followed as one."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def open(
        self,
        pipeline: Pipeline[Any, Any],
        *,
        name: str,
        expires: float = 3600.0,
        conn: object = None,
        **options: Unpack[Batching],
    ) -> Batch:
        """Open a batch to be filled piece by piece. None of its jobs is claimed until it is sealed; if that does not
        happen within *expires* seconds, it is cancelled.
        """
        return self._run.transact(
            batch_commands.open(pipeline, name, batch_commands.options_of(options), expires=expires), conn
        )

    def fill(
        self,
        id: BatchId,
        pipeline: Pipeline[In, Any],
        inputs: Iterable[In],
        *,
        key: Callable[[In], str] | None = None,
        conn: object = None,
        **options: Unpack[Batching],
    ) -> list[Receipt]:
        """Add jobs to an open batch. The same key returns the same job, so a part may be sent twice."""
        command = batch_commands.fill(id, pipeline, inputs, keys_of(key), batch_commands.options_of(options))
        return self._run.transact(command, conn)

    def get(self, id: BatchId, *, conn: object = None) -> Batch:
        """A batch in its current state."""
        return self._run.ask(batch_commands.one(id), conn)

    def hold(self, id: BatchId, *, conn: object) -> None:
        """Lock the batch against other commands until the transaction of *conn* ends."""
        self._run.ask(batch_commands.hold(id), conn)

    def find(
        self,
        *,
        states: Sequence[BatchState | str] | None = None,
        pipeline: str | None = None,
        labels: Mapping[str, str] | None = None,
        name: str | None = None,
        text: str | None = None,
        before: int | None = None,
        limit: int = 50,
    ) -> list[Batch]:
        """Batches, newest first, *before* an id for the next page; *text* is a part of the name."""
        return self._run.ask(
            batch_commands.page(
                states=states, pipeline=pipeline, labels=labels, name=name, text=text, before=before, limit=limit
            )
        )

    def progress(self, id: BatchId) -> Progress:
        """The progress of a batch, every figure from one snapshot."""
        return self._run.ask(batch_commands.progress(id))

    def standings(self, ids: Collection[BatchId]) -> dict[BatchId, Progress]:
        """The progress of many batches in one query; missing batches are left out."""
        return self._run.ask(figure_commands.standings(ids))

    def mosaic(self, id: BatchId) -> str:
        """One letter for each job in the order of the inputs, for 100,000 jobs at most: q queued, r running, c
        completed, s skipped, f failed, v review, x cancelled.
        """
        return self._run.ask(figure_commands.mosaic(id))

    def placed(self, id: BatchId, place: int) -> JobId:
        """The job at a *place* of the mosaic; the first is 0."""
        return self._run.ask(figure_commands.placed(id, place))

    def series(self, id: BatchId, *, buckets: int = 60) -> list[Bucket]:
        """How many attempts ended, and how long they took, in at most *buckets* equal stretches of time."""
        return self._run.ask(figure_commands.series(id, buckets=buckets))

    def members(
        self,
        id: BatchId,
        *,
        states: Sequence[JobState | str] | None = None,
        fingerprint: str | None = None,
        text: str | None = None,
        saved: bool | None = None,
        after: int = 0,
        limit: int = 50,
    ) -> list[Member]:
        """The jobs of a batch in the order of the inputs, *after* an id for the next page: those in some *states*, of
        one error group (*fingerprint*), with *text* in their key, with or without a *saved* step.
        """
        return self._run.ask(
            figure_commands.members(
                id, states=states, fingerprint=fingerprint, text=text, saved=saved, after=after, limit=limit
            )
        )

    def steps(self, id: BatchId) -> list[StepFigures]:
        """For each step: how often it was done, how long it takes, and how many jobs have got this far."""
        return self._run.ask(batch_commands.steps(id))

    def durations(self, id: BatchId) -> Durations:
        """How long the successful attempts took."""
        return self._run.ask(batch_commands.durations(id))

    def errors(self, id: BatchId) -> list[ErrorGroup]:
        """The failures of a batch, grouped by equal errors."""
        return self._run.ask(batch_commands.errors(id))

    def plan(self, id: BatchId, *, configuration: Mapping[str, Any] | None = None) -> Plan:
        """What a resume would skip, continue and start; with another *configuration*, what a restart would do again."""
        return self._run.ask(batch_commands.plan(id, configuration=configuration))

    def explain(self, id: BatchId, *, words: bool = True) -> Explanation:
        """Why a batch progresses or does not, and what to do. Without *words*, the text of errors is left out."""
        return self._run.ask(batch_commands.explained(id, words=words))

    def events(self, id: BatchId, *, after: int = 0, limit: int = 500, jobs: bool = True) -> list[Event]:
        """The events of a batch, in order, after a cursor; without *jobs*, only those of the batch itself."""
        return self._run.ask(batch_commands.events(id, after=after, limit=limit, jobs=jobs))

    def pipelines_of(self, ids: Collection[int]) -> dict[int, str]:
        """The pipeline of each batch; missing batches are left out."""
        return dict(self._run.ask(job_commands.only(batches.pipelines(ids))))

    def news(self, cursors: Mapping[BatchId, int], *, limit: int = 500) -> list[Event]:
        """The events of many batches, each after its own cursor."""
        return self._run.ask(job_commands.only(batches.news(cursors, limit=limit)))

    def seal(self, id: BatchId, *, expected: int | None = None, pilot: int = 0, conn: object = None) -> Batch:
        """Seal an open batch, so that its jobs can be claimed; *expected* must equal the number of jobs. With a
        *pilot* so many of them run first, and the others are held until ``release``.
        """
        return self._run.transact(batch_commands.seal(id, expected=expected, pilot=pilot), conn)

    def pilot(self, id: BatchId) -> Pilot:
        """How the pilot of a batch went, and what the whole will cost, take and lose by it."""
        return self._run.ask(batch_commands.pilot(id))

    def release(self, id: BatchId, *, by: str = "person", conn: object = None) -> Batch:
        """Let the jobs be taken that a pilot holds. Idempotent."""
        return self._run.transact(batch_actions.release(id, by=by), conn)

    def resume(
        self,
        id: BatchId,
        *,
        epoch: int | None = None,
        max_resumes: int | None = None,
        by: str = "person",
        conn: object = None,
    ) -> Resumed:
        """Continue a batch from where it stopped. Idempotent: of several concurrent calls, one does it. Hanging
        jobs are taken back. *max_resumes* allows more resumes than before; with *epoch*, a batch that has
        changed since is refused.
        """
        return self._run.transact(batch_actions.resume(id, epoch=epoch, max_resumes=max_resumes, by=by), conn)

    def retry_failed(
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
        """Retry only the failed jobs of a batch, or one error group; finished steps are not done again. A batch of many
        thousands is processed in pieces; without *wait*, or with *conn*, that continues in the background.
        """
        command = batch_actions.retry_failed(id, fingerprint=fingerprint, cancelled=cancelled, attempts=attempts, by=by)
        return self._resumed(self._run.transact(command, conn), wait=wait and conn is None)

    def pause(self, id: BatchId, *, reason: str = "person", by: str = "person", conn: object = None) -> Batch:
        """Pause a batch: none of its jobs is claimed, and running jobs are released after their current step."""
        return self._run.transact(batch_actions.pause(id, reason=reason, by=by), conn)

    def cancel(
        self, id: BatchId, *, reason: str = "person", by: str = "person", wait: bool = True, conn: object = None
    ) -> Batch:
        """Stop a batch: waiting jobs end now, running jobs within a heartbeat; finished jobs stay. A batch of many
        thousands is processed in pieces; without *wait*, or with *conn*, that continues in the background.
        """
        batch = self._run.transact(batch_actions.cancel(id, reason=reason, by=by), conn)
        return self._carried_out(batch, wait=wait and conn is None)

    def restart(
        self,
        id: BatchId,
        *,
        configuration: Mapping[str, Any] | None = None,
        by: str = "person",
        wait: bool = True,
        conn: object = None,
    ) -> Resumed:
        """Run every job of an ended batch again, finished ones too, optionally with another *configuration*. A batch of
        many thousands is processed in pieces; without *wait*, or with *conn*, that continues in the background.
        """
        command = batch_actions.restart(id, configuration=configuration, by=by)
        return self._resumed(self._run.transact(command, conn), wait=wait and conn is None)

    def replan(
        self,
        id: BatchId,
        *,
        configuration: Mapping[str, Any],
        note: str | None = None,
        by: str = "person",
        wait: bool = True,
        conn: object = None,
    ) -> Resumed:
        """Give the jobs of a batch that have not begun another *configuration*: they are a cohort of their own, and
        ``cohorts`` compares them. Those that have begun go on under theirs. A batch of many thousands is processed in
        pieces; without *wait*, or with *conn*, that continues in the background.
        """
        command = batch_actions.replan(id, configuration=configuration, note=note, by=by)
        return self._resumed(self._run.transact(command, conn), wait=wait and conn is None)

    def cohorts(self, id: BatchId) -> list[Cohort]:
        """The configurations of a batch, and how the jobs went that ran under each: failures, cost, time, reviews and
        the agreement of people.
        """
        return self._run.ask(batch_commands.cohorts(id))

    def operations(self, id: BatchId, *, limit: int = 20) -> list[Operation]:
        """The commands that were or are being carried out on a batch in pieces, newest first."""
        return self._run.ask(figure_commands.operations_of(id, limit=limit))

    def carry_out(self, operation: int) -> Iterator[Operation]:
        """Carry out an operation, and yield its progress after each piece; several processes may do so at once."""
        yield from self._run.carry_out(operation)

    def _carried_out(self, batch: Batch, *, wait: bool) -> Batch:
        if batch.operation_id is None or not wait:
            self._run.carry_later(batch.operation_id)
            return batch
        for _ in self.carry_out(batch.operation_id):
            pass
        return self.get(batch.id)

    def _resumed(self, did: Resumed, *, wait: bool) -> Resumed:
        id = did.batch.operation_id
        if id is None or not wait or not did.changed:
            self._run.carry_later(id)
            return did
        batch = self._carried_out(did.batch, wait=True)
        done = self._run.ask(operation_commands.one(id))
        return replace(did, batch=batch, jobs=done.done, changed=done.done > 0)

    def change(
        self,
        id: BatchId,
        *,
        epoch: int | None = None,
        by: str = "person",
        conn: object = None,
        **changes: Unpack[Changing],
    ) -> Batch:
        """Change the name, limit, budget or labels of a batch; refused when it has changed since *epoch*."""
        return self._run.transact(batch_actions.change(id, changes, epoch=epoch, by=by), conn)

    def look_after(self) -> maintenance.Round:
        """Diagnose batches that do not progress, and continue unfinished operations. Every
        worker does this by itself.
        """
        did = self._run.transact(maintenance.look_after())
        maintenance.tell_round(did)
        self._run.carry_on()
        return did

    def watch(self, id: BatchId, *, every: float = 0.5) -> Iterator[Progress]:
        """Yield the progress of a batch whenever something happens to it, until it has ended."""
        seen = -1
        while True:
            now = self.progress(id)
            if now.event_seq != seen:
                seen = now.event_seq
                yield now
            if now.state.ended:
                return
            self._run.sleep(every)

"""Jobs of an app: read them, and act on them."""

# Made by tools/sync.py from app/jobs.py; change that one.

from __future__ import annotations

import time
from typing import Any, TypeVar, Unpack

from retoma.commands import bulk, discards, finding, maintenance
from retoma.commands import jobs as job_commands
from retoma.commands import operations as operation_commands
from retoma.commands.options import LOOKS, Doing, Wanted, wanted_of
from retoma.model.batch import Operation
from retoma.model.failure import FailureGroup
from retoma.model.ids import JobId
from retoma.model.job import (
    Attempt,
    Checkpoint,
    Job,
    JobPage,
    Recovered,
    RestartPlan,
    Stood,
)
from retoma.model.operation import DryRun, JobFilter
from retoma.model.view import Hit
from retoma.run.pipeline import Pipeline
from retoma.store import jobs, operations
from retoma.sync.runner import Runner

O = TypeVar("O")


class Jobs:
    """Jobs of an app: read them, and act on them."""

    def __init__(self, run: Runner) -> None:
        self._run = run

    def get(self, id: JobId, *, conn: object = None) -> Job:
        """A job in its current state."""
        return self._run.ask(job_commands.job(id), conn)

    def find(self, *, limit: int = 50, **wanted: Unpack[Wanted]) -> list[Job]:
        """Jobs, newest first, *before* an id for the next page. The dead letters are ``discarded=False``. Without
        *content* they have no input and no output, and only the first line of an error.
        """
        return (self._run.ask(job_commands.page(limit=limit, **wanted_of(wanted)))).jobs

    def page(self, *, limit: int = 50, **wanted: Unpack[Wanted]) -> JobPage:
        """The same in bounded time, however few jobs match: the search continues at ``next``."""
        return self._run.ask(job_commands.page(limit=limit, **wanted_of(wanted), looks=LOOKS))

    def attempts(self, id: JobId) -> list[Attempt]:
        """How each claim of a job ended."""
        return self._run.ask(job_commands.attempts_of(id))

    def checkpoints(
        self, id: JobId, *, values: bool = True, after: Stood | None = None, limit: int | None = None
    ) -> list[Checkpoint]:
        """What the steps of a job returned, including what was set aside; *after* the last one that was seen."""
        return self._run.ask(job_commands.checkpoints_of(id, values=values, after=after, limit=limit))

    def output(self, pipeline: Pipeline[Any, O], id: JobId) -> O:
        """The value that a completed job returned."""
        return self._run.ask(job_commands.output(pipeline, id))

    def wait(self, id: JobId, *, timeout: float | None = None, every: float = 0.1) -> Job:
        """The job, once it has ended."""
        until = None if timeout is None else time.monotonic() + timeout
        while not (job := self.get(id)).state.ended:
            if until is not None and time.monotonic() > until:
                raise TimeoutError(f"Job {id} did not end within {timeout:g} s.")
            self._run.sleep(every)
        return job

    def cancel(self, id: JobId, *, reason: str = "person", conn: object = None) -> Job:
        """Stop a job: at once when it waits, with the next heartbeat when it runs."""
        return self._run.ask(job_commands.cancel(id, reason=reason), conn)

    def retry(self, id: JobId, *, attempts: int | None = None, conn: object = None) -> Job:
        """Try a failed, cancelled or reviewed job again; finished steps are not done again."""
        return self._run.transact(job_commands.retry(id, attempts=attempts), conn)

    def discard(self, id: JobId, *, by: str = "person", reason: str | None = None, conn: object = None) -> Job:
        """Settle a failed job as not to be retried: it leaves the dead letters and keeps its history. ``reinstate``
        undoes it.
        """
        return self._run.transact(discards.discard(id, by=by, reason=reason), conn)

    def reinstate(self, id: JobId, *, conn: object = None) -> Job:
        """Make a discarded job a dead letter again, so that it can be retried."""
        return self._run.transact(discards.reinstate(id), conn)

    def retry_all_failed(self, *, pipeline: str | None = None, attempts: int | None = None) -> list[JobId]:
        """Retry every failed job, of any batch or none, or those of one *pipeline*; returns the
        ids of those it found.
        """
        again: list[JobId] = []
        after: int | None = 0
        while after is not None:
            some = self._run.transact(job_commands.retry_some_failed(after, pipeline=pipeline, attempts=attempts))
            again, after = again + some.again, some.after
        return again

    def restart(self, id: JobId, *, attempts: int | None = None, step: str | None = None, conn: object = None) -> Job:
        """Run an ended job again from its first step, or from *step* on; the checkpoints from there on are set aside,
        and what they cost is paid again.
        """
        return self._run.transact(job_commands.restart(id, attempts=attempts, step=step), conn)

    def restart_plan(self, id: JobId, *, step: str | None = None) -> RestartPlan:
        """What a restart would do again, and what that has cost."""
        return self._run.ask(job_commands.restart_plan(id, step=step))

    def dry_run(self, action: str, which: JobFilter, **how: Unpack[Doing]) -> DryRun:
        """What *operate* would do now: how many jobs of which batches, how many it would pass over and why."""
        return self._run.ask(bulk.dry_run(action, which, how))

    def estimate(self, action: str, which: JobFilter, **how: Unpack[Doing]) -> DryRun:
        """The same for a page that shows it in passing: after ten thousand jobs it stops, and is not exact."""
        return self._run.ask(bulk.dry_run(action, which, how, looks=1))

    def operate(
        self,
        action: str,
        which: JobFilter,
        *,
        by: str = "person",
        wait: bool = True,
        conn: object = None,
        **how: Unpack[Doing],
    ) -> Operation:
        """Retry, cancel, restart, move, prioritise, discard or reinstate every job of any batch that the filter finds.
        Decided at once, carried out in pieces; without *wait*, or with *conn*, in the background, by any process.
        """
        id = self._run.transact(bulk.begin(action, which, how, by=by), conn)
        if conn is not None or not wait:
            self._run.carry_later(id)
            return self._run.ask(operation_commands.one(id), conn)
        for _ in self._run.carry_out(id):
            pass
        return self.operation(id)

    def operations(self, *, under_way: bool = False, before: int | None = None, limit: int = 50) -> list[Operation]:
        """Operations over all batches and on single ones, newest first, *before* an id for the next page."""
        return self._run.ask(job_commands.only(operations.page(under_way=under_way, before=before, limit=limit)))

    def operation(self, id: int, *, conn: object = None) -> Operation:
        """An operation, and how far it has come."""
        return self._run.ask(operation_commands.one(id), conn)

    def cancel_operation(self, id: int, *, conn: object = None) -> Operation:
        """End an operation by a filter; what it has done stays done."""
        return self._run.transact(operation_commands.cancel(id), conn)

    def errors(self, *, hours: float = 24.0, pipeline: str | None = None, limit: int = 100) -> list[FailureGroup]:
        """The failures of all batches in the last *hours*, grouped by equal errors, the most frequent first."""
        return self._run.ask(finding.groups(hours=hours, pipeline=pipeline, limit=limit))

    def dead_letters(
        self,
        which: JobFilter | None = None,
        *,
        discarded: bool = False,
        before: int | None = None,
        limit: int = 50,
    ) -> JobPage:
        """The failed jobs of any batch that a filter finds, newest first, in bounded time, without content. With
        *discarded*, those that a person has settled; without, those that nobody has.
        """
        command = job_commands.failures(which or JobFilter(), before=before, limit=limit, discarded=discarded)
        return self._run.ask(command)

    def search(self, text: str, *, pipeline: str | None = None, limit: int = 50) -> list[Hit]:
        """Jobs and batches by id, jobs by key, file name or correlation id."""
        return self._run.ask(finding.search(text, pipeline=pipeline, limit=limit))

    def signal(self, id: JobId, name: str, value: Any = None, *, conn: object = None) -> bool:
        """Deliver a value that a job waits for (``run.wait_for``); False when one was delivered before."""
        return self._run.ask(job_commands.signal(id, name, value), conn)

    def recover(self) -> list[Recovered]:
        """Recover the jobs of silent workers. Every worker does this by itself every few seconds."""
        recovered = self._run.fetch(jobs.recover())
        maintenance.tell_recovered(recovered)
        return recovered

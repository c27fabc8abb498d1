"""Jobs of an app: read them, and act on them."""

# Made by tools/sync.py from app/jobs.py; change that one.

from __future__ import annotations

import time
from typing import Any, TypeVar, Unpack

from retoma.commands import jobs as job_commands
from retoma.commands import maintenance
from retoma.commands.options import LOOKS, Wanted, wanted_of
from retoma.model.ids import JobId
from retoma.model.job import (
    Attempt,
    Checkpoint,
    Job,
    JobPage,
    Recovered,
    Stood,
)
from retoma.run.pipeline import Pipeline
from retoma.store import jobs
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
        """Jobs, newest first, *before* an id for the next page. The dead letters are ``state='failed'``. Without
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
        return self._run.ask(job_commands.retry(id, attempts=attempts), conn)

    def retry_all_failed(self, *, pipeline: str | None = None, attempts: int | None = None) -> list[JobId]:
        """Retry every failed job, of any batch or none, or those of one *pipeline*; returns the
        ids of those it found.
        """
        return self._run.ask(job_commands.retry_all_failed(pipeline=pipeline, attempts=attempts))

    def restart(self, id: JobId, *, attempts: int | None = None, conn: object = None) -> Job:
        """Run an ended job again from its first step; its checkpoints are set aside."""
        return self._run.ask(job_commands.restart(id, attempts=attempts), conn)

    def signal(self, id: JobId, name: str, value: Any = None, *, conn: object = None) -> bool:
        """Deliver a value that a job waits for (``run.wait_for``); False when one was delivered before."""
        return self._run.ask(job_commands.signal(id, name, value), conn)

    def recover(self) -> list[Recovered]:
        """Recover the jobs of silent workers. Every worker does this by itself every few seconds."""
        recovered = self._run.fetch(jobs.recover())
        maintenance.tell_recovered(recovered)
        return recovered

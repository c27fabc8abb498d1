"""A job that an executor runs, with its deadline and the reason for which it is stopped."""

from __future__ import annotations

import asyncio
import time
from typing import Any, Protocol

from retoma.calls.perform import Calling
from retoma.errors import LeaseLost
from retoma.model.endings import Suspend
from retoma.model.job import AttemptEnding, Claim, Ended
from retoma.run.pipeline import Pipeline
from retoma.run.steps import Memory, Steps
from retoma.system.marks import Mark
from retoma.worker.status_board import StatusBoard

_MOST_SENT_AWAY = 10_000  # jobs that are remembered, at most


class ExecutorHooks(Protocol):
    """What a running job needs from its executor."""

    worker_id: int
    board: StatusBoard
    draining: bool

    @property
    def journal(self) -> Memory:
        """The store of the run's checkpoints."""

    @property
    def caller(self) -> Calling:
        """The caller that makes the run's provider calls."""

    def cut_off(self) -> bool:
        """Whether other workers may hold our jobs by now."""


class RunningJob:
    """A job that an executor runs: its note on the board, its deadline, and the reason why it was stopped, if any."""

    __slots__ = (
        "_under_way",
        "begun",
        "claim",
        "deadline",
        "executor",
        "handling",
        "leaving",
        "mark",
        "pipeline",
        "place",
        "steps",
        "why",
        "worker_id",
    )

    def __init__(self, executor: ExecutorHooks, claim: Claim, pipeline: Pipeline[Any, Any], place: int) -> None:
        self.executor = executor
        self.worker_id = executor.worker_id
        self.claim = claim
        self.pipeline = pipeline
        self.place = place
        self.mark = Mark(place + 1)
        self.deadline = time.monotonic() + claim.timeout_seconds
        self.why: AttemptEnding | None = None
        self.begun = self.leaving = False
        self.handling: asyncio.Task[None] | None = None
        self._under_way: dict[str, float] = {}  # deadlines of running steps, earliest first
        self.steps = Steps(claim, executor.journal, self, caller=executor.caller, step_timeout=pipeline.step_timeout)

    def before_step(self, name: str) -> None:
        """Note the step on the board. Raises when the run must not continue."""
        executor = self.executor
        if self.why is AttemptEnding.LOST or executor.cut_off():
            raise LeaseLost(
                f"Job {self.claim.id} may have been given to another worker: no heartbeat has reached the database "
                f"for a whole lease. Step {name!r} was not begun.",
                next="Look at the connection between this worker and the database.",
            )
        if self.why is not None or self.leaving or executor.draining:
            raise Suspend(AttemptEnding.RELEASED, reason="resting" if self.leaving else "draining")
        limit = self.pipeline.step_timeout
        if limit is None:
            executor.board.step(self.place, name, self.deadline)
        else:
            self._under_way[name] = min(self.deadline, time.monotonic() + limit)
            self._note_earliest()

    def after_step(self, name: str) -> None:
        """Forget the step: the board shows the earliest deadline of the steps still running, or the job's own."""
        self._under_way.pop(name, None)
        self._note_earliest()

    def _note_earliest(self) -> None:
        earliest = next(iter(self._under_way), None)
        if earliest is None:
            self.executor.board.step(self.place, self.steps.last or "", self.deadline)
        else:
            self.executor.board.step(self.place, earliest, self._under_way[earliest])

    def let_go(self, why: AttemptEnding) -> None:
        """Stop the job. A paused job finishes its current step first."""
        if why is AttemptEnding.RELEASED and self.begun:
            self.leaving = True
        else:
            self.cut(why)

    def cut(self, why: AttemptEnding) -> None:
        """Cancel the handler; *why* decides how the attempt ends. A handler that has not started does not start."""
        if self.why is None:
            self.why = why
            if self.begun and self.handling is not None:
                self.handling.cancel()
                # Threads cannot be cancelled. Cancel the coroutines they wait on, so that they see CancelledError.
                for each in self.steps.awaited:
                    each.cancel()

    @property
    def seconds(self) -> float:
        """How long the attempt has lasted."""
        return self.claim.timeout_seconds + time.monotonic() - self.deadline

    @property
    def again(self) -> float | None:
        """Seconds until the retry after a time-out; None when the retry policy allows none."""
        retry = self.pipeline.retry
        return retry.delay(self.claim.attempt) if retry.allows(TimeoutError()) else None

    def ending(self) -> Ended:
        """The ending of a handler that was stopped."""
        claim = self.claim
        ended = Ended(claim, self.why or AttemptEnding.RELEASED, step=self.steps.last, seconds=self.seconds)
        if self.why is AttemptEnding.TIMEOUT:
            ended.ending, ended.reason = AttemptEnding.FAILED, "timeout"
            ended.delay = self.again
            ended.again = ended.delay is not None
            where = f" in step {ended.step!r}" if ended.step else ""
            ended.error = f"The handler took longer than {claim.timeout_seconds:g} s and was stopped{where}."
        elif self.why is AttemptEnding.CANCELLED:
            ended.reason = "person"
        return ended


class SentAway:
    """The jobs that a provider's limit has postponed in this executor, with the reason."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}

    def __bool__(self) -> bool:
        """Whether there are any."""
        return bool(self._reasons)

    def again(self, ended: Ended, state: str) -> bool:
        """Whether the job was postponed again for the same reason, so that the event would repeat the first one."""
        reason = ended.reason or ""
        waits = state == "queued" and ended.ending == AttemptEnding.POSTPONED and reason.startswith("limited: ")
        before = self._reasons.pop(ended.id, None)
        if waits:
            if len(self._reasons) >= _MOST_SENT_AWAY:
                self._reasons.clear()
            self._reasons[ended.id] = reason
        return waits and before == reason

"""A job in the hands of an executor."""

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
from retoma.telemetry.events import AttemptEnded
from retoma.worker.status_board import StatusBoard

_MOST_SENT_AWAY = 10_000  # jobs that are remembered


class ExecutorHooks(Protocol):
    """What a held job needs to know of the executor that holds it."""

    worker_id: int
    board: StatusBoard
    draining: bool

    @property
    def memory(self) -> Memory:
        """Where its runs keep their checkpoints."""

    @property
    def caller(self) -> Calling:
        """Where its runs make their calls."""

    def cut_off(self) -> bool:
        """Whether our jobs may be another's by now."""


class RunningJob:
    """A job that an executor runs: its note on the board, its deadline, and why it was cut short, if it was."""

    __slots__ = (
        "_under_way",
        "begun",
        "claim",
        "deadline",
        "handling",
        "hands",
        "leaving",
        "pipeline",
        "place",
        "steps",
        "why",
        "worker_id",
    )

    def __init__(self, hands: ExecutorHooks, claim: Claim, pipeline: Pipeline[Any, Any], place: int) -> None:
        self.hands = hands
        self.worker_id = hands.worker_id
        self.claim = claim
        self.pipeline = pipeline
        self.place = place
        self.deadline = time.monotonic() + claim.timeout_seconds
        self.why: str | None = None
        self.begun = self.leaving = False
        self.handling: asyncio.Task[None] | None = None
        self._under_way: dict[str, float] = {}  # the deadlines of its steps, the earliest first
        self.steps = Steps(claim, hands.memory, self, caller=hands.caller, step_timeout=pipeline.step_timeout)

    def before_step(self, name: str) -> None:
        """Note the step on the board; raises when the run must not go on."""
        hands = self.hands
        if self.why == "lost" or hands.cut_off():
            raise LeaseLost(
                f"Job {self.claim.id} may have been given to another worker: no heartbeat has reached the database "
                f"for a whole lease. Step {name!r} was not begun.",
                next="Look at the connection between this worker and the database.",
            )
        if self.why is not None or self.leaving or hands.draining:
            raise Suspend(AttemptEnding.RELEASED, reason="resting" if self.leaving else "draining")
        limit = self.pipeline.step_timeout
        if limit is None:
            hands.board.step(self.place, name, self.deadline)
        else:
            self._under_way[name] = min(self.deadline, time.monotonic() + limit)
            self._note_earliest()

    def after_step(self, name: str) -> None:
        """The step is over: the next of those under way counts or, when there is none, the job's own deadline."""
        self._under_way.pop(name, None)
        self._note_earliest()

    def _note_earliest(self) -> None:
        earliest = next(iter(self._under_way), None)
        if earliest is None:
            self.hands.board.step(self.place, self.steps.last or "", self.deadline)
        else:
            self.hands.board.step(self.place, earliest, self._under_way[earliest])

    def let_go(self, why: str) -> None:
        """Stop; a job that is only to rest finishes the step at hand first."""
        if why == "released" and self.begun:
            self.leaving = True
        else:
            self.cut(why)

    def cut(self, why: str) -> None:
        """Stop the handler; *why* decides how the attempt ends. One that has not begun yet does not begin."""
        if self.why is None:
            self.why = why
            if self.begun and self.handling is not None:
                self.handling.cancel()
                # A thread cannot be stopped, but what it waits for can: then it wakes and hears of it.
                for each in self.steps.awaited:
                    each.cancel()

    @property
    def again(self) -> float | None:
        """In how many seconds another attempt follows one that passed its time-out; None when none may."""
        retry = self.pipeline.retry
        return retry.delay(self.claim.attempt) if retry.allows(TimeoutError()) else None

    def ending(self) -> Ended:
        """The ending of a handler that was stopped."""
        claim = self.claim
        seconds = claim.timeout_seconds + time.monotonic() - self.deadline
        ended = Ended(claim, AttemptEnding(self.why or "released"), step=self.steps.last, seconds=seconds)
        if self.why == "timeout":
            ended.ending, ended.reason = AttemptEnding.FAILED, "timeout"
            ended.delay = self.again
            ended.again = ended.delay is not None
            where = f" in step {ended.step!r}" if ended.step else ""
            ended.error = f"The handler took longer than {claim.timeout_seconds:g} s and was stopped{where}."
        elif self.why == "cancelled":
            ended.reason = "person"
        return ended


def who(worker_id: int, claim: Claim) -> dict[str, Any]:
    """Whose event it is."""
    return {
        "worker": worker_id,
        "job": claim.id,
        "pipeline": claim.pipeline,
        "attempt": claim.attempt,
        "correlation": claim.correlation_id,
    }


def told_of(worker_id: int, ended: Ended, state: str) -> AttemptEnded:
    """What is said of an attempt that is over and written down."""
    return AttemptEnded(
        **who(worker_id, ended.claim),
        state=state,
        ending=str(ended.ending),
        duration_ms=ended.seconds * 1000,
        reason=ended.reason,
        error=(ended.error or "").partition("\n")[0] or None,
    )


class SentAway:
    """The jobs that their provider did not let through, as far as this executor had them."""

    def __init__(self) -> None:
        self._reasons: dict[int, str] = {}

    def again(self, ended: Ended, state: str) -> bool:
        """Whether a job was only sent away once more, for the same reason: that was said the first time."""
        reason = ended.reason or ""
        waits = state == "queued" and ended.ending == AttemptEnding.POSTPONED and reason.startswith("limited: ")
        before = self._reasons.pop(ended.id, None)
        if waits:
            if len(self._reasons) >= _MOST_SENT_AWAY:
                self._reasons.clear()
            self._reasons[ended.id] = reason
        return waits and before == reason

"""One executor process, as its supervisor sees it: started, watched, ended, and what it left behind."""

from __future__ import annotations

import asyncio
import contextlib
import math
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from retoma.model.job import AttemptEnding
from retoma.store.jobs import Blame
from retoma.store.workers import Pulse
from retoma.system.settings import Settings
from retoma.worker.executor_main import CANNOT_START, Orders
from retoma.worker.status_board import Note, StatusBoard

_STILL = 1.0  # seconds without a tick, after which a loop stands still
_MOST_UNSENT = 65_536  # bytes that wait for an executor to read, beside those that the pipe itself holds


@dataclass(frozen=True, slots=True)
class Late:
    """Why an executor must be ended, and for which jobs."""

    reason: str
    jobs: str


@dataclass(frozen=True, slots=True)
class Death:
    """How an executor ended, and which of its jobs answer for it."""

    reason: str
    error: str
    signal: int | None
    peak_megabytes: float | None
    blamed: list[Blame] = field(default_factory=list)
    orderly: bool = False
    cannot_start: bool = False


@dataclass(slots=True)
class Counted:
    """Figures of a worker that no executor could count: these jobs ended, or came back, without one."""

    failed: int = 0
    retried: int = 0
    recovered: int = 0


class Process:
    """An executor process. *gone* is done when it has ended."""

    def __init__(
        self,
        worker_id: int,
        reference: str,
        *,
        database_url: str,
        settings: Settings,
        queues: Sequence[str],
        at_once: int,
        apart: bool,
        hint: int | None = None,
    ) -> None:
        """Raises OSError when this machine has no room for another process now."""
        self.worker_id = worker_id
        self.board = StatusBoard.new(at_once)
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._status = 0
        self._peak: float | None = None
        self._killed: str | None = None
        self._killed_at = 0.0
        self._called_off: dict[tuple[int, int], tuple[str, float]] = {}  # by job and fence, not to be held any more
        self._said: dict[tuple[int, int, str], float] = {}  # what was told of whom, and when
        self._unsent = bytearray()
        self._full_since: float | None = None
        self._counted = Counted()
        self._told_to_stop: float | None = None
        self._told_to_hurry: float | None = None
        self._told_to_settle: float | None = None
        orders = Orders(
            reference=reference,
            database_url=database_url,
            settings=settings.model_dump(mode="json", exclude={"database_url"}),
            worker_id=worker_id,
            queues=list(queues),
            at_once=at_once,
            apart=apart,
            hint=hint,
            board=self.board.file,
            supervisor=os.getpid(),
        )
        try:
            self._popen = self._start()
        except OSError:
            self.board.close()
            raise
        self.pid = self._popen.pid
        self._unsent += orders.line()
        self.flush()
        # A thread of its own, because only wait4 tells how much memory the child had used.
        waiting = threading.Thread(target=self._wait, args=(asyncio.get_running_loop(),), daemon=True)
        try:
            waiting.start()
        except RuntimeError as error:
            self._popen.kill()
            self._popen.wait()
            self.close()
            raise OSError(str(error)) from error

    def _start(self) -> subprocess.Popen[bytes]:
        started = subprocess.Popen(
            [sys.executable, "-c", "from retoma.worker.executor_main import main; main()"],
            stdin=subprocess.PIPE,
            pass_fds=[self.board.file],
            # Before numpy can be loaded there: executors are many, and each would take a thread per core for itself.
            env={"OPENBLAS_NUM_THREADS": "1", **os.environ},
        )
        assert started.stdin is not None
        # An executor that does not read must not make its supervisor wait.
        os.set_blocking(started.stdin.fileno(), False)
        return started

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        _, status, usage = os.wait4(self.pid, 0)
        self._status = os.waitstatus_to_exitcode(status)
        self._popen.returncode = self._status
        scale = 1024 * 1024 if sys.platform == "darwin" else 1024
        self._peak = usage.ru_maxrss / scale
        with contextlib.suppress(RuntimeError):  # the loop may be gone with the supervisor
            loop.call_soon_threadsafe(self._is_gone)

    def _is_gone(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    # — speaking to it —

    def tell(self, order: dict[str, Any]) -> None:
        """Send an order down the control pipe."""
        if "stop" in order:
            self._told_to_stop = self._told_to_stop or time.monotonic()
        if order.get("stop"):
            self._told_to_hurry = self._told_to_hurry or time.monotonic()
        self._write(orjson.dumps(order) + b"\n")

    def _write(self, line: bytes) -> bool:
        """Whether there was room for it."""
        if len(self._unsent) + len(line) > _MOST_UNSENT:
            return False
        self._unsent += line
        self.flush()
        return True

    def flush(self) -> None:
        """Send what it could not take before, as far as it takes it now."""
        assert self._popen.stdin is not None
        try:
            while self._unsent:
                del self._unsent[: os.write(self._popen.stdin.fileno(), self._unsent)]
            self._full_since = None
        except BlockingIOError:
            self._full_since = self._full_since or time.monotonic()
        except (OSError, ValueError):  # it is ending by itself
            self._unsent.clear()

    def call_off(self, called: Sequence[tuple[int, int, str]]) -> None:
        """Have it let go of jobs; one that is only to rest may take the time of its step. *called* is all of them, at
        every heartbeat. Each is said once; once more only to an executor that has moved since and still has it, for it
        may have heard of it before it knew that it holds the job.
        """
        now, moved = time.monotonic(), self.board.totals().ticked
        for job, fence, why in called:
            if why != "released":
                self._called_off.setdefault((job, fence), (why, now))
            if self._said.get((job, fence, why), -math.inf) < moved - _STILL:
                if not self._write(_order(job, fence, why)):
                    break
                self._said[job, fence, why] = now
        left = set(called)
        held = {(note.job, note.fence) for note in self.board.notes()} | {(job, fence) for job, fence, _ in called}
        self._said = {each: at for each, at in self._said.items() if each in left}
        self._called_off = {each: why for each, why in self._called_off.items() if each in held}

    def kill(self, reason: str) -> bool:
        """End it now; False when that was done before."""
        if self._killed is not None or self.gone.done():
            return False
        self._killed, self._killed_at = reason, time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return True

    def has_settled(self, now: float, *, longest: float) -> bool:
        """Whether it may be killed now. One whose loop still moves first has the answers written down that are on
        their way to its other jobs, for they are paid; that takes no longer than *longest* seconds.
        """
        totals = self.board.totals()
        if now - totals.ticked > _STILL or (self._full_since is not None and now - self._full_since > _STILL):
            return True
        if self._told_to_settle is None:
            self._told_to_settle = now
            self._write(orjson.dumps({"settle": True}) + b"\n")
        return totals.settled or now - self._told_to_settle > longest

    def hurry(self, now: float, *, drain: float, grace: float) -> None:
        """It was told to stop: past *drain* seconds it must hand back at once, and soon after it is ended."""
        if self._told_to_stop is None:
            return
        if self._told_to_hurry is None and now - self._told_to_stop > drain:
            self.tell({"stop": True})
        elif self._told_to_hurry is not None and now - self._told_to_hurry > grace + 1:
            self.kill("it did not stop in time")

    # — watching it —

    def count(self, also: Counted) -> None:
        """Have its pulse carry figures that nobody else does."""
        self._counted.failed += also.failed
        self._counted.retried += also.retried
        self._counted.recovered += also.recovered

    def pulse(self) -> Pulse:
        """Its figures, for a heartbeat."""
        totals = self.board.totals()
        return Pulse(
            id=self.worker_id,
            pid=self.pid,
            claimed=totals.claimed,
            completed=totals.completed,
            failed=totals.failed + self._counted.failed,
            retried=totals.retried + self._counted.retried,
            recovered=self._counted.recovered,
            busy=totals.busy,
        )

    def believed(self) -> list[tuple[int, int, int]]:
        """What it runs, as far as it knows: job, worker, fence."""
        return [(note.job, self.worker_id, note.fence) for note in self.board.notes()]

    def overdue(self, now: float, *, grace: float) -> Late | None:
        """The jobs that hold on past their time-out, or past their cancellation."""
        late: dict[str, list[str]] = {}
        for note in self.board.notes():
            if self._is_late(note, now, grace):
                named = f"{note.job}" + (f" (step {note.step!r})" if note.step else "")
                late.setdefault(self._what_was_over(note), []).append(named)
        if not late:
            return None
        told = [f"job {', '.join(named)} did not let go {grace:g} s after {what}" for what, named in late.items()]
        return Late("; ".join(told), ", ".join(each for named in late.values() for each in named))

    def _what_was_over(self, note: Note) -> str:
        why, _ = self._called_off.get((note.job, note.fence), (None, 0.0))
        if why is None:
            return "its time was over"
        return "it was cancelled" if why == "cancelled" else "it was given to another"

    def _is_late(self, note: Note, now: float, grace: float) -> bool:
        why, asked = self._called_off.get((note.job, note.fence), (None, now))
        if why is not None and asked < note.began:
            # It had only been fetched when it was called off, and has begun since: now there is a handler to tell.
            asked = now
            self._called_off[note.job, note.fence] = (why, now)
            self._write(_order(note.job, note.fence, why))
        return now > note.deadline + grace or now > asked + grace

    # — what it left behind —

    def death(self) -> Death:
        """How it ended. Jobs past their time answer for a kill; for any other death, every job it had begun."""
        now = time.monotonic()
        if self._killed is not None:
            # As things stood when it was killed: writing it down may have had to wait for the database.
            blamed = [self._blame(note, self._killed_at) for note in self._latest()]
            blamed = [each for each in blamed if each.ending != AttemptEnding.RELEASED]
            error = f"Its executor was ended: {self._killed}."
            return Death(self._killed, error, int(signal.SIGKILL), self._peak, blamed)
        if self._status == 0:
            return Death("stopped", "The worker stopped.", None, self._peak, orderly=True)
        if self._status == CANNOT_START:
            return Death("could not start", "The executor could not start.", None, self._peak, cannot_start=True)
        number = -self._status if self._status < 0 else None
        how = f"signal {number} ({signal.strsignal(number)})" if number else f"exit code {self._status}"
        blamed = [Blame(note.job, AttemptEnding.CRASHED, note.step, 0.0, now - note.began) for note in self._latest()]
        error = f"Its executor died: {how}, after using {self._peak or 0:.0f} MB at most."
        return Death(how, error, number, self._peak, blamed)

    def _latest(self) -> list[Note]:
        """What it was doing; of a job that was taken from it and given to it again, the second time."""
        return list({note.job: note for note in sorted(self.board.notes(), key=lambda note: note.fence)}.values())

    def _blame(self, note: Note, now: float) -> Blame:
        why, _ = self._called_off.get((note.job, note.fence), (None, now))
        if why == "lost":
            ending = AttemptEnding.RELEASED
        elif why is not None:
            ending = AttemptEnding.CANCELLED
        elif now > note.deadline:
            ending = AttemptEnding.TIMEOUT
        else:
            ending = AttemptEnding.RELEASED
        return Blame(note.job, ending, note.step, note.again or 0.0, now - note.began, note.again is not None)

    def close(self) -> None:
        """Let go of its pipe and its board."""
        with contextlib.suppress(OSError):
            if self._popen.stdin is not None:
                self._popen.stdin.close()
        self.board.close()


def _order(job: int, fence: int, why: str) -> bytes:
    return orjson.dumps({"call_off": [job, fence, why]}) + b"\n"

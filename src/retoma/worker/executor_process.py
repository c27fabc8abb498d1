"""One executor process from its supervisor's side: start, control, watch, kill, and account for its jobs."""

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
from dataclasses import dataclass, field, replace
from typing import Any

import orjson

from retoma.model.job import AttemptEnding
from retoma.store.jobs import BESIDE, Blame
from retoma.store.workers import Pulse
from retoma.system.process_memory import memory_of
from retoma.system.settings import Settings
from retoma.system.signals import holding_ctrl_c
from retoma.worker.executor_main import CANNOT_START, Orders
from retoma.worker.status_board import Note, StatusBoard
from retoma.worker.template import Begun, environment

_STILL = 1.0  # seconds without a tick after which an event loop counts as stuck
_PROGRAM = "import gc; gc.disable(); from retoma.worker.executor_main import main; main()"  # see system.garbage
_MOST_UNSENT = 65_536  # bytes of orders that may wait for the executor to read, in addition to the pipe's own buffer


@dataclass(frozen=True, slots=True)
class Late:
    """Why an executor must be killed, and for which jobs."""

    reason: str
    jobs: str


@dataclass(frozen=True, slots=True)
class Death:
    """How an executor ended, and the jobs that are blamed for it."""

    reason: str
    error: str
    signal: int | None
    peak_megabytes: float | None
    blamed: list[Blame] = field(default_factory=list)
    orderly: bool = False
    cannot_start: bool = False


@dataclass(slots=True)
class ExtraCounts:
    """Counters for jobs that ended or were recovered without an executor to count them."""

    failed: int = 0
    retried: int = 0
    recovered: int = 0


class Process:
    """An executor process. The future *gone* completes when the process has ended."""

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
        sheet: int | None = None,
        board: StatusBoard | None = None,
        begun: Begun | None = None,
    ) -> None:
        """*sheet* is the file on which it counts, and *begun* a process that was started with *board* and waits for its
        orders. Raises OSError when the machine cannot start another process now.
        """
        self.worker_id = worker_id
        self.board = board or StatusBoard.new(at_once)
        self.gone: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed = False
        self._status = 0
        self._peak: float | None = None
        self._killed: str | None = None
        self._killed_at = 0.0
        self._called_off: dict[tuple[int, int], tuple[str, float]] = {}  # by job and fence: why, and since when
        self._said: dict[tuple[int, int, str], float] = {}  # by job, fence and reason: when the order was last sent
        self._unsent = bytearray()
        self._full_since: float | None = None
        self._counted = ExtraCounts()
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
            sheet=sheet,
            supervisor=os.getpid(),
        )
        try:
            self._begun = begun or self._start([self.board.file, *([] if sheet is None else [sheet])])
        except OSError:
            self.board.close()
            raise
        self.pid = self._begun.pid
        self._unsent += orders.line()
        self.flush()
        self._begin_waiting()

    def _start(self, files: Sequence[int]) -> Begun:
        with holding_ctrl_c():
            started = subprocess.Popen(
                [sys.executable, "-c", _PROGRAM], stdin=subprocess.PIPE, pass_fds=files, env=environment()
            )
        assert started.stdin is not None
        with started.stdin as stdin:
            control = os.dup(stdin.fileno())
        # An executor that does not read its pipe must not block the supervisor.
        os.set_blocking(control, False)
        return Begun(started.pid, control, started)

    def _begin_waiting(self) -> None:
        # A thread of its own, because only the blocking wait4 reports the child's peak memory.
        waiting = threading.Thread(target=self._wait, args=(asyncio.get_running_loop(),), daemon=True)
        try:
            waiting.start()
        except RuntimeError as error:
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
            self.close()
            raise OSError(str(error)) from error

    def _wait(self, loop: asyncio.AbstractEventLoop) -> None:
        _, status, usage = os.wait4(self.pid, 0)
        self._status = os.waitstatus_to_exitcode(status)
        if self._begun.popen is not None:
            self._begun.popen.returncode = self._status
        scale = 1024 * 1024 if sys.platform == "darwin" else 1024
        self._peak = usage.ru_maxrss / scale
        with contextlib.suppress(RuntimeError):  # the event loop may already be closed with the supervisor
            loop.call_soon_threadsafe(self._is_gone)

    def _is_gone(self) -> None:
        if not self.gone.done():
            self.gone.set_result(None)

    # — control —

    def tell(self, order: dict[str, Any]) -> None:
        """Send an order down the control pipe."""
        if "stop" in order:
            self._told_to_stop = self._told_to_stop or time.monotonic()
        if order.get("stop"):
            self._told_to_hurry = self._told_to_hurry or time.monotonic()
        self._write(orjson.dumps(order) + b"\n")

    def _write(self, line: bytes) -> bool:
        """Queue *line* for the pipe; False when the buffer is full."""
        if len(self._unsent) + len(line) > _MOST_UNSENT:
            return False
        self._unsent += line
        self.flush()
        return True

    def flush(self) -> None:
        """Write as much of the buffered orders as the pipe accepts now."""
        try:
            while self._unsent:
                del self._unsent[: os.write(self._begun.control, self._unsent)]
            self._full_since = None
        except BlockingIOError:
            self._full_since = self._full_since or time.monotonic()
        except (OSError, ValueError):  # the process is exiting
            self._unsent.clear()

    def call_off(self, called: Sequence[tuple[int, int, str]]) -> None:
        """Tell the executor to drop jobs; a paused job may finish its current step. *called* lists all such jobs at
        every heartbeat. Each order is sent once. It is sent again only when the executor's loop has moved since and the
        job is still listed, because the first order may have arrived before the executor knew that it holds the job.
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
        """Kill the process; False when it has been killed before or has ended."""
        if self._killed is not None or self.gone.done():
            return False
        self._killed, self._killed_at = reason, time.monotonic()
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGKILL)
        return True

    def has_settled(self, now: float, *, longest: float) -> bool:
        """Whether the process may be killed now. An executor whose event loop still moves first writes the answers in
        flight for its other jobs, because they are paid for. It has at most *longest* seconds for that.
        """
        totals = self.board.totals()
        if now - totals.ticked > _STILL or (self._full_since is not None and now - self._full_since > _STILL):
            return True
        if self._told_to_settle is None:
            self._told_to_settle = now
            self._write(orjson.dumps({"settle": True}) + b"\n")
        return totals.settled or now - self._told_to_settle > longest

    def hurry(self, now: float, *, drain: float, grace: float) -> None:
        """Escalate after an order to stop: after *drain* seconds tell the executor to release everything now, and after
        *grace* more seconds kill it.
        """
        if self._told_to_stop is None:
            return
        if self._told_to_hurry is None and now - self._told_to_stop > drain:
            self.tell({"stop": True})
        elif self._told_to_hurry is not None and now - self._told_to_hurry > grace + 1:
            self.kill("it did not stop in time")

    # — watching —

    def count(self, also: ExtraCounts) -> None:
        """Add counters that belong to no executor; the pulse of this process reports them."""
        self._counted.failed += also.failed
        self._counted.retried += also.retried
        self._counted.recovered += also.recovered

    def pulse(self) -> Pulse:
        """The counters of this process, for a heartbeat."""
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
            memory=memory_of(self.pid),
            doing=self._doing(),
        )

    def _doing(self) -> str:
        told = [{"job": note.job, "fence": note.fence, "step": note.step} for note in self.board.notes()]
        return orjson.dumps(told).decode().replace("\\u0000", "")

    def believed(self) -> list[tuple[int, int, int]]:
        """The jobs that the executor itself says it runs: job, worker, fence."""
        return [(note.job, self.worker_id, note.fence) for note in self.board.notes()]

    def overdue(self, now: float, *, grace: float) -> Late | None:
        """The jobs that still run *grace* seconds after their time-out or cancellation; None when there are none."""
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
            # The job was only prefetched when the order was sent and has started since: now there is
            # a handler to cancel.
            asked = now
            self._called_off[note.job, note.fence] = (why, now)
            self._write(_order(note.job, note.fence, why))
        return now > note.deadline + grace or now > asked + grace

    # — after its end —

    def death(self) -> Death:
        """How the process ended. After a kill the jobs past their deadline are blamed; after a crash those whose code
        was on the processor, and if there is none, every started job.
        """
        now = time.monotonic()
        if self._killed is not None:
            # Judge deadlines at the time of the kill: this code may run later, after waiting for the database.
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
        error = f"Its executor died: {how}, after using {self._peak or 0:.0f} MB at most."
        return Death(how, error, number, self._peak, blamed_for_death(self._latest(), error, now))

    def _latest(self) -> list[Note]:
        """The notes on the board; when a job appears twice because it was lost and claimed again, the
        one with the newer fence.
        """
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
        """Close the control pipe and the board."""
        if not self._closed:
            self._closed = True
            os.close(self._begun.control)
        self.board.close()


def blamed_for_death(notes: Sequence[Note], error: str, now: float) -> list[Blame]:
    """The jobs that had begun when their executor died of itself, each with what it means for that job.

    The job whose code was on the processor did it, as far as can be known, and runs alone from now on; the others are
    given back without blame. If several were, in threads, each of them may have. If none was, the cause came from
    outside, or from a thread that no mark follows: then it counts against every job.
    """
    running = [note for note in notes if note.running]
    names = ", ".join(str(note.job) for note in running)
    others = f", and so was that of {len(running) - 1} more" if len(running) > 1 else ""
    nobody = f"{error} No job's code was running at that moment. It counts against each that had begun ({len(notes)})."
    culprit = f"{error} This job's code was running at that moment{others}."
    beside = f"{error} Job {names} was running at that moment. This job was beside it and is not blamed."
    blamed = []
    for note in notes:
        blame = Blame(note.job, AttemptEnding.CRASHED, note.step, 0.0, now - note.began, error=nobody)
        if note.running:
            blame = replace(blame, alone=len(running) == 1, error=culprit)
        elif running:
            blame = replace(blame, ending=AttemptEnding.RELEASED, reason=BESIDE, error=beside)
        blamed.append(blame)
    return blamed


def _order(job: int, fence: int, why: str) -> bytes:
    return orjson.dumps({"call_off": [job, fence, why]}) + b"\n"

"""Shared memory between a supervisor and one executor.

Before the executor does something, it notes the job, the step and the deadline here. The supervisor reads the notes
when a deadline passes or when the executor has died, so it knows which job to blame: behind the notes are the marks
(``retoma.system.marks``), which say whose code is on the processor. A note costs no system call. In the other
direction, the supervisor notes its last successful heartbeat, so an executor that is cut off knows it.
"""

from __future__ import annotations

import mmap
import os
import struct
import tempfile
from dataclasses import dataclass

from retoma.system.marks import LOOP

_FLOAT = struct.Struct("<d")  # the heartbeat time, first in the header
_TOTALS = struct.Struct("<7qdd")  # ready, claimed, completed, failed, retried, draining, settled; busy, ticked
_NOTE = struct.Struct("<qqddH78sd")  # job, fence, began, deadline, length of the step's name, name, again
_NEVER = -1.0
_SIZE = 128
_NAME = 78
_TIMES = struct.Struct("<dH78s")
_MARK = struct.Struct("<H")
assert max(_NOTE.size, _FLOAT.size + _TOTALS.size) <= _SIZE


@dataclass(frozen=True, slots=True)
class Note:
    """What one place of an executor is doing. Times are of the machine's monotonic clock."""

    job: int
    fence: int
    began: float
    deadline: float
    step: str | None
    again: float | None = 0.0
    """Seconds until the retry after a time-out; None when there is none."""
    running: bool = False
    """Whether the job's code is on the processor: in the event loop's thread, or in a thread of a pool."""


@dataclass(slots=True)
class Totals:
    """The counters of one executor since it started."""

    ready: bool = False
    claimed: int = 0
    completed: int = 0
    failed: int = 0
    retried: int = 0
    draining: bool = False
    busy: float = 0.0
    settled: bool = False
    """Every paid answer is written, and no new call will start."""
    ticked: float = 0.0
    """When the event loop last moved, by the machine's monotonic clock."""


class StatusBoard:
    """A header, one fixed place for each handler that may run at once, and one mark for each thread."""

    def __init__(self, file: int, places: int) -> None:
        self.file = file
        self.places = places
        self._memory = mmap.mmap(file, _size(places))
        self._views = [whole := memoryview(self._memory), part := whole[_SIZE * (places + 1) :], part.cast("H")]
        self.marks = self._views[-1]

    @classmethod
    def new(cls, places: int) -> StatusBoard:
        """A board on an unnamed file; the executor inherits its descriptor."""
        with tempfile.TemporaryFile() as unnamed:
            file = os.dup(unnamed.fileno())
        os.ftruncate(file, _size(places))
        return cls(file, places)

    def close(self) -> None:
        for view in reversed(self._views):
            view.release()
        self._memory.close()
        os.close(self.file)

    # — executor side —

    def begin(self, place: int, job: int, fence: int, began: float, deadline: float, again: float | None = 0.0) -> None:
        wait = _NEVER if again is None else again
        _NOTE.pack_into(self._memory, _SIZE * (place + 1), job, fence, began, deadline, 0, b"", wait)

    def step(self, place: int, name: str, deadline: float) -> None:
        words = name.encode()[:_NAME]
        _TIMES.pack_into(self._memory, _SIZE * (place + 1) + 24, deadline, len(words), words)

    def clear(self, place: int) -> None:
        _NOTE.pack_into(self._memory, _SIZE * (place + 1), 0, 0, 0.0, 0.0, 0, b"", 0.0)

    def tell(self, totals: Totals) -> None:
        # Write beside the heartbeat time, never over it: only the supervisor writes that field.
        _TOTALS.pack_into(
            self._memory,
            _FLOAT.size,
            int(totals.ready),
            totals.claimed,
            totals.completed,
            totals.failed,
            totals.retried,
            int(totals.draining),
            int(totals.settled),
            totals.busy,
            totals.ticked,
        )

    @property
    def beat(self) -> float:
        """When the supervisor's last heartbeat reached the database."""
        return float(_FLOAT.unpack_from(self._memory, 0)[0])

    # — supervisor side —

    @beat.setter
    def beat(self, at: float) -> None:
        _FLOAT.pack_into(self._memory, 0, at)

    def totals(self) -> Totals:
        ready, claimed, completed, failed, retried, draining, settled, busy, ticked = _TOTALS.unpack_from(
            self._memory, _FLOAT.size
        )
        return Totals(bool(ready), claimed, completed, failed, retried, bool(draining), busy, bool(settled), ticked)

    def notes(self) -> list[Note]:
        """What the executor is doing now, or was doing when it died."""
        found, running = [], {number for number in self.marks if number}
        for place in range(1, self.places + 1):
            job, fence, began, deadline, length, name, again = _NOTE.unpack_from(self._memory, _SIZE * place)
            if job:
                step = name[:length].decode(errors="replace") if length else None
                wait = None if again == _NEVER else again
                found.append(Note(job, fence, began, deadline, step, wait, place in running))
        return found


def step_threads(places: int) -> int:
    """How many threads an executor of so many places has for blocking steps."""
    return max(32, 4 * places)


def _size(places: int) -> int:
    return _SIZE * (places + 1) + _MARK.size * (LOOP + 1 + places + step_threads(places))

"""Lines of attempts that completed, many at once.

A busy executor writes 20,000 such lines in a second, which differ in a few numbers. The line of a made-up attempt is
kept as a form, and the numbers are filled in: what a line looks like is decided in one place, and paid for once.
"""

from __future__ import annotations

import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from typing import TextIO

from retoma.model.job import AttemptEnding, Ended
from retoma.telemetry.event import Event
from retoma.telemetry.events import AttemptEnded
from retoma.telemetry.redaction import harmless
from retoma.telemetry.spans import trace_of, tracing_anything

_COMPLETED = AttemptEnding.COMPLETED
_MOST = 1000  # forms that are kept; each pipeline of each queue needs up to four
_ATOMIC = 4096  # bytes that a pipe takes as a whole, so that the lines of two executors never mix
_FILE = 1 << 20  # a file takes as much as it is given, and each write less is a system call less

# What no real attempt says, each a text that is found in the line of the made-up one.
_JOB, _ATTEMPT, _FENCE, _BATCH = 910000000000000001, 910000000000000002, 910000000000000003, 910000000000000004
_MILLISECONDS, _CORRELATION = 91000000000.125, "00000000-91-91-91-000000000000"

_Key = tuple[int, str, str, str, bool, bool]


class Clock:
    """The time as it stands in a line. The text of a second is made once."""

    def __init__(self) -> None:
        self._second, self._text = 0, ""

    def __call__(self) -> str:
        now = time.time_ns() // 1_000_000
        second, thousandths = divmod(now, 1000)
        if second != self._second:
            self._text = datetime.fromtimestamp(second, UTC).strftime("%Y-%m-%dT%H:%M:%S")
            self._second = second
        return f"{self._text}.{thousandths:03d}Z"


class Forms:
    """Makes the lines; *told* makes the line of any event, and *clock* says when."""

    def __init__(self, told: Callable[[Event], str], clock: Clock) -> None:
        self._told = told
        self._clock = clock
        self._forms: dict[_Key, tuple[str, ...]] = {}

    def lines(self, facts: Sequence[tuple[int, Ended, str]]) -> list[str]:
        """The line of each attempt. One that has a reason, an error, a trace or an unusual correlation id is told in
        full.
        """
        now, traced = self._clock(), tracing_anything()
        found: list[str] = []
        last: _Key | None = None
        for worker, ended, state in facts:
            claim = ended.claim
            correlation, batch = claim.correlation_id, claim.batch_id
            if (
                ended.ending is not _COMPLETED
                or ended.reason is not None
                or ended.error is not None
                or (correlation is not None and not harmless(correlation))
                or (traced and trace_of(claim.id, claim.fence) is not None)
            ):
                found.append(self._told(AttemptEnded.of((worker, ended, state))))
                continue
            key = (worker, claim.pipeline, claim.queue, state, correlation is None, batch is None)
            if key != last:
                start, job, attempt, between, fence, end = self._forms.get(key) or self._form(key)
                head, last = f"{start}{now}{job}", key
            middle = between if correlation is None and batch is None else between % (correlation, batch)
            milliseconds = ended.seconds * 1000
            found.append(f"{head}{claim.id}{attempt}{claim.attempt}{middle}{claim.fence}{fence}{milliseconds:.3f}{end}")
        return found

    def _form(self, key: _Key) -> tuple[str, ...]:
        """What stands around the values of a line: before the time, the job, the attempt and the fence, before the
        duration, and behind it.
        """
        worker, pipeline, queue, state, uncorrelated, single = key
        made_up = AttemptEnded(
            worker=worker,
            job=_JOB,
            pipeline=pipeline,
            attempt=_ATTEMPT,
            correlation=None if uncorrelated else _CORRELATION,
            queue=queue,
            batch=None if single else _BATCH,
            fence=_FENCE,
            state=state,
            ending=str(_COMPLETED),
            duration_ms=_MILLISECONDS,
        )
        before, quote, line = self._told(made_up).partition('"at":"')
        rest = line[line.index('"') :]
        form = [before + quote]
        for value in (_JOB, _ATTEMPT, _FENCE, _MILLISECONDS):
            piece, _, rest = rest.partition(str(value))
            form.append(piece)
        if not (uncorrelated and single):
            # Takes both values, and writes nothing for one that is not there.
            between = form[3].replace("%", "%%").replace(_CORRELATION, "%s").replace(str(_BATCH), "%s")
            form[3] = between + "%.0s" if single else "%.0s" + between if uncorrelated else between
        if len(self._forms) >= _MOST:
            self._forms.clear()
        self._forms[key] = found = (*form, rest)
        return found


def piece_of(stream: TextIO) -> int:
    """How many bytes *stream* takes as a whole."""
    try:
        return _FILE if stat.S_ISREG(os.fstat(stream.fileno()).st_mode) else _ATOMIC
    except (OSError, ValueError):  # it is no file of the system's
        return _ATOMIC


def in_pieces(lines: Sequence[str], most: int = _ATOMIC) -> Iterator[str]:
    """The lines, as many in a piece as fit into *most* bytes."""
    widest = 1 if all(map(str.isascii, lines)) else 4  # bytes of a character
    longest = max(map(len, lines), default=0) * widest + 1
    number = max(1, most // longest)
    for first in range(0, len(lines), number):
        yield "\n".join(lines[first : first + number]) + "\n"

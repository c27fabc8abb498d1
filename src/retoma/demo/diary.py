"""The diary: whoever really reads or judges a document writes a line, in a file that only grows.

The engine never reads it. What it proves rests on its order alone: a step that began shows that the ones before it were
saved, and a document that is done shows that all of them were.
"""

from __future__ import annotations

import json
import os
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from pathlib import Path

from retoma.run.run import Run

READ, CLASSIFY, DONE = "read", "classify", "done"
_ORDER = (READ, CLASSIFY, DONE)

NOW: ContextVar[Run] = ContextVar("retoma_demo_run")
"""The attempt in whose name a provider is asked; the demo's program sets it."""


@dataclass(frozen=True, slots=True)
class Line:
    """Something began (or, for DONE, ended) in the attempt that carried this fence."""

    job: int
    fence: int
    step: str


class Diary:
    """A file that is only appended to."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def write(self, step: str) -> None:
        """Note that *step* begins now, in the attempt at hand."""
        job, fence = NOW.get().token.split(":")
        line = json.dumps(asdict(Line(int(job), int(fence), step))) + "\n"
        # One write in append mode: lines of several processes do not mix, and a kill leaves whole lines.
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def read(self) -> list[Line]:
        """Everything that was noted, in its order."""
        if not self.path.exists():
            return []
        return [Line(**json.loads(line)) for line in self.path.read_text().splitlines()]


def redone(lines: Sequence[Line]) -> int:
    """How often a step ran although it had been saved.

    A stale attempt, one that carries an older fence than the proof, may still run to its end: its writes miss, and it
    is not the work being done again.
    """
    proofs: dict[int, dict[int, int]] = {}
    again = 0
    for line in lines:
        rank, known = _ORDER.index(line.step), proofs.setdefault(line.job, {})
        saved = max((proof for fence, proof in known.items() if fence <= line.fence), default=-1)
        # Twice in one attempt, or after a later step: both are once too often.
        again += rank < saved or known.get(line.fence, -1) == rank
        known[line.fence] = max(rank, known.get(line.fence, -1))
    return again


def begun_anew(lines: Sequence[Line]) -> int:
    """How often a step began again because the first time it was cut off before anything of it could be saved."""
    return len(lines) - len({(line.job, line.step) for line in lines}) - redone(lines)

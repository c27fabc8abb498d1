"""The diary: each step writes a line when it really runs, in a file that only grows. The engine never reads it."""

from __future__ import annotations

import functools
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import ParamSpec, TypeVar

from retoma.run import Run

P = ParamSpec("P")
T = TypeVar("T")

VARIABLE = "RETOMA_DEMO_DIARY"


@dataclass(frozen=True, slots=True)
class Line:
    """A step ran, in the attempt that carried this fence."""

    job: int
    fence: int
    step: str


class Diary:
    """A file that is only appended to; without a path, nothing is written."""

    def __init__(self, path: str | None) -> None:
        self.path = Path(path) if path else None

    def write(self, run: Run, step: str) -> None:
        """Note that *step* runs now."""
        if self.path is None:
            return
        job, fence = run.token.split(":")
        line = json.dumps(asdict(Line(int(job), int(fence), step))) + "\n"
        # One write in append mode: lines of several processes do not mix, and a kill leaves whole lines.
        file = os.open(self.path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(file, line.encode())
        finally:
            os.close(file)

    def read(self) -> list[Line]:
        """Everything that ran."""
        if self.path is None or not self.path.exists():
            return []
        return [Line(**json.loads(line)) for line in self.path.read_text().splitlines()]

    def witness(self, run: Run, step: str, function: Callable[P, T]) -> Callable[P, T]:
        """*function*, with a line in the diary before each time it runs."""

        @functools.wraps(function)
        def witnessed(*args: P.args, **kwargs: P.kwargs) -> T:
            self.write(run, step)
            return function(*args, **kwargs)

        return witnessed

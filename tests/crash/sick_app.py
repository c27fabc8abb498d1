"""Work of several steps, and faults planted in the engine itself, where a file says so."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from crash_app import PIPELINES, mark, pause, record

from retoma import Retoma, Retry, Run, SyncRun, pipeline
from retoma.model.job import Claim
from retoma.worker.claimer import Claimer
from retoma.worker.executor import Executor

ONCE = Retry(attempts=1)
FOLDER = Path(os.environ.get("PLANTED", "/nowhere"))


@pipeline("six", queue="work", retry=ONCE, timeout=100)
async def six(seconds: float, run: Run) -> int:
    """Six steps; the third and the last have rows of their own. One attempt: whatever is charged shows."""
    for number in range(1, 7):
        name = f"step/{number}"
        if number in (3, 6):
            await run.transact(name, record, run, name)
        else:
            await run.step(name, pause, run, name, seconds)
        mark(run, name, "done")
    return 6


@pipeline("plainly", queue="work", retry=ONCE, timeout=100)
def plainly(number: int, run: SyncRun) -> int:
    def keep(connection: Any) -> int:
        job, fence = (int(part) for part in run.token.split(":"))
        sql = "insert into effects (job, step, fence, pid) values (%s, 'plain', %s, %s)"
        connection.execute(sql, (job, fence, os.getpid()))
        return number

    return run.transact("plain", keep)


def _planted(name: str) -> bool:
    """Whether a fault of that *name* was planted; it is used up."""
    try:
        (FOLDER / name).unlink()
    except OSError:
        return False
    return True


_claim, _take = Claimer.claim, Executor._take


async def claim(self: Claimer, limit: int, **options: Any) -> list[Claim]:
    if _planted("loop"):
        raise RuntimeError("planted: the main loop fails")
    return await _claim(self, limit, **options)


def take(self: Executor, claims: Sequence[Claim]) -> None:
    if claims and _planted("leak"):
        return
    _take(self, claims)


if FOLDER.is_dir():
    Claimer.claim = claim  # type: ignore[method-assign]
    Executor._take = take  # type: ignore[method-assign]

app = Retoma(pipelines=[*PIPELINES, six, plainly])

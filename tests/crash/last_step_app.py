"""Letters, and a last step over all of them that takes its time. What they do goes to the log and the table."""

from __future__ import annotations

import asyncio
from pathlib import Path

from crash_app import FILE, SOON, mark, record

from retoma import BatchEnd, Retoma, Run, pipeline

FOLDER = Path(FILE).parent
GO = "go"
"""A file of this name beside the log: the second half of the last step is done."""


async def _first(run: Run) -> int:
    mark(run, "first")
    return 1


async def _second(run: Run) -> int:
    mark(run, "second")
    while not (FOLDER / GO).exists():
        await asyncio.sleep(0.05)
    return 2


@pipeline("sum-up", queue="letters", retry=SOON)
async def sum_up(batch: BatchEnd, run: Run) -> int:
    """Two steps, with a row after each."""
    await run.step("first", _first, run)
    await run.transact("half", record, run, "half")
    await run.step("second", _second, run)
    await run.transact("whole", record, run, "whole")
    return batch.total


@pipeline("letter", queue="letters", retry=SOON, finish=sum_up)
async def letter(_number: int, run: Run) -> int:
    return await run.transact("record", record, run, "record")


app = Retoma(pipelines=[letter])

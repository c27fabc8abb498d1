"""The jobs that are measured: one that does nothing, one of ten steps, one that takes a while."""

from __future__ import annotations

import asyncio
import time

from retoma import Retoma, Run, pipeline

STEPS = 10


@pipeline("bench-noop")
async def noop(number: int, run: Run) -> None:  # noqa: ARG001 - it does nothing, on purpose
    return


@pipeline("bench-clock")
async def clock(number: int, run: Run) -> float:  # noqa: ARG001
    return time.monotonic()


async def _nothing() -> int:
    return 1


@pipeline("bench-steps")
async def steps(number: int, run: Run) -> int:
    for step in range(STEPS):
        await run.step(f"step/{step}", _nothing)
    return number


@pipeline("bench-nap", timeout=600)
async def nap(seconds: float, run: Run) -> None:  # noqa: ARG001
    await asyncio.sleep(seconds)


app = Retoma(pipelines=[noop, clock, steps, nap])

"""A program of a user's, for a worker that is started and killed; every effect is a row in a table of its own."""

import time
from typing import Any

import psycopg

from retoma import Retoma, Run, pipeline


async def write_down(connection: psycopg.AsyncConnection[Any], job: int, step: str) -> str:
    await connection.execute("insert into effects (job, step) values (%s, %s)", [job, step])
    return step


@pipeline("two-steps", timeout=60)
async def two_steps(number: int, run: Run) -> int:
    await run.transact("one", write_down, run.job, "one")
    await run.step("pause", time.sleep, 0.05)
    await run.transact("two", write_down, run.job, "two")
    return number


app = Retoma(pipelines=[two_steps])

"""A program of a user's, for a worker that is started and killed; every effect is a row in a table of its own."""

import asyncio
import os
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


@pipeline("late-statement", timeout=60)
async def late_statement(seconds: float, run: Run) -> None:
    """Saves its step while another session runs a statement that outlives the process."""
    url = os.environ["LATE_URL"]
    async with (
        await psycopg.AsyncConnection.connect(url, autocommit=True) as late,
        await psycopg.AsyncConnection.connect(url, autocommit=True) as look,
    ):
        write = "insert into effects (job, step) select %s, 'late' from pg_sleep(%s)"
        written = asyncio.create_task(late.execute(write, [run.job, seconds]))
        active = "select from pg_stat_activity where pid = %s and state = 'active' and wait_event = 'PgSleep'"
        while not (await look.execute(active, [late.info.backend_pid])).rowcount:
            await asyncio.sleep(0.01)
        await run.step("begun", str, "begun")
        await written


app = Retoma(pipelines=[two_steps, late_statement])

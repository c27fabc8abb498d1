"""A program of somebody's: pipelines of Retoma, and beside them a Celery with tasks of its own."""

from __future__ import annotations

import asyncio
import os
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg

from retoma import Retoma, Retry, Run, pipeline

FILE = os.environ.get("GUEST_FILE", "/dev/null")

_file = os.open(FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)


async def record(connection: psycopg.AsyncConnection[Any], run: Run) -> None:
    """An effect that commits with its checkpoint; the line is written whatever becomes of it."""
    os.write(_file, f"{run.token.partition(':')[0]} {os.getpid()}\n".encode())
    await asyncio.sleep(float(os.environ.get("GUEST_SECONDS", "0.2")))
    await connection.execute("insert into effects (job) values (%s)", (int(run.token.partition(":")[0]),))


@pipeline("guest", queue="guest", retry=Retry(attempts=20, wait=0.1, factor=1, jitter=0))
async def guest(number: int, run: Run) -> int:
    await run.transact("record", record, run)
    return number


app = Retoma(pipelines=[guest])

if broker := os.environ.get("REDIS_URL"):
    from celery import Celery
    from quote_task import TIMEOUT, process_quote_request

    from retoma.errors import RowConflict
    from retoma.hosts.celery import host
    from retoma.hosts.checkpoints import CheckpointManager

    celery = Celery("guest", broker=broker)
    celery.conf.update(task_acks_late=True, worker_prefetch_multiplier=1, task_ignore_result=True)
    celery.conf.broker_connection_retry_on_startup = True
    host(celery, "guest_program:app", processes=1, at_once=4)

    @celery.task(name="process_quote_request")
    def process(quote: int) -> None:
        """A stage takes a while, so that a node can be lost in the middle of one."""
        log = Path(FILE).parent / f"quote-{quote}.log"
        try:
            process_quote_request(os.environ["DATABASE_URL"], quote, log, _take_a_while)
        except RowConflict as refused:
            if refused.code not in ("held", "ended"):  # a message that is there twice
                raise

    @celery.task(name="recover_stuck_quotes")
    def recover() -> None:
        with psycopg.connect(os.environ["DATABASE_URL"]) as connection:
            sweep = CheckpointManager(connection, heartbeat_timeout=TIMEOUT, commit=True)
            for quote in sweep.recover_stuck(lost_after=timedelta(minutes=1)).again:
                process.delay(quote)

    def _take_a_while(_: str) -> None:
        time.sleep(0.5)

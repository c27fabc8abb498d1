"""Commands on batches with thousands of jobs, by the front door."""

from __future__ import annotations

import asyncio
import signal
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

import retoma.errors
import retoma.sync
from retoma.commands import operations as operation_commands
from retoma.testing import drain
from retoma.worker.watchdog import Watchdog

from .conftest import BLOCKED

sys.path.insert(0, str(Path(__file__).parent))

from large_program import count

MANY = operation_commands.SMALL + 500


async def test_a_command_whose_caller_is_killed_in_the_middle_is_finished_by_the_watchdog(
    app_with: Any, database_url: str
) -> None:
    app = await app_with(count)
    batch = await app.batch(count, range(MANY), name="large")
    caller = await asyncio.create_subprocess_exec(
        sys.executable,
        str(Path(__file__).with_name("large_program.py")),
        str(batch.id),
        stdout=asyncio.subprocess.PIPE,
        env={"DATABASE_URL": database_url, "PATH": ""},
    )
    assert caller.stdout is not None
    first = int(await caller.stdout.readline())
    caller.send_signal(signal.SIGKILL)
    await caller.wait()
    [left] = await app.batches.operations(batch.id)
    assert 0 < first == left.done < MANY
    assert not left.finished
    assert (await app.batches.get(batch.id)).state == "cancelled", "that was decided at once"

    await Watchdog(lambda: app.database).look_after()

    [over] = await app.batches.operations(batch.id)
    assert (over.finished, over.done, over.error) == (True, MANY, None)
    assert (await app.batches.progress(batch.id)).cancelled == MANY
    assert await app.system.verify() == []


async def test_who_waits_gets_the_finished_result_whatever_the_size(app_with: Any) -> None:
    app = await app_with(count)
    batch = await app.batch(count, range(MANY), name="large")

    cancelled = await app.batches.cancel(batch.id)
    assert (cancelled.state, cancelled.unfinished, cancelled.operation_id) == ("cancelled", 0, None)
    again = await app.batches.retry_failed(batch.id, cancelled=True)
    assert (again.changed, again.word, again.jobs, again.batch.unfinished) == (True, "retried", MANY, MANY)
    await app.batches.cancel(batch.id)
    anew = await app.batches.restart(batch.id, by="me")
    assert (anew.word, anew.jobs, anew.batch.state) == ("restarted", MANY, "running")
    assert [(each.kind, each.asked_by) for each in await app.batches.operations(batch.id)] == [
        ("restart", "me"), ("cancel", "person"), ("retry", "person"), ("cancel", "person")
    ]  # fmt: skip


async def test_what_nobody_waits_for_goes_on_afterwards_also_when_it_was_asked_in_a_transaction(app_with: Any) -> None:
    app = await app_with(count)
    batch = await app.batch(count, range(MANY), name="large")
    async with app.transaction() as connection:
        asked = await app.batches.cancel(batch.id, conn=connection)
        assert asked.operation_id is not None

    async with asyncio.timeout(60):
        while (await app.batches.get(batch.id)).operation_id is not None:
            await asyncio.sleep(0.05)
    assert (await app.batches.get(batch.id)).unfinished == 0


async def test_jobs_of_another_batch_end_while_a_large_one_is_cancelled(
    app_with: Any, psql: psycopg.Connection
) -> None:
    app = await app_with(count)
    large = await app.batch(count, range(MANY), name="large")
    other = await app.batch(count, range(20), name="other")
    found = await app.batches.cancel(large.id, wait=False)
    async for now in app.batches.carry_out(found.operation_id):
        if not now.finished:  # between two pieces nothing of the large one is locked
            assert psql.execute(BLOCKED).fetchone() == (0,)
            await drain(app, queues=["count"])
    assert (await app.batches.get(other.id)).state == "completed"


async def test_the_door_without_await_says_the_same(settings: Any, app_with: Any) -> None:
    await app_with(count)

    def plain() -> None:
        with retoma.sync.Retoma(settings=settings, pipelines=[count]) as app:
            batch = app.batch(count, range(MANY), name="large")
            assert app.batches.cancel(batch.id).unfinished == 0
            assert app.batches.retry_failed(batch.id, cancelled=True).jobs == MANY
            asked = app.batches.cancel(batch.id, wait=False)
            assert asked.operation_id is not None
            *_, last = app.batches.carry_out(asked.operation_id)
            assert (last.finished, last.done) == (True, MANY)
            assert app.batches.restart(batch.id).jobs == MANY
            assert len(app.batches.operations(batch.id)) == 4

    await asyncio.to_thread(plain)


@pytest.mark.parametrize("number", [0, 2**70])
async def test_an_operation_that_is_not_there_is_not_found(app_with: Any, number: int) -> None:
    app = await app_with(count)

    with pytest.raises(retoma.errors.NotFound):
        async for _ in app.batches.carry_out(number):
            pass

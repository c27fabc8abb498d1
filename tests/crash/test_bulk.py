"""An operation on many jobs whose process is killed: nothing is lost, nothing is done twice, others finish it."""

from __future__ import annotations

import itertools
import signal
from collections import Counter
from collections.abc import AsyncIterator

import batch_app
import pytest
from fleet import Fleet, until

from retoma import Retoma
from retoma.model.operation import JobFilter

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

JOBS = 300
KILLS = 6


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Retoma]:
    async with Retoma(fleet.url, pipelines=batch_app.PIPELINES) as app:
        yield app


async def stopped(app: Retoma) -> list[int]:
    """Two batches whose jobs were all cancelled."""
    ids = []
    for _ in range(2):
        batch = await app.batch(batch_app.ask, batch_app.documents(JOBS // 2), name="many", key=lambda each: each.key)
        await app.batches.cancel(batch.id)
        ids.append(int(batch.id))
    return ids


async def test_one_whose_process_is_killed_again_and_again_is_finished_by_the_watchdog(
    fleet: Fleet, app: Retoma
) -> None:
    batches = await stopped(app)
    async with app.transaction() as conn:
        begun = await app.jobs.operate("retry", JobFilter(states=("cancelled",)), by="ana", conn=conn)
    # The caller's own process goes on with it, too; it is stopped so that only those that are killed carry it.
    await app.jobs._run.close()
    counted: list[int] = []
    for number in itertools.count():
        caller = fleet.call(f"caller-{number}", "bulk_caller.py", fleet.url, begun.id)
        said = await until(lambda caller=caller: caller.words() or caller.ended, what="a piece")
        caller.send(signal.SIGKILL)
        await until(lambda caller=caller: caller.ended, what="its end")
        counted.append((await app.jobs.operation(begun.id)).done)
        if number + 1 >= KILLS or said is True:
            break

    await app.batches.look_after()
    over = await app.jobs.operation(begun.id)

    assert counted == sorted(counted)
    assert (over.done, over.skipped, over.error) == (JOBS, {}, None)
    assert over.finished
    events = [each for batch in batches for each in await app.batches.events(batch) if each.kind == "jobs"]
    revived = Counter(id for each in events for id, state in each.data["jobs"] if state == "queued")
    assert (len(revived), set(revived.values())) == (JOBS, {1})
    assert await app.system.verify(sweep_seconds=0.0) == []

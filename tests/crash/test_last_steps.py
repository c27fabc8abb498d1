"""The last step of a batch whose workers are killed: what it has done is not done again, and it runs once."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import AsyncIterator

import last_step_app
import pytest
from fleet import LEASE, Fleet, Member, until
from oracle import Oracle

from retoma import Retoma
from retoma.model.batch import Batch

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Retoma]:
    async with Retoma(fleet.url, pipelines=[last_step_app.letter]) as app:
        yield app


def start(fleet: Fleet, label: str) -> Member:
    return fleet.start(label, app="last_step_app:app", at_once=4, lease_seconds=LEASE, watchdog_seconds=0.5)


def kill(member: Member) -> None:
    """The supervisor is stopped first, so that it cannot say a last word."""
    member.send(signal.SIGSTOP)
    member.send(signal.SIGKILL, executors=True)


async def each_once(app: Retoma, oracle: Oracle, batch: Batch) -> None:
    """Every letter and every half of the last step has its effect once, and the tables agree."""
    assert batch.finish is not None
    assert batch.finish.job_id is not None
    effects = oracle.effects()
    letters = [job for job in oracle.jobs(batch.id) if job != batch.finish.job_id]
    assert {job: effects[job, "record"] for job in letters} == dict.fromkeys(letters, 1)
    assert (effects[batch.finish.job_id, "half"], effects[batch.finish.job_id, "whole"]) == (1, 1)
    now = await app.batches.progress(batch.id)
    assert now.finish is not None
    assert (now.state, now.completed, now.finish.state, now.finish.run) == ("completed", len(letters), "completed", 1)
    assert await app.system.verify() == []


async def test_a_worker_killed_in_the_middle_of_the_last_step_leaves_the_rest_to_another_which_redoes_nothing(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    first = start(fleet, "ana")
    await first.ready()
    batch = await app.batch(last_step_app.letter, range(8), name="letters", key=str)
    assert batch.finish is not None
    assert batch.finish.job_id is not None
    last = batch.finish.job_id
    await until(lambda: oracle.effects()[last, "half"] == 1, what="the first half of the last step is done")
    kill(first)
    (fleet.folder / last_step_app.GO).touch()
    start(fleet, "bruno")
    await until(lambda: oracle.batch(batch.id)[0] == "completed", what="the batch is completed")

    kept = await app.jobs.checkpoints(last)
    assert Counter(each.step for each in kept) == {"first": 1, "half": 1, "second": 1, "whole": 1}
    assert len({each.fence for each in kept}) == 2, "the killed worker saved the first half, the other one the rest"
    await each_once(app, oracle, batch)


async def test_two_workers_of_which_one_is_killed_as_the_last_letters_end_run_the_last_step_once(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    (fleet.folder / last_step_app.GO).touch()
    first, second = start(fleet, "ana"), start(fleet, "bruno")
    await first.ready()
    await second.ready()
    batch = await app.batch(last_step_app.letter, range(60), name="letters", key=str)
    await until(lambda: len(oracle.jobs(batch.id, "completed")) >= 40, what="most letters are done")
    kill(first)
    await until(lambda: oracle.batch(batch.id)[0] == "completed", what="the batch is completed")

    assert not second.ended
    await each_once(app, oracle, batch)

"""Told to stop: a worker by a signal, a job by a person."""

from __future__ import annotations

import asyncio
import signal

import crash_app
import pytest
from fleet import Fleet, until
from oracle import Oracle

from retoma import Retoma

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


async def test_sigterm_finishes_the_step_saves_it_and_hands_the_job_back(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    first = fleet.start("ana", at_once=3)
    jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [1.0] * 3)]
    await until(lambda: all(oracle.begun(job, "slow") for job in jobs), what="all are in their slow step")

    first.send(signal.SIGTERM)

    assert await first.exit_code() == 0
    assert oracle.states() == {"queued": 3}
    for job in jobs:
        assert oracle.job(job)[2:4] == (0, 0), "a hand-back must not cost an attempt"
        assert oracle.attempts(job)[0][0] == "released"
    assert len([mark for mark in oracle.marks("done") if mark.step == "slow"]) == 3
    assert oracle.one("select count(*) from retoma.workers where stopped_at is null") == 0

    fleet.start("bruno", at_once=3)
    await until(oracle.all_ended, what="the other worker ends them")
    assert oracle.states() == {"completed": 3}
    assert all(oracle.begun(job, "slow") == 1 for job in jobs), "the saved step was run again"
    assert all(oracle.job(job)[2] == 1 for job in jobs)
    oracle.nothing_is_wrong()


async def test_a_second_sigterm_does_not_wait_for_the_step(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    member = fleet.start("ana", drain_seconds=300)
    job = (await app.enqueue(crash_app.nap, 60.0)).id
    await until(lambda: oracle.begun(job, "slow"), what="it is in its slow step")

    member.send(signal.SIGTERM)
    await asyncio.sleep(0.5)
    assert not member.ended
    member.send(signal.SIGTERM)

    assert await member.exit_code(20) == 0
    assert oracle.state(job) == "queued"
    assert oracle.job(job)[2:4] == (0, 0)
    assert oracle.attempts(job)[0][:2] == ("released", 1)


@pytest.mark.parametrize("rude", [crash_app.blocking, crash_app.hanging], ids=["blocking", "hanging"])
async def test_a_second_sigterm_does_not_wait_for_a_handler_that_does_not_listen(
    rude: object, fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana", drain_seconds=300)
    job = (await app.enqueue(rude, 60.0)).id
    await until(lambda: oracle.marks("began", job=job), what="it blocks")

    member.send(signal.SIGTERM)
    await asyncio.sleep(0.3)
    member.send(signal.SIGTERM)

    assert await member.exit_code(20) == 0
    assert oracle.state(job) == "queued"
    assert oracle.job(job)[2:4] == (0, 0)


async def test_a_drain_that_takes_too_long_is_cut(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    member = fleet.start("ana", drain_seconds=1, at_once=3)
    slow = (await app.enqueue(crash_app.nap, 60.0)).id
    deaf = (await app.enqueue(crash_app.hanging, 60.0)).id
    await until(lambda: oracle.begun(slow, "slow") and oracle.begun(deaf, "hang"), what="both are busy")

    member.send(signal.SIGTERM)

    assert await member.exit_code(20) == 0
    assert oracle.states() == {"queued": 2}
    for job in (slow, deaf):
        assert oracle.attempts(job)[0][:2] == ("released", 1)
        assert oracle.job(job)[2:4] == (0, 0)


async def test_a_worker_can_be_stopped_while_it_has_nothing_to_do(fleet: Fleet, oracle: Oracle) -> None:
    member = fleet.start("ana", processes=2)
    await member.ready(2)

    member.send(signal.SIGINT)

    assert await member.exit_code() == 0
    assert oracle.one("select count(*) from retoma.workers where stopped_at is not null") == 2


async def test_cancelling_reaches_the_handler_with_the_next_heartbeat(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana")
    job = (await app.enqueue(crash_app.polite, 60.0)).id
    neighbour = (await app.enqueue(crash_app.nap, 2.0)).id
    await until(lambda: oracle.begun(job, "wait") and oracle.begun(neighbour, "slow"), what="both are busy")
    before = member.executors()

    await app.jobs.cancel(job)
    await until(lambda: oracle.marks("cancelled", job=job), seconds=10, what="the handler hears of it")
    await until(oracle.all_ended, what="both end")

    assert oracle.job(job)[:3] == ("cancelled", "person", 1)
    assert oracle.job(neighbour)[:3] == ("completed", None, 1)
    assert member.executors() == before


async def test_a_handler_that_ignores_its_cancellation_is_ended_with_its_executor(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana")
    job = (await app.enqueue(crash_app.stubborn, 60.0)).id
    neighbours = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [3.0] * 3)]
    busy = [job, *neighbours]
    await until(lambda: len({mark.job for mark in oracle.marks("began")}) == len(busy), what="all are busy")
    (executor,) = member.executors()

    await app.jobs.cancel(job)
    await until(oracle.all_ended, what="all end")

    assert oracle.job(job)[:2] == ("cancelled", "cancelled")
    assert oracle.attempts(job)[0][:4] == ("cancelled", 1, "ignore", signal.SIGKILL)
    assert oracle.begun(job, "ignore") == 1
    assert oracle.states(neighbours) == {"completed": 3}
    assert all(oracle.job(each)[2:4] == (1, 0) for each in neighbours)
    assert executor not in member.executors()
    oracle.nothing_is_wrong()


async def test_a_job_that_is_tried_again_after_its_cancellation_is_not_cancelled_again(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana")
    job = (await app.enqueue(crash_app.polite, 60.0)).id
    await until(lambda: oracle.begun(job, "wait"), what="it is busy")
    before = member.executors()
    await app.jobs.cancel(job)
    await until(oracle.all_ended, what="it is cancelled")
    await asyncio.sleep(1.0)  # longer than the grace of the first cancellation

    await app.jobs.retry(job)
    await until(lambda: oracle.begun(job, "wait") == 2, what="it runs again")
    await asyncio.sleep(1.5)

    assert member.executors() == before
    assert oracle.state(job) == "running"
    await app.jobs.cancel(job)
    await until(oracle.all_ended, what="it is cancelled again")
    assert member.executors() == before


async def test_cancelling_a_job_that_was_only_fetched_harms_nobody(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    member = fleet.start("ana", at_once=2)
    await member.ready()
    await app.enqueue_many(crash_app.tally, range(3000))
    slow = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [2.5] * 10)]
    await until(lambda: len({mark.job for mark in oracle.marks("began")}) > 3000, what="the slow ones have begun")
    before = member.executors()
    begun = {mark.job for mark in oracle.marks("began")}
    fetched = [
        job
        for (job,) in oracle.rows("select id from retoma.jobs where state = 'running' and queue <> 'retoma'")
        if job not in begun
    ]
    assert fetched

    for job in fetched:
        await app.jobs.cancel(job)
    await until(oracle.all_ended, what="all end")

    assert oracle.states(fetched) == {"cancelled": len(fetched)}
    assert oracle.states([job for job in slow if job not in fetched]) == {"completed": 10 - len(fetched)}
    assert member.executors() == before, "an executor was ended for a job that had only just begun"
    oracle.nothing_is_wrong()

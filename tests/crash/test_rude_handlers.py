"""Handlers that block, burn, crash and hang: the lease holds while they may, and they are ended when they may not."""

from __future__ import annotations

import signal
from typing import Any

import crash_app
import pytest
from fleet import LEASE, Fleet, until
from oracle import Oracle

from retoma import Retoma

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

RUDE = {"blocks the loop": crash_app.blocking, "burns the processor": crash_app.burning}
RUDE |= {"holds the interpreter": crash_app.holding}


async def test_handlers_that_may_take_three_leases_never_lose_their_own(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    fleet.start("ana", processes=3, at_once=1)
    await fleet.start("bruno", queues=["elsewhere"]).ready()  # somebody who would recover them
    jobs = [(await app.enqueue(rude, 3 * LEASE, timeout=60)).id for rude in RUDE.values()]

    await until(oracle.all_ended, what="they end")

    for job in jobs:
        assert oracle.job(job)[:5] == ("completed", None, 1, 0, 1)
        assert oracle.begun(job, "hold") == 1
        assert [attempt[0] for attempt in oracle.attempts(job)] == ["completed"]
    assert oracle.effects() == {(job, "record"): 1 for job in jobs}
    assert len({mark.pid for mark in oracle.marks("began")}) == 3
    oracle.nothing_is_wrong()


@pytest.mark.parametrize("rude", RUDE.values(), ids=RUDE)
async def test_past_its_time_it_is_killed_and_its_neighbours_pay_nothing(
    rude: Any, fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana", at_once=5)
    neighbours = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [0.7] * 4)]
    await until(lambda: all(oracle.begun(job, "slow") for job in neighbours), what="the neighbours are busy")
    (executor,) = member.executors()
    job = (await app.enqueue(rude, 60.0, timeout=1, attempts=1)).id

    await until(oracle.all_ended, what="all end")

    assert oracle.job(job)[:3] == ("failed", "timeout", 1)
    (attempt,) = oracle.attempts(job)
    assert attempt[:4] == ("timeout", 1, "hold", signal.SIGKILL)
    assert f"job {job} (step 'hold')" in attempt[4]
    assert oracle.begun(job, "hold") == 1
    assert oracle.states(neighbours) == {"completed": 4}
    for each in neighbours:
        assert oracle.job(each)[2:4] == (1, 0), "a neighbour paid with an attempt or a crash"
        assert [ended[:2] for ended in oracle.attempts(each)] == [("released", 1), ("completed", 1)]
        assert oracle.begun(each, "quick") == 1
    assert executor not in member.executors()
    assert not member.ended
    oracle.nothing_is_wrong()


async def test_a_thread_that_hangs_is_ended_with_its_executor(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    member = fleet.start("ana", at_once=3)
    job = (await app.enqueue(crash_app.hanging, 60.0, timeout=1, attempts=1)).id
    await until(lambda: oracle.begun(job, "hang"), what="it hangs")
    (executor,) = member.executors()
    neighbour = (await app.enqueue(crash_app.nap, 0.1)).id

    await until(oracle.all_ended, what="both end")

    assert oracle.job(job)[:3] == ("failed", "timeout", 1)
    assert oracle.attempts(job)[0][:3] == ("timeout", 1, "hang")
    assert oracle.job(neighbour)[:3] == ("completed", None, 1)
    assert executor not in member.executors()
    oracle.nothing_is_wrong()


async def test_a_handler_that_waits_politely_is_stopped_at_its_time_without_a_kill(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana")
    job = (await app.enqueue(crash_app.polite, 60.0, timeout=1, attempts=2)).id
    await until(lambda: oracle.begun(job, "wait"), what="it waits")
    before = member.executors()

    await until(oracle.all_ended, what="it ends")

    assert oracle.job(job)[:3] == ("failed", "timeout", 2)
    assert [(each[0], each[2], each[5]) for each in oracle.attempts(job)] == [("failed", "wait", "timeout")] * 2
    assert member.executors() == before
    assert len(oracle.marks("cancelled")) == 2


async def test_a_handler_that_cancels_itself_does_not_go_round_for_ever(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    fleet.start("ana")
    job = (await app.enqueue(crash_app.cancels_itself, 1)).id

    await until(oracle.all_ended, seconds=15, what="it ends")

    assert oracle.job(job)[0] == "failed"
    assert oracle.begun(job, "cancel") == 3


@pytest.mark.parametrize(("how", "number"), [("segfault", 11), ("exit", None)])
async def test_a_job_that_crashes_its_executor_three_times_is_quarantined_and_the_fleet_lives(
    how: str, number: int | None, fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    members = [fleet.start("ana", at_once=5), fleet.start("bruno", at_once=5)]
    innocent = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [0.1] * 10)]
    job = (await app.enqueue(crash_app.poison, how)).id
    innocent += [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [0.1] * 10)]

    await until(oracle.all_ended, what="all end")

    assert oracle.job(job)[:4] == ("failed", "quarantine", 3, 3)
    crashes = oracle.attempts(job)
    assert [each[:4] for each in crashes] == [("crashed", n, "bite", number) for n in (1, 2, 3)]
    assert all(("signal 11" if number else "exit code 7") in each[4] for each in crashes)
    assert oracle.begun(job, "look") == 1
    assert oracle.begun(job, "bite") == 3
    assert oracle.states(innocent) == {"completed": 20}
    assert oracle.effects() == {(each, "record"): 1 for each in innocent}
    assert {oracle.job(each)[3] for each in innocent} == {0}, "an innocent job was blamed"
    assert not any(member.ended for member in members)
    oracle.nothing_is_wrong()


async def test_ten_that_were_beside_it_all_come_to_a_good_end_without_blame(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana", at_once=11)
    await member.ready()
    innocent = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [0.6] * 10, attempts=9)]
    job = (await app.enqueue(crash_app.poison, "exit")).id

    await until(oracle.all_ended, what="all end")

    assert oracle.job(job)[:4] == ("failed", "quarantine", 3, 3)
    assert oracle.states(innocent) == {"completed": 10}
    assert oracle.effects() == {(each, "record"): 1 for each in innocent}
    assert {oracle.job(each)[3] for each in innocent} == {0}, "once it took its neighbours along, then it was alone"
    assert not member.ended
    oracle.nothing_is_wrong()


async def test_a_time_out_that_needs_a_kill_is_tried_again_as_the_policy_says(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    fleet.start("ana", at_once=3)
    never = (await app.enqueue(crash_app.hanging_once, 60.0)).id
    soon = (await app.enqueue(crash_app.hanging, 60.0, timeout=1, attempts=2)).id

    await until(oracle.all_ended, what="both end")

    assert oracle.job(never)[:3] == ("failed", "timeout", 1), "its policy says never after a time-out"
    assert oracle.job(soon)[:3] == ("failed", "timeout", 2)
    wait = "select extract(epoch from job.run_at - attempt.ended_at)::float8 from retoma.jobs as job"
    first = "join retoma.attempts as attempt on attempt.job_id = job.id and attempt.fence = 1 where job.id = %s"
    assert oracle.one(f"{wait} {first}", soon) == crash_app.SOON.wait


async def test_a_step_past_its_time_is_ended_though_its_siblings_come_and_go(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana", at_once=3)
    job = (await app.enqueue(crash_app.siblings, [30.0, *[0.3] * 8], attempts=1)).id

    await until(oracle.all_ended, what="it ends")

    assert oracle.job(job)[:3] == ("failed", "timeout", 1)
    assert oracle.attempts(job)[0][:4] == ("timeout", 1, "rest/0", signal.SIGKILL)
    (killed,) = member.events("executor.killed")
    assert "(step 'rest/0') did not let go 0.5 s after its time was over" in killed["reason"]


async def test_the_reason_of_a_kill_for_a_cancelled_job_says_so(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    member = fleet.start("ana", at_once=3)
    job = (await app.enqueue(crash_app.hanging, 60.0)).id
    await until(lambda: oracle.begun(job, "hang"), what="it hangs")

    await app.jobs.cancel(job)
    await until(oracle.all_ended, what="it ends")

    assert oracle.job(job)[0] == "cancelled"
    (killed,) = member.events("executor.killed")
    assert killed["reason"] == f"job {job} (step 'hang') did not let go 0.5 s after it was cancelled"


async def test_what_happens_in_an_isolated_child_stays_there(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    member = fleet.start("ana", sandbox="auto")
    neighbours = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [1.0] * 5)]
    await until(lambda: all(oracle.begun(job, "slow") for job in neighbours), what="the neighbours are busy")
    before = member.executors()
    hows = ("segfault", "hang", "memory")
    died, hung, hoarded = [(await app.enqueue(crash_app.parsing, how)).id for how in hows]
    sound = (await app.enqueue(crash_app.parsing, "well")).id

    await until(oracle.all_ended, what="all end")

    told = {died: ("IsolatedCrash", "signal 11"), hung: ("IsolatedTimeout", "after its 1 s")}
    told |= {hoarded: ("IsolatedMemory", "256 MB")}
    for job, (reason, evidence) in told.items():
        *ended, _, error = oracle.job(job)
        assert ended == ["failed", reason, 1, 0]
        assert evidence in error
    assert oracle.states([*neighbours, sound]) == {"completed": 6}
    assert member.executors() == before
    oracle.nothing_is_wrong()

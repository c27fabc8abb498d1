"""kill -9, and the pause that is worse: work goes on elsewhere, and whoever wakes up late changes nothing."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Callable

import crash_app
import psutil
import pytest
from fleet import LEASE, Fleet, lives, until
from oracle import Oracle

from retoma import Retoma

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

Figure = Callable[[str, object], None]


def has_begun(oracle: Oracle, jobs: list[int], step: str) -> Callable[[], bool]:
    return lambda: all(oracle.begun(job, step) for job in jobs)


async def test_a_killed_executor_loses_nothing_and_its_supervisor_gives_its_jobs_back_at_once(
    fleet: Fleet, oracle: Oracle, app: Retoma, figure: Figure
) -> None:
    # A lease so long that only the supervisor can be the one who gives back.
    member = fleet.start("ana", at_once=4, lease_seconds=300, forked=False)
    jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [1.0] * 4)]
    await until(has_begun(oracle, jobs, "slow"), what="all four are in their slow step")
    (executor,) = member.executors()

    killed = time.time()
    os.kill(executor, signal.SIGKILL)
    await until(oracle.all_ended, what="all jobs end")

    back = [at - killed for at in oracle.queued_again(jobs)]
    figure("recovery_seconds", round(max(back), 3))
    assert len(back) == 4
    assert max(back) < 10
    assert oracle.states() == {"completed": 4}
    for job in jobs:
        assert oracle.begun(job, "quick") == 1, "a finished step was run again"
        assert oracle.begun(job, "slow") == 2
        crash, *handed_round, success = oracle.attempts(job)
        assert {each[0] for each in handed_round} <= {"released"}
        if crash[5] == "beside":  # the code of another job ran at that very moment, and has the blame
            assert success[:2] == ("completed", 1)
        else:
            assert crash[:4] == ("crashed", 1, "slow", signal.SIGKILL)
            assert success[:2] == ("completed", 2)
    assert any(oracle.attempts(job)[0][0] == "crashed" for job in jobs)
    assert oracle.effects() == {(job, "record"): 1 for job in jobs}
    assert executor not in member.executors()
    oracle.nothing_is_wrong()


async def test_jobs_that_were_only_fetched_go_back_untouched(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    """An executor that does short jobs fetches ahead; what it had not begun does not answer for its death."""
    member = fleet.start("ana", at_once=2, lease_seconds=300)
    await member.ready()
    await app.enqueue_many(crash_app.tally, range(3000))
    slow = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [2.0] * 12)]
    running = "select count(*) from retoma.jobs where state = 'running' and pipeline = 'nap'"
    open = "select count(*) from retoma.jobs where state <> 'completed' and pipeline = 'tally'"
    await until(lambda: oracle.one(running) > 2 and oracle.one(open) == 0, what="more are held than run, and no other")
    await until(lambda: len(oracle.marks("began")) > 3000, what="those that run have begun")
    begun = {mark.job for mark in oracle.marks("began") if mark.step == "quick"}
    fetched = {
        job for (job,) in oracle.rows("select id from retoma.jobs where state = 'running' and queue <> 'retoma'")
    } - begun

    member.send(signal.SIGKILL, executors=True, supervisor=False)
    ends = "select job_id, ending from retoma.attempts where job_id = any (%s)"
    await until(lambda: len(oracle.rows(ends, slow)) >= 2, what="the dead one's jobs are given back")
    endings = {job: [end for each, end in oracle.rows(ends, slow) if each == job] for job in slow}

    assert fetched
    assert all(endings[job][:1] == ["released"] for job in fetched)
    assert all(oracle.rows("select attempt, crashes from retoma.jobs where id = %s", job)[0][1] == 0 for job in fetched)
    firsts = [oracle.attempts(job)[0] for job in begun]
    assert any(each[0] == "crashed" for each in firsts)
    assert all(each[0] == "crashed" or each[5] == "beside" for each in firsts)


async def test_jobs_that_were_only_fetched_do_not_answer_for_a_worker_that_vanished(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    """The board that could tell is gone with it; what it held beyond its places it cannot have begun."""
    first = fleet.start("ana", at_once=2)
    await first.ready()
    await app.enqueue_many(crash_app.tally, range(3000))
    slow = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [60.0] * 12, attempts=1)]
    running = "select count(*) from retoma.jobs where state = 'running' and pipeline = 'nap'"
    open = "select count(*) from retoma.jobs where state <> 'completed' and pipeline = 'tally'"
    await until(lambda: oracle.one(running) > 2 and oracle.one(open) == 0, what="more are held than run, and no other")
    await until(lambda: len(oracle.marks("began")) > 3000, what="those that run have begun")

    first.send(signal.SIGKILL)
    begun = {mark.job for mark in oracle.marks("began") if mark.step == "quick"}
    held = {job for (job,) in oracle.rows("select id from retoma.jobs where state = 'running' and queue <> 'retoma'")}
    fleet.start("bruno", queues=["elsewhere"])
    await until(lambda: oracle.one(running) == 0, what="they are recovered")

    assert held - begun
    for job in held - begun:
        assert oracle.job(job)[:4] == ("queued", None, 0, 0)
        assert oracle.attempts(job)[-1][0] == "released"
    assert oracle.states(list(begun)) == {"failed": 2}
    assert {oracle.job(job)[1:4] for job in begun} == {("lost", 1, 1)}
    assert oracle.states(slow) == {"failed": 2, "queued": 10}


async def test_after_one_death_all_go_on_side_by_side(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    member = fleet.start("ana", at_once=4)
    jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [30.0] * 4)]
    await until(has_begun(oracle, jobs, "slow"), what="all four are in their slow step")

    member.send(signal.SIGKILL, executors=True, supervisor=False)
    await until(lambda: oracle.again() == 4, what="all four run again, none waits for another")

    assert {oracle.job(job)[3] for job in jobs} == {1}
    assert all("No job's code was running at that moment" in oracle.attempts(job)[0][4] for job in jobs)


async def test_a_job_that_must_run_alone_holds_nobody_up(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    member = fleet.start("ana", at_once=4)
    suspect = (await app.enqueue(crash_app.nap, 60.0, timeout=300, attempts=9)).id
    for death in (1, 2):
        await until(lambda death=death: oracle.begun(suspect, "slow") == death, what="it is in its slow step")  # type: ignore[misc]
        member.send(signal.SIGKILL, executors=True, supervisor=False)
    await until(lambda: oracle.begun(suspect, "slow") == 3, what="it runs again, in an executor of its own")

    others = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [0.1] * 8)]
    await until(lambda: oracle.states(others) == {"completed": 8}, what="the others are done meanwhile")

    assert oracle.state(suspect) == "running"
    alone = oracle.marks("began", job=suspect)[-1].pid
    assert alone not in {mark.pid for mark in oracle.marks("began") if mark.job in others}
    assert len(member.executors()) == 2
    await app.jobs.cancel(suspect)
    await until(lambda: len(member.executors()) == 1, what="the one apart ends when there is nothing for it")


async def test_a_killed_supervisor_takes_its_executor_along_and_another_worker_goes_on(
    fleet: Fleet, oracle: Oracle, app: Retoma, figure: Figure
) -> None:
    first = fleet.start("ana", at_once=4, forked=False)
    jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [3.0] * 2)]
    await until(has_begun(oracle, jobs, "slow"), what="both are in their slow step")
    second = fleet.start("bruno", at_once=4)
    executor = psutil.Process(first.executors()[0])

    killed = time.time()
    first.send(signal.SIGKILL)
    await until(lambda: not lives(executor), seconds=5, what="the executor dies with its supervisor")
    await until(oracle.all_ended, what="all jobs end")

    back = [at - killed for at in oracle.queued_again(jobs)]
    figure("recovery_seconds", round(max(back), 3))
    assert oracle.states() == {"completed": 2}
    assert all(oracle.attempts(job)[0][0] == "lost" for job in jobs)
    assert all(oracle.begun(job, "quick") == 1 for job in jobs)
    assert all(mark.fence > 1 for mark in oracle.marks("done") if mark.step == "slow")
    assert not second.ended
    oracle.nothing_is_wrong()


async def test_an_executor_that_replaced_another_dies_with_its_supervisor(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana")
    await app.enqueue(crash_app.tally, 1)
    await until(oracle.all_ended, what="its executor is at work")
    (first,) = member.executors()
    os.kill(first, signal.SIGKILL)
    await app.enqueue(crash_app.tally, 2)
    await until(oracle.all_ended, what="another executor is at work")
    executor = psutil.Process(member.executors()[0])
    loaded = [each for each in psutil.Process(member.pid).children() if "template_main" in " ".join(each.cmdline())]
    assert len(loaded) == 1, "it is a copy"

    member.send(signal.SIGKILL)

    await until(lambda: not lives(executor), seconds=5, what="the copy dies with its supervisor")
    await until(lambda: not lives(loaded[0]), seconds=5, what="and so does the template")
    oracle.nothing_is_wrong()


async def test_supervisor_and_executor_killed_together_lose_nothing(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    first = fleet.start("ana", at_once=4)
    jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.five, [0.4] * 8)]
    await until(lambda: sum(oracle.begun(job, "step/3") for job in jobs) >= 2, what="some are half-way")
    first.send(signal.SIGKILL, executors=True)
    second = fleet.start("ana", at_once=4)  # the same name: identity is new at every start

    await until(oracle.all_ended, what="all jobs end")

    assert first.ended
    assert not second.ended
    assert oracle.states() == {"completed": 8}
    assert oracle.effects() == {(job, f"step/{number}"): 1 for job in jobs for number in (2, 4)}
    assert oracle.again() <= oracle.lost()
    oracle.nothing_is_wrong()


async def test_a_worker_that_was_frozen_past_its_lease_changes_nothing_when_it_wakes(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    frozen = fleet.start("ana", at_once=4)
    plain = (await app.enqueue(crash_app.plain, 2.0)).id
    jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [2.0] * 3)]
    await until(has_begun(oracle, jobs, "slow"), what="all are in their slow step")
    (executor,) = frozen.executors()
    frozen.send(signal.SIGSTOP, executors=True)
    other = fleet.start("bruno", at_once=4)
    again = "select count(distinct job) from changes where fence > 1 and state = 'running'"
    await until(lambda: oracle.one(again) == 4, what="the other has claimed each of them")

    # It wakes while the other is in the middle of the same work; its own sleep is over, and it wants to write. Its
    # supervisor, who would end it, wakes a little later.
    os.kill(executor, signal.SIGCONT)
    await asyncio.sleep(0.5)
    frozen.wake()
    await until(oracle.all_ended, what="all jobs end")
    await until(lambda: frozen.executors() not in ([], [executor]), what="the sleeper's executor is replaced")

    assert oracle.states() == {"completed": 4}
    ended = oracle.one("select output from retoma.jobs where id = %s", plain)
    assert ended == f"{plain}:{oracle.job(plain)[4]}", "the ending of the one who had lost it was let in"
    finished = [mark for mark in oracle.marks("done") if mark.step == "slow"]
    assert sorted(mark.job for mark in finished) == jobs
    assert all(mark.fence > 1 for mark in finished)
    assert oracle.one("select count(*) from effects where fence = 1") == 0
    oracle.nothing_is_wrong()

    # And both go on working.
    other.send(signal.SIGKILL, executors=True)
    more = [receipt.id for receipt in await app.enqueue_many(crash_app.effect, range(5))]
    await until(lambda: oracle.states(more) == {"completed": 5}, what="the one that slept works again")


async def test_a_frozen_executor_keeps_its_lease_and_its_job_is_held_to_its_time(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana", at_once=4)
    other = fleet.start("bruno", queues=["elsewhere"])  # would recover what has no lease
    await other.ready()
    short = (await app.enqueue(crash_app.nap, 0.5, timeout=LEASE + 1)).id
    patient = (await app.enqueue(crash_app.nap, 0.6, timeout=60)).id
    await until(has_begun(oracle, [short, patient], "slow"), what="both are in their slow step")
    (executor,) = member.executors()

    os.kill(executor, signal.SIGSTOP)
    await until(lambda: oracle.attempts(short), what="the time-out ends the frozen executor")

    ending, attempt, step, number, error, _ = oracle.attempts(short)[0]
    assert (ending, attempt, step, number) == ("timeout", 1, "slow", signal.SIGKILL)
    assert f"job {short} (step 'slow')" in error
    assert oracle.attempts(patient)[0][:2] == ("released", 1)
    assert oracle.one("select count(*) from retoma.attempts where ending = 'lost'") == 0
    await until(oracle.all_ended, what="both end")
    assert oracle.states() == {"completed": 2}
    assert oracle.job(patient)[2] == 1, "the neighbour's attempt was not given back"
    assert oracle.job(short)[2] == 2
    assert oracle.begun(patient, "quick") == oracle.begun(short, "quick") == 1
    oracle.nothing_is_wrong()


async def test_an_executor_whose_supervisor_is_frozen_stops_at_its_next_step_and_another_goes_on(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    cut_off = fleet.start("ana", at_once=4)
    jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.five, [2.0] * 2)]
    await until(has_begun(oracle, jobs, "step/1"), what="both have begun")
    (executor,) = cut_off.executors()
    fleet.start("bruno", at_once=4)

    cut_off.send(signal.SIGSTOP)
    await until(oracle.all_ended, what="the other ends them")
    cut_off.wake()
    await until(lambda: cut_off.executors() not in ([], [executor]), what="the executor is replaced")

    assert oracle.states() == {"completed": 2}
    assert all(mark.fence > 1 for mark in oracle.marks("began") if mark.step == "step/5")
    assert not [mark for mark in oracle.marks("began") if mark.pid == executor and mark.step in ("step/4", "step/5")]
    assert oracle.again() <= oracle.lost()
    oracle.nothing_is_wrong()


async def test_an_executor_that_is_cut_off_begins_nothing_new(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    member = fleet.start("ana", at_once=4)
    first = (await app.enqueue(crash_app.effect, 0)).id
    await until(lambda: oracle.state(first) == "completed", what="it is at work")
    member.send(signal.SIGSTOP)
    await asyncio.sleep(LEASE + 0.5)

    plain = [receipt.id for receipt in await app.enqueue_many(crash_app.tally, range(4))]
    await app.enqueue_many(crash_app.effect, range(4))
    await asyncio.sleep(1.5)
    begun = {mark.job for mark in oracle.marks("began")}
    member.wake()
    await until(oracle.all_ended, what="all end once somebody beats for it again")

    assert not begun & set(plain), "a handler was begun that may be another worker's"
    assert oracle.one("select count(*) from retoma.attempts where ending = 'released'") <= 8


async def test_an_executor_that_dies_young_again_and_again_does_not_stop_the_others(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana", processes=2, at_once=2)
    await member.ready(2)
    killed: set[int] = set()
    for _ in range(4):
        killed.add(member.executors()[-1])  # always the youngest
        os.kill(member.executors()[-1], signal.SIGKILL)
        await until(lambda: len(set(member.executors()) - killed) == 2, what="it has a successor")
    jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.effect, range(20))]

    await until(oracle.all_ended, what="all jobs end")

    assert oracle.states(jobs) == {"completed": 20}
    oracle.nothing_is_wrong()

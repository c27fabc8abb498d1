"""Three workers as real processes: each job once, shared among them, and counted."""

from __future__ import annotations

import asyncio
import signal
import time
from collections import Counter
from collections.abc import Awaitable, Callable

import crash_app
import psutil
import pytest
from fleet import Fleet, until
from oracle import Oracle

from retoma import Retoma, Settings
from retoma.model.worker import Metrics

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

THREE = ("ana", "bruno", "clara")


async def test_a_hundred_jobs_on_three_workers_have_one_effect_each(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    for label in THREE:
        fleet.start(label, at_once=5)
    receipts = await app.enqueue_many(crash_app.effect, range(100))

    await until(oracle.all_ended, what="all jobs end")

    jobs = {receipt.id for receipt in receipts}
    assert oracle.states() == {"completed": 100}
    assert oracle.effects() == Counter({(job, "record"): 1 for job in jobs})
    assert Counter(mark.job for mark in oracle.marks("began")) == Counter(dict.fromkeys(jobs, 1))
    oracle.nothing_is_wrong()


async def test_ten_thousand_jobs_run_once_each_and_every_worker_did_some(
    fleet: Fleet, oracle: Oracle, app: Retoma, figure: Callable[[str, object], None]
) -> None:
    members = [fleet.start(label) for label in THREE]
    for member in members:
        await member.ready()
    receipts = await app.enqueue_many(crash_app.tally, range(10_000))
    began = time.monotonic()

    await until(oracle.all_ended, what="all jobs end")

    figure("seconds", round(time.monotonic() - began, 1))
    executors = {pid for member in members for pid in member.executors()}
    while executors - {mark.pid for mark in oracle.marks("began")}:  # they are done within seconds: one may come late
        receipts += await app.enqueue_many(crash_app.tally, range(1_000))
        await until(oracle.all_ended, what="all jobs end")
    marks = oracle.marks("began")
    assert oracle.states() == {"completed": len(receipts)}
    assert Counter(mark.job for mark in marks) == Counter(dict.fromkeys((each.id for each in receipts), 1))
    shares = Counter(mark.pid for mark in marks)
    assert set(shares) == executors
    figure("shares", sorted(shares.values()))
    oracle.nothing_is_wrong()


async def test_the_workers_table_names_the_executors_that_the_system_shows(fleet: Fleet, oracle: Oracle) -> None:
    member = fleet.start("ana", processes=2)
    pids = await member.ready(2)

    sql = "select array_agg(pid order by id) from retoma.workers where label = 'ana' and stopped_at is null"
    await until(lambda: sorted(oracle.one(sql) or []) == sorted(pids), what="the heartbeat tells the process ids")

    assert member.pid not in pids


async def test_the_seven_figures_are_those_of_the_logs_and_belong_to_one_label(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    for label in ("ana", "bruno"):
        await fleet.start(label, at_once=4).ready()
    await app.enqueue_many(crash_app.tally, range(40))
    await app.enqueue_many(crash_app.flaky, range(10))
    await app.enqueue_many(crash_app.hopeless, range(5))
    await app.enqueue_many(crash_app.nap, [0.2] * 10)
    await until(oracle.all_ended, what="all jobs end")
    await asyncio.sleep(1.0)  # one more heartbeat

    sql = """
        select count(*), count(*) filter (where ending = 'completed'),
               count(*) filter (where ending = 'failed' and attempts.reason = 'rejected'),
               count(*) filter (where ending = 'failed' and attempts.reason <> 'rejected')
          from retoma.attempts join retoma.workers as worker on worker.id = worker_id where worker.label = %s
    """
    told = {label: await app.workers.metrics(label) for label in ("ana", "bruno", "nobody")}
    for label, figures in told.items():
        claimed, completed, failed, retried = oracle.rows(sql, label)[0]
        assert figures.jobs_claimed == claimed
        assert figures.jobs_completed == completed
        assert figures.jobs_failed == failed
        assert figures.jobs_retried == retried
        assert figures.jobs_recovered == 0
        assert figures.stuck_job_count == 0
    assert sum(each.jobs_completed for each in told.values()) == 60 + house_jobs(oracle)
    assert sum(each.jobs_retried for each in told.values()) == 10
    assert sum(each.jobs_failed for each in told.values()) == 5
    assert max(each.avg_job_duration_ms for each in told.values()) > 1
    assert told["nobody"].avg_job_duration_ms == 0


async def test_the_seven_figures_count_what_no_executor_lived_to_count(
    fleet: Fleet, oracle: Oracle, app: Retoma, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Jobs of a worker that vanished, and a job that takes its executor along: asked of the worker itself."""
    for name, value in fleet.environment().items():
        monkeypatch.setenv(name, value)
    mine = Retoma(pipelines=crash_app.PIPELINES, settings=Settings.load(database_url=fleet.url))
    worker = mine.worker(label="ana", at_once=4, reference="crash_app:app")
    vanishing = fleet.start("bruno", at_once=4)
    taken = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [0.6] * 4)]
    await until(lambda: all(oracle.begun(job, "slow") for job in taken), what="bruno works on them")
    vanishing.send(signal.SIGKILL, executors=True)
    working = asyncio.create_task(worker.run())
    try:
        await until(oracle.all_ended, what="ana has recovered and ended them")
        crashing = (await app.enqueue(crash_app.poison, "segfault")).id
        await until(oracle.all_ended, what="the crashing job is quarantined")
        figures = await until_right(worker.metrics, lambda each: each.jobs_failed == 1)
    finally:
        worker.stop()
        await working

    claims = """
        select count(*) from changes join retoma.workers as worker on worker.id = changes.worker
         where label = 'ana' and state = 'running' and before = 'queued'
    """
    assert oracle.job(crashing)[1] == "quarantine"
    for told in (figures, await app.workers.metrics("ana")):  # also when all its executors are gone
        assert told.jobs_claimed == oracle.one(claims) >= 7
        assert told.jobs_completed == 4 + house_jobs(oracle)
        assert told.jobs_recovered == 4
        assert told.jobs_retried == 2
        assert told.jobs_failed == 1
        assert told.stuck_job_count == 0
        assert 500 < told.avg_job_duration_ms < 5000
    assert (await app.workers.metrics("bruno")).jobs_completed == 0


def house_jobs(oracle: Oracle) -> int:
    """How many of the house's own jobs came by the clock meanwhile, and were done."""
    return int(oracle.one("select count(*) from retoma.jobs where queue = 'retoma' and state = 'completed'"))


async def until_right(ask: Callable[[], Awaitable[Metrics]], right: Callable[[Metrics], bool]) -> Metrics:
    for _ in range(100):
        if right(figures := await ask()):
            return figures
        await asyncio.sleep(0.1)
    raise AssertionError(f"They never became right: {figures}")


@pytest.mark.parametrize("given", [None, "3"])
async def test_an_executor_begins_with_one_thread_for_sums_unless_it_was_told_otherwise(
    fleet: Fleet, monkeypatch: pytest.MonkeyPatch, given: str | None
) -> None:
    monkeypatch.delenv("OPENBLAS_NUM_THREADS", raising=False)
    if given:
        monkeypatch.setenv("OPENBLAS_NUM_THREADS", given)
    (executor,) = await fleet.start("ana", forked=False).ready()

    assert psutil.Process(executor).environ()["OPENBLAS_NUM_THREADS"] == (given or "1")


async def test_a_worker_of_other_queues_leaves_a_job_alone_and_its_wait_ends(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana", queues=["elsewhere"])
    await member.ready()
    lone = (await app.enqueue(crash_app.tally, 1, expires=1.5)).id
    patient = (await app.enqueue(crash_app.tally, 2)).id
    served = (await app.enqueue(crash_app.elsewhere, 3)).id

    await until(lambda: oracle.state(lone) == "failed", what="its time in the queue ends")
    await until(lambda: oracle.state(served) == "completed", what="the worker is at work")

    assert oracle.job(lone)[:3] == ("failed", "expired", 0)
    assert oracle.state(patient) == "queued"
    assert {mark.job for mark in oracle.marks()} == {served}


async def test_an_app_that_cannot_be_imported_ends_the_worker_with_code_2(fleet: Fleet, oracle: Oracle) -> None:
    nowhere = fleet.start("ana", app="no_such_module:app")
    wrong = fleet.start("bruno", app="crash_app:nothing")
    broken = fleet.start("clara", app="broken_app:app")

    for member in (nowhere, wrong, broken):
        assert await member.exit_code() == 2

    assert "There is no module 'no_such_module'" in nowhere.words()
    assert "'crash_app:nothing' is not a Retoma app" in wrong.words()
    assert "RuntimeError: this program does not even load" in broken.words()
    assert "Traceback" not in nowhere.words() + wrong.words()
    assert oracle.one("select count(*) from retoma.workers") == 0


async def test_an_app_that_only_the_executors_cannot_load_ends_the_worker_once(fleet: Fleet, oracle: Oracle) -> None:
    member = fleet.start("ana", app="half_broken_app:app")

    assert await member.exit_code() == 2

    assert "only its first process loads it" in member.words()
    assert oracle.one("select count(*) from retoma.workers") == 1
    assert oracle.one("select count(*) from retoma.workers where stopped_at is null") == 0


async def test_an_idle_worker_is_measured(fleet: Fleet, figure: Callable[[str, object], None]) -> None:
    member = fleet.start("ana", lease_seconds=60, heartbeat_seconds=10, sweep_seconds=5, poll_seconds=1)
    await member.ready()
    await asyncio.sleep(1.5)
    before, began = member.processor_seconds(), time.monotonic()
    await asyncio.sleep(3)
    used, passed = member.processor_seconds() - before, time.monotonic() - began

    figure("processor_share_when_idle", round(used / passed, 4))
    assert member.executors()

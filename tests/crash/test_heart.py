"""Nothing stops the heart of a worker; who is gone is known in seconds, and nobody who lives is taken for gone."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
import subprocess
import threading
import time
import urllib.request
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from typing import Any

import crash_app
import psycopg
import pytest
from fleet import LEASE, Fleet, Member, until
from oracle import Oracle
from proxy import Proxy

from retoma import Retoma, Settings

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

Figure = Callable[[str, object], None]

# What a worker has that nobody has set anything for.
AS_IT_COMES = {"lease_seconds": 60, "heartbeat_seconds": 10, "sweep_seconds": 5, "poll_seconds": 1}
TAKEN = "select reason, count(*) from retoma.attempts where ending = 'lost' group by 1"


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(database_url) as proxy:
        yield proxy


async def busy(oracle: Oracle, app: Retoma, seconds: float, number: int = 4) -> list[int]:
    """Jobs that somebody is in the middle of."""
    jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [seconds] * number)]
    await until(lambda: all(oracle.begun(job, "slow") for job in jobs), what="all are in their slow step")
    return jobs


def silent_for(oracle: Oracle) -> list[float]:
    """For how much of its lease a worker had been silent when each of its jobs was taken from it."""
    sql = """
        select extract(epoch from attempt.ended_at - worker.seen_at)::float8 / worker.lease_seconds
          from retoma.attempts as attempt join retoma.workers as worker on worker.id = attempt.worker_id
         where attempt.ending = 'lost'
    """
    return [share for (share,) in oracle.rows(sql)]


async def beats(oracle: Oracle, member: Member, number: int) -> None:
    """Wait for so many heartbeats of it."""
    sql = "select seen_at from retoma.workers where label = %s and stopped_at is null order by id limit 1"
    seen: set[object] = set()
    await until(
        lambda: seen.add(oracle.one(sql, member.label)) or len(seen) > number,
        what=f"{member.label} beats {number} times",
    )


async def test_a_worker_that_is_killed_whole_is_known_long_before_its_lease_is_over(
    fleet: Fleet, oracle: Oracle, app: Retoma, figure: Figure
) -> None:
    first, second = (fleet.start(label, **AS_IT_COMES) for label in ("ana", "bruno"))
    await first.ready()
    await second.ready()
    jobs = await busy(oracle, app, 600.0)
    holders = dict(oracle.rows("select worker_id, min(id) from retoma.jobs where state = 'running' group by 1"))
    sql = "select label from retoma.workers where id = any (%s)"
    labels = {label for (label,) in oracle.rows(sql, list(holders))}
    killed = next(member for member in (first, second) if member.label in labels)
    taken = oracle.rows(
        "select job.id from retoma.jobs as job join retoma.workers as worker on worker.id = job.worker_id"
        " where worker.label = %s", killed.label
    )  # fmt: skip

    at = time.time()
    killed.send(signal.SIGKILL, executors=True)
    lost = [job for (job,) in taken if job in jobs]
    await until(lambda: all(oracle.begun(job, "slow") == 2 for job in lost), what="they run elsewhere")

    figure("running elsewhere after, seconds", round(time.time() - at, 2))
    assert oracle.rows(TAKEN) == [("gone", len(lost))]
    assert max(silent_for(oracle)) < 0.5, "the lease decided, and not the hint"
    assert {oracle.job(job)[3] for job in lost} == {1}, "a begun job whose worker is gone counts a crash"
    assert oracle.one("select reason from retoma.workers where label = %s", killed.label) == "gone"
    oracle.nothing_is_wrong()


async def test_a_frozen_worker_keeps_its_jobs_until_its_lease_is_over_and_no_longer(
    fleet: Fleet, oracle: Oracle, app: Retoma, figure: Figure
) -> None:
    frozen = fleet.start("ana", lease_seconds=5, heartbeat_seconds=1)
    await busy(oracle, app, 600.0)
    other = fleet.start("bruno", lease_seconds=5, heartbeat_seconds=1, sweep_seconds=5)
    await other.ready()
    await beats(oracle, other, 1)

    frozen.send(signal.SIGSTOP, executors=True)
    await until(lambda: oracle.rows(TAKEN), what="they are taken from it")

    figure("taken after, leases", round(max(silent_for(oracle)), 2))
    assert oracle.rows(TAKEN) == [("lease", 4)]
    assert min(silent_for(oracle)) >= 1.0


async def test_a_live_worker_whose_connections_are_all_cut_keeps_its_jobs(
    proxy: Proxy, fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    cut_off = fleet.start("ana", url=proxy.url, lease_seconds=60, heartbeat_seconds=1)
    jobs = await busy(oracle, app, 8.0)
    other = fleet.start("bruno", **AS_IT_COMES)
    await other.ready()

    proxy.down = True
    proxy.cut()
    missed = "select count(*) from retoma.workers where label = 'ana' and missing_since < now() - interval '4 s'"
    await until(lambda: oracle.one(missed), what="the other has missed it for a while")
    proxy.down = False
    await until(lambda: oracle.states(jobs) == {"completed": 4}, what="it ends what it had begun")

    assert oracle.rows(TAKEN) == []
    assert all(oracle.begun(job, "slow") == 1 for job in jobs)
    back = "select missing_since is null from retoma.workers where label = 'ana'"
    await until(lambda: oracle.one(back), what="it has beaten again")
    assert not cut_off.events("executor.crashed")
    oracle.nothing_is_wrong()


async def test_an_outage_costs_nobody_a_job_whoever_sweeps_first_after_it(
    proxy: Proxy, fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    """Also when the house's own job that recovers is due in the moment in which the database is back, and a worker
    starts that knows nothing of an outage.
    """
    for label in ("ana", "bruno", "clara"):
        await fleet.start(label, url=proxy.url).ready()
    jobs = await busy(oracle, app, 2 * LEASE, number=12)

    proxy.down = True
    proxy.cut()
    await asyncio.sleep(1.5 * LEASE)
    oracle.rows("update retoma.schedules set next_run_at = now() where name = 'retoma.recover' returning name")
    proxy.down = False
    await fleet.start("newcomer").ready()
    await app.jobs.recover()
    await until(lambda: oracle.states(jobs) == {"completed": 12}, what="all end")

    assert oracle.rows(TAKEN) == []
    assert oracle.one("select count(*) from retoma.jobs where pipeline = 'retoma.recover' and state = 'completed'")
    oracle.nothing_is_wrong()


async def test_who_loses_a_connection_now_and_then_still_takes_back_what_another_left(
    proxy: Proxy, fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    frozen = fleet.start("ana")
    await busy(oracle, app, 600.0)
    survivor = fleet.start("bruno", url=proxy.url)
    await survivor.ready()
    await beats(oracle, survivor, 2)
    frozen.send(signal.SIGSTOP, executors=True)  # not killed: only its lease can tell

    async def trickle() -> None:
        while True:
            await asyncio.sleep(LEASE / 3)
            proxy.cut()

    losing = asyncio.create_task(trickle())
    await until(lambda: oracle.rows(TAKEN), what="they are taken back while connections go on to be lost")
    losing.cancel()

    assert oracle.rows(TAKEN) == [("lease", 4)]


async def test_an_executor_that_does_not_read_its_orders_does_not_stop_the_heart(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    """A batch is paused while one of its handlers stands in the way of all others: at each beat there is something to
    tell an executor that does not listen.
    """
    member = fleet.start("ana", at_once=200, processes=2, heartbeat_seconds=0.1, lease_seconds=3)
    await member.ready(2)
    batch = await app.batch(crash_app.polite, [600.0] * 300, name="many")
    await until(lambda: len(oracle.marks("began")) >= 300, what="all have begun")
    rude = (await app.enqueue(crash_app.blocking, 15.0)).id
    await until(lambda: oracle.begun(rude, "hold"), what="a loop stands still")

    await app.batches.pause(batch.id)
    await beats(oracle, member, 60)

    assert oracle.state(rude) == "running"
    assert oracle.rows(TAKEN) == []
    assert len(member.executors()) == 2


async def test_a_full_pool_of_the_api_does_not_stop_the_heart(fleet: Fleet, oracle: Oracle, app: Retoma) -> None:
    member = fleet.run("ana", {"RETOMA_STATEMENT_SECONDS": "60"}, "up", "--app", "crash_app:app", "--port", "0")
    await until(lambda: "/api/v1" in member.words(), what="the API is there")
    address = next(word for word in member.words().split() if "/api/v1" in word).rstrip(".")
    jobs = await busy(oracle, app, 600.0)

    with psycopg.connect(fleet.url) as blocking:
        blocking.execute("lock table retoma.limits in access exclusive mode")
        for _ in range(12):
            threading.Thread(target=_ask, args=(f"{address}/limits",), daemon=True).start()
        await until(lambda: "requests.refused" in member.words(), what="the API has no connection left to look with")
        await asyncio.sleep(2 * LEASE)
        assert oracle.one("select count(*) from retoma.workers where stopped_at is null and lease_expires_at > now()")

    assert oracle.rows(TAKEN) == []
    assert oracle.states(jobs) == {"running": 4}


def _ask(address: str) -> None:
    with suppress(OSError):
        urllib.request.urlopen(address, timeout=30).read()


async def test_a_signal_that_is_said_again_and_again_does_not_spoil_an_orderly_end(
    fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana")
    job = (await app.enqueue(crash_app.tally, 1)).id
    await until(lambda: oracle.state(job) == "completed", what="it is at work")

    while not member.ended:
        member.send(signal.SIGTERM)
        await asyncio.sleep(0.002)

    assert await member.exit_code() == 0


async def test_a_machine_without_room_for_a_process_is_waited_for(
    fleet: Fleet, oracle: Oracle, app: Retoma, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in fleet.environment().items():
        monkeypatch.setenv(name, value)
    real, refused = subprocess.Popen, []

    def refuse(command: Any, *words: Any, **options: Any) -> Any:
        if "retoma.worker.executor_main" in str(command) and len(refused) < 3:
            refused.append(command)
            raise OSError(errno.EAGAIN, os.strerror(errno.EAGAIN))
        return real(command, *words, **options)

    monkeypatch.setattr("retoma.worker.executor_process.subprocess.Popen", refuse)
    mine = Retoma(pipelines=crash_app.PIPELINES, settings=Settings.load(database_url=fleet.url))
    worker = mine.worker(label="ana", reference="crash_app:app")
    working = asyncio.create_task(worker.run())
    try:
        job = (await app.enqueue(crash_app.tally, 1)).id
        await until(lambda: working.done() or oracle.state(job) == "completed", what="an executor could be started")
    finally:
        worker.stop()
        await working

    assert len(refused) == 3
    assert oracle.state(job) == "completed"
    assert oracle.one("select count(*) from retoma.workers where reason = 'could not be started'") == 3
    assert oracle.one("select count(*) from retoma.workers where stopped_at is null") == 0


async def test_an_idle_worker_has_two_connections_and_asks_little(
    fleet: Fleet, oracle: Oracle, app: Retoma, figure: Figure
) -> None:
    members = [fleet.start(label, watchdog_seconds=3600, **AS_IT_COMES) for label in ("ana", "bruno")]
    await app.close()
    for member in members:
        await member.ready()
    sql = """
        select count(*) from pg_stat_activity
         where datname = current_database() and backend_type = 'client backend' and pid <> pg_backend_pid()
    """
    await until(lambda: oracle.one(sql) <= 4, what="only two connections each are left")
    await until(lambda: len(oracle.rows("select from retoma.workers where pid <> supervisor")) == 2, what="both beat")

    counts = []
    commits = "select xact_commit from pg_stat_database where datname = current_database()"
    before, began, asked = oracle.one(commits), time.monotonic(), 0
    while time.monotonic() - began < 6:
        counts.append(oracle.one(sql))
        asked += 1
        await asyncio.sleep(0.2)
    oracle.rows("select pg_stat_force_next_flush()")
    done = oracle.one(commits) - before - asked
    seconds = time.monotonic() - began

    figure("connections", sorted(counts))
    figure("transactions a second and worker", round(done / seconds / 2, 2))
    assert sorted(counts)[len(counts) // 2] <= 4
    assert done <= 2 * 4.0 * (seconds + 4)  # what is flushed late was done before
    await app.open()

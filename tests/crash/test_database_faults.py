"""PostgreSQL is restarted in the middle, or its answers are lost on the way: nothing is lost, nothing is doubled."""

from __future__ import annotations

import asyncio
import os
import random
import re
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path

import crash_app
import psycopg
import pytest
from fleet import LEASE, Fleet, Member, until
from oracle import Oracle
from proxy import Proxy

from retoma import Retoma, Settings
from retoma.postgres import migrate
from retoma.postgres.embedded import server as embedded_server
from retoma.postgres.embedded.home import Home, lives, postmaster

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

Figure = Callable[[str, object], None]


class Server:
    """A PostgreSQL of its own, that can be stopped without a goodbye."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self._running = embedded_server.ensure(home)
        self.url = self._running.superuser_url
        migrate.upgrade(self._make("model"), Settings.load())

    def database(self, name: str) -> str:
        """The address of a new migrated database: each test makes its own."""
        return self._make(name, "template model strategy file_copy")

    def _make(self, name: str, how: str = "") -> str:
        with psycopg.connect(self.url, autocommit=True) as connection:
            connection.execute(f"create database {name} {how}".encode())
        return self.url.rpartition("/")[0] + f"/{name}"

    def crash(self) -> None:
        """What ``pg_ctl stop -m immediate`` does: every process ends now, nothing is written out."""
        pid = postmaster(Home.at(self.home))
        assert pid is not None
        os.kill(pid, signal.SIGQUIT)

    async def restart(self, down: float = 0.0) -> None:
        self.crash()
        await until(lambda: not lives(Home.at(self.home)), what="the server is down")
        await asyncio.sleep(down)
        again = await asyncio.to_thread(embedded_server.ensure, self.home)
        self._running.release()
        self._running = again
        assert again.superuser_url == self.url, "it came back on another port"

    def close(self) -> None:
        self._running.release()
        embedded_server.stop(self.home)


@pytest.fixture(scope="module")
def own_server() -> Iterator[Server]:
    home = Path(tempfile.mkdtemp(prefix="retoma-crash-"))
    home.chmod(0o755)  # the server's account must be able to reach it
    server = Server(home)
    yield server
    server.close()
    shutil.rmtree(home, ignore_errors=True)


@pytest.fixture
def restarted(own_server: Server, tmp_path: Path) -> Iterator[tuple[Fleet, Oracle]]:
    """A fleet and an oracle on the server that is going to be restarted."""
    url = own_server.database(f"crash_{abs(hash(tmp_path))}")
    fleet = Fleet(url, tmp_path)
    oracle = Oracle(url, fleet.file)
    yield fleet, oracle
    fleet.clear_away()
    fleet.tell()
    oracle.close()


async def at_work(members: list[Member], oracle: Oracle, app: Retoma) -> list[list[int]]:
    """The executors, once every one of them has done something; what they did is forgotten."""
    pids = [await member.ready() for member in members]
    everybody = {pid for each in pids for pid in each}
    while {mark.pid for mark in oracle.marks("began")} != everybody:
        await app.enqueue_many(crash_app.tally, range(20))
        await until(oracle.all_ended, what="they are at work")
    oracle.forget()
    return pids


@pytest.fixture
async def proxy(database_url: str) -> AsyncIterator[Proxy]:
    async with Proxy(database_url) as proxy:
        yield proxy


@pytest.mark.parametrize("seed", [2])
async def test_immediate_restarts_of_postgresql_lose_and_double_nothing(
    seed: int, own_server: Server, restarted: tuple[Fleet, Oracle], figure: Figure
) -> None:
    fleet, oracle = restarted
    chance = random.Random(seed)
    members = [fleet.start(label, at_once=8) for label in ("ana", "bruno")]
    async with Retoma(fleet.url, pipelines=crash_app.PIPELINES) as app:
        executors = await at_work(members, oracle, app)
        five = [receipt.id for receipt in await app.enqueue_many(crash_app.five, [0.1] * 80)]
        quick = [receipt.id for receipt in await app.enqueue_many(crash_app.effect, range(400))]
    for _ in range(3):
        await asyncio.sleep(chance.uniform(0.3, 1.0))
        await own_server.restart(down=chance.uniform(0.0, 0.5))
        oracle.connect()

    await until(oracle.all_ended, what="all jobs end")

    assert oracle.states() == {"completed": 480}
    wanted = {(job, f"step/{number}"): 1 for job in five for number in (2, 4)}
    assert oracle.effects() == wanted | {(job, "record"): 1 for job in quick}
    assert [member.executors() for member in members] == executors, "a worker had to be restarted"
    oracle.nothing_is_wrong()
    figure("steps begun again", oracle.again())
    figure("attempts that ended by it", oracle.rows(
        "select ending, reason, count(*) from retoma.attempts where ending <> 'completed' group by 1, 2"))  # fmt: skip


async def test_a_database_that_is_away_for_longer_than_the_lease_costs_nobody_a_job(
    own_server: Server, restarted: tuple[Fleet, Oracle]
) -> None:
    fleet, oracle = restarted
    members = [fleet.start(label, at_once=4) for label in ("ana", "bruno")]
    async with Retoma(fleet.url, pipelines=crash_app.PIPELINES) as app:
        executors = await at_work(members, oracle, app)
        jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [1.0] * 8)]
    await until(lambda: all(oracle.begun(job, "slow") for job in jobs), what="all are in their slow step")

    await own_server.restart(down=4.5)
    oracle.connect()
    await until(oracle.all_ended, what="all jobs end")

    assert oracle.states() == {"completed": 8}
    assert all(oracle.begun(job, "slow") == 1 for job in jobs), "a step that had only to be saved was run again"
    assert [member.executors() for member in members] == executors
    oracle.nothing_is_wrong()


async def test_an_executor_that_dies_while_the_database_is_away_is_replaced_when_it_comes_back(
    own_server: Server, restarted: tuple[Fleet, Oracle]
) -> None:
    fleet, oracle = restarted
    member = fleet.start("ana", at_once=4)
    async with Retoma(fleet.url, pipelines=crash_app.PIPELINES) as app:
        jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.nap, [1.0] * 4)]
    await until(lambda: all(oracle.begun(job, "slow") for job in jobs), what="all are in their slow step")

    own_server.crash()
    member.send(signal.SIGKILL, executors=True, supervisor=False)
    await until(lambda: not lives(Home.at(own_server.home)), what="the server is down")
    await asyncio.sleep(1.0)
    await asyncio.to_thread(embedded_server.ensure, own_server.home)
    oracle.connect()
    await until(oracle.all_ended, what="all jobs end")

    assert not member.ended
    assert oracle.states() == {"completed": 4}
    assert {oracle.attempts(job)[0][0] for job in jobs} <= {"crashed", "lost", "released"}
    oracle.nothing_is_wrong()


async def test_a_worker_can_be_stopped_while_the_database_is_away(
    own_server: Server, restarted: tuple[Fleet, Oracle]
) -> None:
    fleet, oracle = restarted
    member = fleet.start("ana", at_once=4, drain_seconds=1)
    async with Retoma(fleet.url, pipelines=crash_app.PIPELINES) as app:
        job = (await app.enqueue(crash_app.nap, 0.5)).id
    await until(lambda: oracle.begun(job, "slow"), what="it is in its slow step")

    own_server.crash()
    try:
        member.send(signal.SIGTERM)
        await member.exit_code(40)
    finally:
        await until(lambda: not lives(Home.at(own_server.home)), what="the server is down")
        await asyncio.to_thread(embedded_server.ensure, own_server.home)
    oracle.connect()
    fleet.start("bruno")
    await until(oracle.all_ended, what="another worker ends it")
    assert oracle.states() == {"completed": 1}
    oracle.nothing_is_wrong()


@pytest.mark.parametrize("seed", [3])
async def test_lost_acknowledgements_of_claims_and_endings_lose_and_double_nothing(
    seed: int, proxy: Proxy, fleet: Fleet, oracle: Oracle, app: Retoma, figure: Figure
) -> None:
    chance = random.Random(seed)
    members = [fleet.start(label, at_once=8, url=proxy.url) for label in ("ana", "bruno")]
    await at_work(members, oracle, app)
    five = [receipt.id for receipt in await app.enqueue_many(crash_app.five, [0.1] * 60)]
    quick = [receipt.id for receipt in await app.enqueue_many(crash_app.effect, range(600))]
    cuts = 0
    for _ in range(12):
        await asyncio.sleep(chance.uniform(0.05, 0.6))
        cuts += await proxy.lose_answers(chance.uniform(0.0, 0.15))

    await until(oracle.all_ended, what="all jobs end")

    figure("connections cut", cuts)
    figure("attempts that ended by it", oracle.rows(
        "select ending, reason, count(*) from retoma.attempts where ending <> 'completed' group by 1, 2"))  # fmt: skip
    assert oracle.states() == {"completed": 660}
    wanted = {(job, f"step/{number}"): 1 for job in five for number in (2, 4)}
    assert oracle.effects() == wanted | {(job, "record"): 1 for job in quick}
    assert not any(member.ended for member in members)
    oracle.nothing_is_wrong()


async def test_a_claim_that_arrives_after_it_was_given_up_leaves_no_job_behind(
    proxy: Proxy, fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    """The worker lost the connection before the server had read the claim: it is done all the same, later."""
    member = fleet.start("ana", at_once=1, url=proxy.url, heartbeat_seconds=1.4)
    await at_work([member], oracle, app)
    # Only a claim names the pipelines and has a token: sixteen bytes of which one tells the version.
    proxy.delayed = rb"cancels-itself.*\0\0\0\x10.{6}[\x40-\x4f]"
    await until(lambda: proxy.delayed is None, what="a claim is on its way")
    proxy.give_up()
    busy = (await app.enqueue(crash_app.nap, 2.0)).id
    await until(lambda: oracle.begun(busy, "slow"), what="the only place is taken")
    late = (await app.enqueue(crash_app.effect, 1)).id

    await proxy.deliver()
    await until(lambda: oracle.state(late) == "running", seconds=5, what="the late claim takes it")
    await until(oracle.all_ended, seconds=12, what="the job that nobody knew of is run")

    assert oracle.states() == {"completed": 2}
    oracle.nothing_is_wrong()


async def test_a_checkpoint_that_arrives_twice_is_kept_once(
    proxy: Proxy, fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    """The first save is given up and sent again, and then both arrive."""
    await at_work([fleet.start("ana", at_once=1, url=proxy.url)], oracle, app)
    job = (await app.enqueue(crash_app.five, 0.7)).id
    await until(lambda: oracle.begun(job, "step/1"), what="the first step has begun")
    proxy.delayed = b"step/1"
    await until(lambda: proxy.delayed is None, what="its checkpoint is on its way")
    proxy.give_up()
    await until(lambda: oracle.one("select count(*) from saves where step = 'step/1'"), what="it was sent again")

    await proxy.deliver()
    await until(oracle.all_ended, what="the job ends")

    assert oracle.states() == {"completed": 1}
    assert oracle.job(job)[2] == 1
    oracle.nothing_is_wrong()


async def test_a_heartbeat_that_is_answered_after_its_executor_died_does_not_stop_the_heart(
    proxy: Proxy, fleet: Fleet, oracle: Oracle, app: Retoma
) -> None:
    member = fleet.start("ana", url=proxy.url)
    (executor,) = await member.ready()
    known = "select count(*) from retoma.workers where pid = %s"
    await until(lambda: oracle.one(known, executor), what="the first heartbeat is through")
    proxy.delayed = re.escape(f"{{{executor}}}".encode())
    await until(lambda: proxy.delayed is None, what="a heartbeat is on its way")

    member.send(signal.SIGKILL, executors=True, supervisor=False)
    await until(lambda: len(member.events("executor.started")) == 2, what="the executor is replaced")
    await proxy.deliver()
    before = await member.ready()
    await asyncio.sleep(2 * LEASE)

    job = (await app.enqueue(crash_app.effect, 1)).id
    await until(lambda: oracle.state(job) == "completed", what="it still works")
    assert member.executors() == before
    assert oracle.one("select count(*) from retoma.workers where reason = 'lost'") == 0
    assert "failed" not in member.words()

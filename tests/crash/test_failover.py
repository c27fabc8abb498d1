"""The machine of the database is lost: its standby is promoted, and workers and servers find it by their address."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
import signal
import tempfile
import urllib.request
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import crash_app
import pytest
from fleet import Fleet, until
from oracle import Oracle
from postgres_pair import Pair

from retoma import Retoma, Settings
from retoma.errors import DatabaseError
from retoma.postgres import migrate
from retoma.postgres.embedded.initdb import free_port

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]


@pytest.fixture
def pair() -> Iterator[Pair]:
    folder = Path(tempfile.mkdtemp(prefix="retoma-pair-"))
    folder.chmod(0o755)  # the server's account must be able to reach it
    pair = Pair(folder)
    try:
        migrate.upgrade(pair.url, Settings.load())
        yield pair
    finally:
        pair.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def fleet(pair: Pair, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(pair.url, tmp_path)
    yield fleet
    fleet.clear_away()
    fleet.tell()


class Clerk:
    """Enqueues one job after the other, and writes down those of which it was told that they are stored."""

    def __init__(self, url: str) -> None:
        self._url = url
        self.stored: list[int] = []
        self.refused = 0

    async def work(self) -> None:
        async with Retoma(self._url, pipelines=crash_app.PIPELINES) as app:
            while True:
                try:
                    self.stored.append((await app.enqueue(crash_app.five, 0.05)).id)
                except DatabaseError:
                    self.refused += 1
                await asyncio.sleep(0.05)


@contextlib.asynccontextmanager
async def enqueueing(clerk: Clerk) -> AsyncIterator[None]:
    task = asyncio.create_task(clerk.work())
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


def _is_ready(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=5) as answer:
            return bool(answer.status == 200)
    except OSError:
        return False


async def test_a_synchronous_standby_that_takes_over_has_everything_that_was_acknowledged(
    pair: Pair, fleet: Fleet
) -> None:
    pair.wait_for_standby()
    oracle, port, clerk = Oracle(pair.url, fleet.file), free_port(), Clerk(pair.url)
    members = [fleet.start(label, at_once=4) for label in ("ana", "bruno")]
    serve = fleet.run("serve", {}, "serve", "--app", "crash_app:app", "--port", str(port))
    await until(lambda: _is_ready(port), what="the server is ready")
    async with enqueueing(clerk):
        await until(lambda: oracle.states()["completed"] >= 20, what="some are done")
        pair.primary.kill()
        before = len(clerk.stored)
        pair.promote()
        await until(lambda: len(clerk.stored) >= before + 20, what="jobs are stored again")
    oracle.connect()
    await until(oracle.all_ended, seconds=200, what="all jobs end")
    await until(lambda: _is_ready(port), what="the server is ready again")

    states = oracle.states(clerk.stored)
    assert states == {"completed": len(clerk.stored)}, "what was acknowledged is there, and done"
    assert not serve.ended
    assert not any(member.ended for member in members), "nobody had to be started again"
    assert {count for (job, _), count in oracle.effects().items() if job in set(clerk.stored)} == {1}
    oracle.nothing_is_wrong()
    async with Retoma(pair.url, pipelines=crash_app.PIPELINES) as app:
        assert await app.system.verify() == []
    oracle.close()

    again = pair.copy_of(pair.primary, "third")
    try:
        assert pair.followed(pair.primary), "the lost machine is replaced by a new standby"
    finally:
        again.kill()


async def test_an_asynchronous_standby_that_takes_over_lacks_what_it_had_not_received_and_nothing_else(
    pair: Pair, fleet: Fleet
) -> None:
    oracle = Oracle(pair.url, fleet.file)
    async with Retoma(pair.url, pipelines=crash_app.PIPELINES) as app:
        kept = [each.id for each in await app.enqueue_many(crash_app.five, [0.05] * 40)]
        worker = fleet.start("ana", at_once=4)
        await until(lambda: oracle.states()["completed"] >= 10, what="some are done")
        await until(pair.caught_up, what="the standby has the jobs")
        pair.cut()
        done = len(oracle.marks("done"))
        lost = [each.id for each in await app.enqueue_many(crash_app.five, [0.05] * 5)]
        await until(
            lambda: len(oracle.marks("done")) >= done + 10, what="work goes on that the standby knows nothing of"
        )
    oracle.close()
    pair.primary.kill()
    worker.send(signal.SIGKILL, executors=True)  # what it holds may be of a past that never was
    pair.promote()
    fleet.start("bruno", at_once=4)
    oracle.connect()
    await until(oracle.all_ended, seconds=200, what="all jobs end")

    assert oracle.states(kept) == {"completed": len(kept)}
    assert oracle.states(lost) == {}, "acknowledged, and lost with the machine"
    assert not oracle.doubled_effects(), "what was lost was lost as a whole: the row and its checkpoint"
    assert not oracle.stale_writes()
    assert not oracle.after_the_end()
    async with Retoma(pair.url, pipelines=crash_app.PIPELINES) as app:
        assert await app.system.verify() == []
    oracle.close()

"""Everything is killed at once, PostgreSQL too, and started again in any order, as compose.yaml does: a part that ends
is started again until the others are there. Nothing is lost and nothing is doubled.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import tempfile
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import crash_app
import psutil
import psycopg
import pytest
from fleet import Fleet, Member, until
from oracle import Oracle

from retoma import Retoma, Settings
from retoma.postgres import migrate
from retoma.postgres.embedded import server as embedded_server
from retoma.postgres.embedded.home import Home, lives, postmaster
from retoma.postgres.embedded.initdb import free_port

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

ORDERS = [("postgres", "serve", "worker"), ("worker", "serve", "postgres")]
JOBS = 60


class House:
    """PostgreSQL, a server and two workers; *wanted* are the parts that are started again when they have ended."""

    def __init__(self, home: Path, folder: Path) -> None:
        self.home = home
        self.running = embedded_server.ensure(home)
        with psycopg.connect(self.running.superuser_url, autocommit=True) as connection:
            connection.execute("create database house")
        self.url = self.running.superuser_url.rpartition("/")[0] + "/house"
        migrate.upgrade(self.url, Settings.load())
        self.fleet = Fleet(self.url, folder)
        self.port = free_port()
        self.parts: dict[str, Member] = {}

    def start(self, part: str) -> None:
        if part == "serve":
            self.parts[part] = self.fleet.run(part, {}, "serve", "--app", "crash_app:app", "--port", str(self.port))
        else:
            self.parts[part] = self.fleet.start(part, at_once=4)

    async def keep(self, wanted: list[str]) -> None:
        """What `restart: unless-stopped` does, for as long as it is not cancelled."""
        while True:
            for part in wanted:
                if part not in self.parts or self.parts[part].ended:
                    self.start(part)
            await asyncio.sleep(0.5)

    async def kill(self) -> None:
        """kill -9 of every process there is."""
        pid = postmaster(Home.at(self.home))
        assert pid is not None
        server = psutil.Process(pid)
        doomed = [server, *server.children(recursive=True)]
        for part in self.parts.values():
            part.send(signal.SIGKILL, executors=True)
        for process in doomed:
            try:
                os.kill(process.pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        await until(lambda: not lives(Home.at(self.home)), what="the database is gone")
        await until(lambda: all(part.ended for part in self.parts.values()), what="the parts are gone")

    async def start_postgres(self) -> None:
        again = await asyncio.to_thread(embedded_server.ensure, self.home)
        self.running.release()
        self.running = again

    def is_ready(self) -> bool:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/readyz", timeout=5) as answer:
                return bool(answer.status == 200)
        except OSError:
            return False


@pytest.fixture
def house(tmp_path: Path) -> Iterator[House]:
    home = Path(tempfile.mkdtemp(prefix="retoma-order-"))
    home.chmod(0o755)  # the server's account must be able to reach it
    house = House(home, tmp_path)
    yield house
    house.fleet.clear_away()
    house.fleet.tell()
    house.running.release()
    embedded_server.stop(home)
    shutil.rmtree(home, ignore_errors=True)


async def test_everything_killed_and_started_in_any_order_loses_and_doubles_nothing(house: House) -> None:
    oracle = Oracle(house.url, house.fleet.file)
    async with Retoma(house.url, pipelines=crash_app.PIPELINES) as app:
        jobs = [receipt.id for receipt in await app.enqueue_many(crash_app.five, [0.05] * JOBS)]
    wanted: list[str] = ["serve", "worker", "second"]
    keeping = asyncio.create_task(house.keep(wanted))
    try:
        for done, order in zip((JOBS // 5, JOBS // 2), ORDERS, strict=True):
            await until(lambda enough=done: oracle.states().get("completed", 0) >= enough, what="some are done")
            oracle.close()
            wanted.clear()
            await house.kill()
            for part in order:
                if part == "postgres":
                    await house.start_postgres()
                else:
                    wanted.extend(["worker", "second"] if part == "worker" else [part])
                    await until(lambda name=part: not house.parts[name].ended, what=f"{part} was started")
            oracle.connect()
        await until(oracle.all_ended, what="all jobs end")
        await until(house.is_ready, what="the server is ready")
    finally:
        keeping.cancel()

    assert oracle.states() == {"completed": JOBS}
    assert oracle.effects() == {(job, f"step/{number}"): 1 for job in jobs for number in (2, 4)}
    oracle.nothing_is_wrong()
    oracle.close()

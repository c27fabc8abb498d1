"""Behind a PgBouncer. In transaction mode: no LISTEN, no session, no prepared statements, and all of it works. In
session mode: what it refuses is told with the fix, and the fix works.
"""

from __future__ import annotations

import os
import pwd
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from retoma import Retoma, Run, Settings, pipeline
from retoma.errors import DatabaseUnreachable
from retoma.postgres import migrate
from retoma.testing import drain

PROGRAM = shutil.which("pgbouncer", path=f"{os.environ.get('PATH', '')}:/usr/sbin")

pytestmark = pytest.mark.skipif(
    PROGRAM is None, reason="pgbouncer is not installed (tools/system-packages pgbouncer installs it for root)"
)


@pipeline("behind")
async def behind(number: int, run: Run) -> int:
    doubled = await run.step("double", lambda: 2 * number)
    return await run.step("add", lambda: doubled + 1)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@contextmanager
def pooler(database_url: str, *, mode: str, more: str = "") -> Iterator[str]:
    """The address of the test's database through a pool of three server connections."""
    real = urlsplit(database_url)
    port = free_port()
    place = Path(tempfile.mkdtemp(prefix="retoma-pgbouncer-"))
    place.chmod(0o755)
    (place / "users").write_text(f'"{real.username}" "{real.password}"\n')
    (place / "config").write_text(
        f"[databases]\n* = host=127.0.0.1 port={real.port}\n[pgbouncer]\nlisten_addr = 127.0.0.1\n"
        f"listen_port = {port}\nauth_type = plain\nauth_file = {place}/users\npool_mode = {mode}\n"
        f"default_pool_size = 3\nmax_client_conn = 100\nunix_socket_dir =\n{more}\n"
    )
    # It refuses to run as root, as it should.
    account = pwd.getpwnam("nobody") if os.geteuid() == 0 else None
    drop = {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []} if account else {}
    running = subprocess.Popen([str(PROGRAM), "-q", str(place / "config")], **drop)
    url = f"postgresql://{real.username}:{real.password}@127.0.0.1:{port}{real.path}"
    try:
        wait_for(url, running)
        yield url
    finally:
        running.terminate()
        running.wait()
        shutil.rmtree(place)


@pytest.fixture
def pooled_url(database_url: str) -> Iterator[str]:
    with pooler(database_url, mode="transaction") as url:
        yield url


def wait_for(url: str, running: subprocess.Popen[bytes]) -> None:
    for _ in range(100):
        assert running.poll() is None, "pgbouncer did not start"
        try:
            psycopg.connect(url, prepare_threshold=None).close()
        except psycopg.OperationalError:
            time.sleep(0.1)
        else:
            return
    raise AssertionError("pgbouncer does not answer")


def through(url: str) -> Settings:
    return Settings.load(database_url=url, pooler="transaction", poll_seconds=0.1)


async def test_jobs_are_queued_and_seen_through_a_transaction_pooler(pooled_url: str) -> None:
    app = Retoma(settings=through(pooled_url), pipelines=[behind])

    async with app:
        receipts = await app.enqueue_many(behind, range(25), key=str)
        again = await app.enqueue(behind, 3, key="3")
        async with app.transaction() as connection:
            await app.enqueue(behind, 99, conn=connection)

        assert again.id == receipts[3].id
        assert len(await app.jobs.find(limit=100)) == 26


async def test_a_worker_without_hints_finds_the_jobs_by_looking(pooled_url: str, tmp_path: Path) -> None:
    (tmp_path / "behind_app.py").write_text(
        "from retoma import Retoma, Run, pipeline\n\n"
        "@pipeline('behind')\n"
        "async def behind(number: int, run: Run) -> int:\n"
        "    doubled = await run.step('double', lambda: 2 * number)\n"
        "    return await run.step('add', lambda: doubled + 1)\n\n"
        "app = Retoma(pipelines=[behind])\n"
    )
    environment = {
        **os.environ,
        "DATABASE_URL": pooled_url,
        "RETOMA_POOLER": "transaction",
        "RETOMA_POLL_SECONDS": "0.1",
    }
    app = Retoma(settings=through(pooled_url), pipelines=[behind])
    command = [sys.executable, "-m", "retoma", "worker", "--app", "behind_app:app", "--at-once", "8"]

    async with app:
        receipts = await app.enqueue_many(behind, range(40))
        worker = subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True)
        try:
            for receipt in receipts:
                await app.jobs.wait(receipt.id, timeout=240)
            outputs = [await app.jobs.output(behind, receipt.id) for receipt in receipts]
        finally:
            worker.terminate()
            _, talk = worker.communicate(timeout=120)

    assert outputs == [2 * number + 1 for number in range(40)]
    assert worker.returncode == 0
    assert "hints.unheard" in talk
    with psycopg.connect(pooled_url, prepare_threshold=None) as connection:
        held = connection.execute("select hint from retoma.workers").fetchall()
    assert held == [(None,)], "a session lock means nothing here: the lease alone decides"


def test_the_tables_go_down_and_up_through_a_transaction_pooler(pooled_url: str) -> None:
    settings = through(pooled_url)

    migrate.downgrade(pooled_url, settings, to="base")
    assert migrate.status(pooled_url, settings).current is None

    migrate.upgrade(pooled_url, settings)
    assert migrate.status(pooled_url, settings).ready


async def test_a_session_pooler_that_refuses_the_time_outs_is_told_with_the_fix(database_url: str) -> None:
    with pooler(database_url, mode="session") as url:
        app = Retoma(url, pipelines=[behind])
        with pytest.raises(DatabaseUnreachable, match="unsupported startup parameter: options") as caught:
            await app.open()

    assert "ignore_startup_parameters = options" in caught.value.next
    assert "alter role" in caught.value.next
    assert "RETOMA_POOLER=transaction" in caught.value.next


async def test_a_session_pooler_that_ignores_them_serves_all_but_the_time_outs(database_url: str) -> None:
    with pooler(database_url, mode="session", more="ignore_startup_parameters = options") as url:
        async with Retoma(url, pipelines=[behind]) as app:
            receipts = await app.enqueue_many(behind, range(3))
            done = await drain(app)
            outputs = [await app.jobs.output(behind, receipt.id) for receipt in receipts]
            health = await app.system.health()

    assert done == 3
    assert outputs == [1, 3, 5]
    assert health.echo_seconds is not None, "LISTEN works in session mode"

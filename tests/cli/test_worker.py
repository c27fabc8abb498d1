"""retoma worker and up: real processes, real signals."""

import asyncio
import json
import signal
import time
from collections.abc import Callable
from typing import Any

import psycopg
import pytest

from retoma import Retoma

from .conftest import PROGRAM, Command, Run

# Several processes start here, and the machine may be busy.
pytestmark = pytest.mark.timeout(600)

QUICK = {"RETOMA_HEARTBEAT_SECONDS": "0.5", "RETOMA_LEASE_SECONDS": "5", "RETOMA_POLL_SECONDS": "0.2"}


def until(ready: Callable[[], Any], seconds: float = 150.0) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := ready()):
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)
    return found


def states(psql: psycopg.Connection) -> list[str]:
    """Of the jobs that the test queued; those of the house come by the clock."""
    found = psql.execute("select state from retoma.jobs where queue <> 'retoma' order by id")
    return [state for (state,) in found.fetchall()]


def checkpoints(psql: psycopg.Connection) -> int:
    row = psql.execute("select count(*) from retoma.checkpoints").fetchone()
    assert row
    return row[0]


def test_a_worker_drains_on_sigterm_and_leaves_with_0(
    command: Command, run: Run, database_url: str, psql: psycopg.Connection
) -> None:
    run("enqueue", "double", "21")
    run("enqueue", "plod", "100")
    worker = command.start("worker", "--app", PROGRAM, "--id", "ana", DATABASE_URL=database_url, **QUICK)
    until(lambda: states(psql)[0] == "completed" and checkpoints(psql) > 2)

    worker.send_signal(signal.SIGTERM)
    said = worker.communicate(timeout=120)[1]

    assert worker.returncode == 0
    assert states(psql) == ["completed", "queued"]
    lines = [json.loads(line) for line in said.splitlines()]
    assert {line["workerLabel"] for line in lines} == {"ana"}
    assert next(line["event"] for line in lines) == "executor.started"
    attempts = json.loads(run("job", "show", "2", "--json").stdout)
    assert (attempts["attempt"], attempts["attempts"][0]["ending"]) == (0, "released")


def test_the_label_and_the_lease_come_from_the_environment(
    command: Command, database_url: str, psql: psycopg.Connection
) -> None:
    names = {"WORKER_ID": "worker-7", "JOB_LOCK_TTL_MS": "30000", "JOB_HEARTBEAT_INTERVAL_MS": "500"}
    worker = command.start("worker", "--app", PROGRAM, "--processes", "2", DATABASE_URL=database_url, **names)

    def present() -> list[tuple[str, float]]:
        return psql.execute("select label, lease_seconds from retoma.workers").fetchall()

    until(lambda: len(present()) == 2)
    worker.terminate()

    assert worker.wait(timeout=120) == 0
    assert set(present()) == {("worker-7", 30.0)}


def test_a_worker_of_some_queues_leaves_the_others_alone(
    command: Command, run: Run, database_url: str, psql: psycopg.Connection
) -> None:
    run("enqueue", "double", "1")
    run("enqueue", "stumble", '"x"')
    worker = command.start("worker", "--app", PROGRAM, "--queues", "stumble", DATABASE_URL=database_url, **QUICK)

    until(lambda: states(psql)[1] == "failed")
    worker.terminate()

    assert states(psql) == ["queued", "failed"]
    assert "No pipeline of" not in worker.communicate(timeout=120)[1]


def test_a_worker_of_a_queue_that_its_program_does_not_have_says_so_and_serves_it(
    command: Command, program: Retoma, database_url: str, psql: psycopg.Connection
) -> None:
    async def ask() -> None:
        async with program:
            await program.enqueue(program.registry.pipeline("double"), 1, queue="night")

    asyncio.run(ask())
    worker = command.start("worker", "--app", PROGRAM, "--queues", "night", DATABASE_URL=database_url, **QUICK)

    until(lambda: states(psql) == ["completed"])
    worker.terminate()

    told = worker.communicate(timeout=120)[1].splitlines()[0]
    assert told.endswith("Its own queues are double, plod, stumble, wait.")
    assert "has the queue night;" in told


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("--app", "no_such_module:app"), "There is no module 'no_such_module'"),
        (("--app", "retoma.errors:app"), "is not a Retoma app"),
    ],
)
def test_a_worker_without_a_program_does_not_start(
    run: Run, monkeypatch: pytest.MonkeyPatch, args: tuple[str, ...], told: str
) -> None:
    monkeypatch.delenv("RETOMA_APP")
    ran = run("worker", *args)

    assert ran.exit_code == 2
    assert told in ran.stderr
    assert ran.stderr.splitlines()[1].startswith("Try: ")


def test_a_worker_does_not_touch_a_database_without_tables(command: Command, empty_database_url: str) -> None:
    ran = command("worker", "--app", PROGRAM, DATABASE_URL=empty_database_url)

    assert ran.returncode == 2
    assert "retoma db upgrade" in ran.stderr


def test_up_makes_the_tables_works_and_ends_with_ctrl_c(command: Command, empty_database_url: str) -> None:
    environment = {"DATABASE_URL": empty_database_url, **QUICK}
    up = command.start("up", "--app", PROGRAM, **environment)

    def ready() -> bool:
        with psycopg.connect(empty_database_url) as connection:
            found = connection.execute("select to_regclass('retoma.workers') is not null").fetchone()
            if not found or not found[0]:
                return False
            row = connection.execute("select count(*) from retoma.workers").fetchone()
        return bool(row and row[0])

    until(ready)
    assert command("enqueue", "--app", PROGRAM, "double", "4", **environment).stdout == "1\n"
    until(lambda: json.loads(command("job", "show", "1", "--json", **environment).stdout)["output"] == 8)
    up.send_signal(signal.SIGINT)

    assert up.wait(timeout=120) == 0


def test_a_new_database_is_made_without_a_line_for_each_of_its_revisions(
    command: Command, empty_database_url: str
) -> None:
    up = command.start("up", "--app", PROGRAM, "--port", "0", DATABASE_URL=empty_database_url, **QUICK)
    assert up.stderr

    said = []
    for line in up.stderr:
        said.append(line)
        if "executor.started" in line:
            break

    assert [line for line in said if "alembic" in line] == []

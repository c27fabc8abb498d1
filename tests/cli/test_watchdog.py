"""retoma watchdog: the rounds of a worker, where there is none; and schedules that change."""

import asyncio
import json
import signal
import time
from pathlib import Path

import psycopg
import pytest

from retoma import Retoma
from retoma.postgres.embedded import server as embedded_server

from .conftest import PROGRAM, Command, Run

# A worker that held the first job and was last seen an hour ago.
GONE = """
    with gone as (
        insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds,
                                    seen_at, lease_expires_at)
        values ('gone', 'here', 1, '0', '{double}', '{double}', 1, 30,
                now() - interval '1 hour', now() - interval '30 minutes')
        returning id)
    update retoma.jobs
       set state = 'running', worker_id = gone.id, fence = 1, attempt = 1, claimed_at = now() - interval '1 hour'
      from gone where jobs.id = 1"""


@pytest.fixture
def neglected(run: Run, program: Retoma, psql: psycopg.Connection) -> Run:
    """A job whose worker fell silent, one that waited too long, a schedule that is due, a batch that does not move."""
    double = program.registry.pipeline("double")

    async def prepare() -> None:
        async with program:
            await program.enqueue(double, 1)
            await program.enqueue(double, 2, expires=3600)
            await program.schedules.put(double, 3, name="nightly", cron="0 4 * * *")
            await program.batch(double, [4], name="numbers")

    asyncio.run(prepare())
    psql.execute(GONE)
    psql.execute("update retoma.jobs set expires_at = now() - interval '1 minute' where id = 2")
    psql.execute("update retoma.schedules set next_run_at = now() - interval '1 minute'")
    psql.execute("""
        update retoma.batches set state = 'running', was = 'queued', started_at = now() - interval '1 day',
               last_progress_at = now() - interval '1 day'""")
    psql.execute("update retoma.jobs set run_at = now() - interval '1 day' where batch_id = 1")
    return run


ONE_ROUND = {"jobs recovered": "1", "jobs expired": "1", "batches stalled": "1", "schedules fired": "1"}


def test_one_round_looks_after_jobs_batches_and_schedules(neglected: Run) -> None:
    ran = neglected("watchdog", "--once")
    again = neglected("watchdog", "--once")

    did = dict(line.split("\t") for line in ran.stdout.splitlines())
    assert {name: did[name] for name in ONE_ROUND} == ONE_ROUND
    assert {line.split("\t")[1] for line in again.stdout.splitlines()} == {"0"}


def test_one_round_takes_jobs_back_also_where_it_had_to_start_the_embedded_server(command: Command) -> None:
    assert command("enqueue", "--app", PROGRAM, "double", "1").returncode == 0
    server = embedded_server.ensure(Path(command.environment["RETOMA_HOME"]))
    with psycopg.connect(server.url, autocommit=True) as connection:
        connection.execute(GONE.replace("1, 30,", "1, 3,"))
        connection.execute("update retoma.duties set last_at = now() - interval '1 hour'")
    server.release()
    embedded_server.stop(Path(command.environment["RETOMA_HOME"]))

    ran = command("watchdog", "--once")

    assert "The database has just come back" in ran.stderr
    assert "jobs recovered\t1" in ran.stdout


def test_it_goes_round_until_it_is_told_to_stop(
    command: Command, neglected: Run, psql: psycopg.Connection, database_url: str
) -> None:
    def state() -> object:
        row = psql.execute("select state from retoma.batches").fetchone()
        return row[0] if row else None

    watching = command.start("watchdog", "--every", "0.1", DATABASE_URL=database_url)
    deadline = time.monotonic() + 150
    while state() != "stalled":
        assert time.monotonic() < deadline, "the batch was never called stalled"
        time.sleep(0.05)
    # A round that comes later finds what happens later.
    neglected("batch", "resume", "1")
    psql.execute("update retoma.batches set last_progress_at = now() - interval '1 day'")
    while state() != "stalled":
        assert time.monotonic() < deadline, "the second round never came"
        time.sleep(0.05)
    watching.send_signal(signal.SIGTERM)
    said = watching.communicate(timeout=120)[1]

    assert watching.returncode == 0
    events = [json.loads(line)["event"] for line in said.splitlines()]
    assert events.count("batch.stalled") == 2


def test_it_needs_no_program(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETOMA_APP")

    assert run("watchdog", "--once").exit_code == 0


def test_ctrl_c_ends_it_with_0(command: Command, database_url: str, psql: psycopg.Connection) -> None:
    watching = command.start("watchdog", "--every", "0.1", DATABASE_URL=database_url)
    deadline = time.monotonic() + 150
    # It hears signals before its first round; of that one the server knows.
    rounds = "select from pg_stat_activity where query ~ 'retoma.batches' and pid <> pg_backend_pid()"
    while not psql.execute(f"{rounds} and datname = current_database()").fetchall():
        assert time.monotonic() < deadline, "it never looked after the batches"
        time.sleep(0.05)
    watching.send_signal(signal.SIGINT)

    assert watching.wait(timeout=120) == 0


def test_a_schedule_comes_at_another_time(run: Run, program: Retoma) -> None:
    async def plan() -> None:
        async with program:
            await program.schedules.put(program.registry.pipeline("double"), 5, name="nightly", cron="0 4 * * *")

    asyncio.run(plan())

    ran = run("schedule", "change", "nightly", "--cron", "30 5 * * *", "--zone", "America/Sao_Paulo")

    assert "'30 5 * * *' on the clocks of America/Sao_Paulo" in ran.stderr
    (schedule,) = json.loads(run("schedule", "list", "--json").stdout)
    assert (schedule["cron"], schedule["zone"]) == ("30 5 * * *", "America/Sao_Paulo")
    assert run("schedule", "change", "nightly").exit_code == 2
    assert run("schedule", "change", "nightly", "--cron", "never").exit_code == 2
    assert run("schedule", "change", "weekly", "--cron", "0 4 * * *").exit_code == 3

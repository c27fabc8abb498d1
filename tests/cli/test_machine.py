"""What the command line says of the machine, and how it acts on it; a real worker is asked to end."""

import json
from typing import Any

import psycopg
import pytest

from retoma import Retoma

from .conftest import PROGRAM, Command, Run
from .test_worker import QUICK, states, until

pytestmark = pytest.mark.timeout(600)


def test_a_worker_that_is_asked_to_end_finishes_its_step_gives_the_rest_back_and_leaves_with_0(
    command: Command, run: Run, database_url: str, psql: psycopg.Connection
) -> None:
    run("enqueue", "plod", "100")
    worker = command.start("worker", "--app", PROGRAM, "--id", "ana", DATABASE_URL=database_url, **QUICK)
    until(lambda: states(psql) == ["running"])
    until(lambda: psql.execute("select 1 from retoma.workers where memory_megabytes > 1").fetchone())

    asked = run("worker", "drain", "ana")
    said = worker.communicate(timeout=120)[1]

    assert (asked.exit_code, worker.returncode) == (0, 0)
    assert "asked to end: 1" in asked.output
    assert states(psql) == ["queued"]
    assert "worker.draining" in {json.loads(line)["event"] for line in said.splitlines()}
    assert psql.execute(
        "select attempt.ending from retoma.attempts as attempt join retoma.jobs as job on job.id = attempt.job_id"
        " where job.queue <> 'retoma'"  # the chores come by the clock
    ).fetchall() == [("released",)]
    [row] = psql.execute("select action, object_id from retoma.audit where action = 'worker.drain'").fetchall()
    assert row == ("worker.drain", "ana")


def test_the_step_of_a_running_job_is_told_with_the_heartbeat(command: Command, run: Run, database_url: str) -> None:
    run("enqueue", "plod", "100")

    def told() -> Any:
        """The fleet, once it says at which step the job is; a maintenance job may run beside it."""
        fleet = json.loads(run("top", "--json").stdout)
        return fleet if any(job["step"] for job in fleet["jobs"] if job["pipeline"] == "plod") else None

    worker = command.start("worker", "--app", PROGRAM, "--id", "bia", DATABASE_URL=database_url, **QUICK)
    try:
        fleet = until(told)
    finally:
        worker.terminate()
        worker.communicate(timeout=120)

    assert [each["label"] for each in fleet["workers"]] == ["bia"]
    assert fleet["busy"] >= 1
    assert fleet["places"] >= 1


def test_nobody_can_be_asked_to_end_who_does_not_run(run: Run) -> None:
    refused = run("worker", "drain", "nobody")

    assert refused.exit_code != 0
    assert "No worker runs under the label 'nobody'" in refused.output


def test_top_looks_once_in_a_pipe(run: Run) -> None:
    run("enqueue", "double", "21")

    lines = [line.split("\t") for line in run("top").stdout.splitlines()]

    assert ["queue", "double", "1", "1", "0", "0.2", "0"] in lines
    assert lines[-1][0] == "today"
    assert json.loads(run("top", "--json").stdout)["queues"][0]["depth"]["waiting"] == 1


def test_a_queue_is_shown_with_who_paused_it(run: Run) -> None:
    run("enqueue", "double", "21")
    run("queue", "pause", "double", "--reason", "maintenance")

    shown = dict(line.split("\t") for line in run("queue", "show", "double").stdout.splitlines())

    assert (shown["waiting"], shown["why"]) == ("1", "maintenance")
    assert "@" in shown["paused by"]
    assert run("queue", "show", "nothing").exit_code != 0


def test_a_breaker_is_closed_by_hand(run: Run, psql: psycopg.Connection) -> None:
    psql.execute("insert into retoma.limits (name, opened_until) values ('p/m', now() + interval '1 hour')")

    closed = run("limits", "close", "p/m")

    assert closed.exit_code == 0, closed.output
    assert psql.execute("select opened_until from retoma.limits").fetchone() == (None,)
    assert "There is no limit 'nothing'" in run("limits", "close", "nothing").output


def test_a_schedule_is_made_and_shown(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOMA_APP", PROGRAM)
    made = run("schedule", "create", "nightly", "double", "4", "--cron", "0 4 * * *", "--zone", "America/Sao_Paulo")
    again = run("schedule", "create", "nightly", "double", "4", "--cron", "0 4 * * *")
    wrong = run("schedule", "create", "other", "double", '"text"', "--cron", "0 4 * * *")
    run("schedule", "run", "nightly")

    shown = json.loads(run("schedule", "show", "nightly", "--json").stdout)

    assert made.exit_code == 0, made.output
    assert "There is a schedule 'nightly' already" in again.output
    assert "This is not an input of 'double'" in wrong.output
    assert len(shown["next"]) == 3
    assert [each["by_hand"] for each in shown["runs"]] == [True]


async def test_the_front_door_drains_by_label_and_says_who_holds_what(database_url: str) -> None:
    async with Retoma(database_url) as app:
        assert await app.workers.holding([]) == []
        assert await app.workers.losses() == {}
        assert await app.calls.limits_now() == []

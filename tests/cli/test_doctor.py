"""retoma doctor: green, amber, red, and the fix."""

import dataclasses
import json

import psycopg
import pytest

from retoma import Settings
from retoma.cli.doctor import judge
from retoma.model import Health

from .conftest import Command, Run

WELL = Health(
    version="18.1",
    fsync=True,
    full_page_writes=True,
    synchronous_commit="on",
    autovacuum=True,
    standby=False,
    most_connections=100,
    connections=5,
    transaction_seconds=None,
    transaction_pid=None,
    transaction_name=None,
    snapshot_age=3,
    live_rows=100,
    dead_rows=10,
    vacuumed_at=None,
    workers_alive=2,
    workers_silent=0,
    queues_paused=0,
    oldest_due_seconds=None,
    failed_jobs=0,
    echo_seconds=0.001,
)


def levels(**changed: object) -> dict[str, str]:
    found = judge(dataclasses.replace(WELL, **changed), Settings.load())
    return {finding.what: finding.level for finding in found if finding.level != "green"}


def test_a_healthy_database_is_green_all_over() -> None:
    assert levels() == {}


@pytest.mark.parametrize(
    ("changed", "found"),
    [
        ({"standby": True}, {"version": "red"}),
        ({"fsync": False}, {"durability": "red"}),
        ({"full_page_writes": False}, {"durability": "red"}),
        ({"synchronous_commit": "off"}, {"durability": "red"}),
        ({"connections": 95}, {"connections": "amber"}),
        ({"echo_seconds": None}, {"hints": "amber"}),
        ({"echo_seconds": 0.9}, {"hints": "amber"}),
        ({"transaction_seconds": 600.0, "transaction_pid": 7}, {"transactions": "amber"}),
        ({"transaction_seconds": 7200.0, "transaction_pid": 7}, {"transactions": "red"}),
        ({"snapshot_age": 5_000_000}, {"transactions": "amber"}),
        ({"autovacuum": False}, {"rows of jobs": "red"}),
        ({"dead_rows": 90_000}, {"rows of jobs": "amber"}),
        ({"workers_alive": 0}, {"workers": "amber"}),
        ({"oldest_due_seconds": 900.0}, {"workers": "amber"}),
        ({"workers_silent": 1}, {"silence": "amber"}),
        ({"queues_paused": 1}, {"queues": "amber"}),
        ({"failed_jobs": 4}, {"dead letters": "amber"}),
    ],
)
def test_what_is_wrong_has_a_colour_of_its_own(changed: dict[str, object], found: dict[str, str]) -> None:
    assert levels(**changed) == found


def test_whatever_is_not_green_says_what_to_do() -> None:
    ill = dataclasses.replace(WELL, fsync=False, standby=True, echo_seconds=None, workers_alive=0, autovacuum=False)

    assert all(finding.next for finding in judge(ill, Settings.load()) if finding.level != "green")


def test_through_a_transaction_pooler_silence_is_as_it_should_be() -> None:
    found = judge(dataclasses.replace(WELL, echo_seconds=None), Settings.load(pooler="transaction"))

    assert {finding.level for finding in found} == {"green"}


def test_the_doctor_looks_at_a_real_database(run: Run) -> None:
    ran = run("doctor", "--json")

    assert ran.exit_code == 0, ran.output
    findings = {finding["what"]: finding for finding in json.loads(ran.stdout)}
    assert {"database", "schema", "version", "durability", "hints", "transactions", "rows of jobs"} <= findings.keys()
    assert {findings[what]["level"] for what in findings if what != "workers"} == {"green"}
    assert (findings["workers"]["level"], findings["workers"]["next"]) == ("amber", "retoma worker --app myapp:app")


def test_the_doctor_sees_a_transaction_that_somebody_forgot(run: Run, database_url: str) -> None:
    with psycopg.connect(database_url, application_name="forgotten") as connection:
        connection.execute("select 1")

        ran = run("doctor")

    (line,) = [line for line in ran.stdout.splitlines() if "\ttransactions\t" in line]
    assert line.startswith("green\ttransactions\tthe oldest is ")


def test_the_doctor_is_red_without_tables(command: Command, empty_database_url: str) -> None:
    ran = command("doctor", DATABASE_URL=empty_database_url)

    assert ran.returncode == 1
    assert "red\tschema\tThis database has no Retoma tables yet.\tRun 'retoma db upgrade' first." in ran.stdout


def test_the_doctor_is_red_when_nobody_answers_and_keeps_the_password(command: Command) -> None:
    ran = command("doctor", DATABASE_URL="postgresql://me:hunter2@127.0.0.1:1/db")

    assert ran.returncode == 1
    assert ran.stdout.startswith("red\tdatabase\tThe database at 127.0.0.1:1/db cannot be reached")
    assert "hunter2" not in ran.stdout + ran.stderr

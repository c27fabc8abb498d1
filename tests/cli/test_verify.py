"""retoma verify: silence is not enough, it says that all is sound."""

import json
from collections.abc import Callable

import psycopg
import pytest

from .conftest import Command, Run


@pytest.fixture
def worked(run: Run, work: Callable[[], int]) -> Run:
    run("enqueue", "double", "21")
    run("enqueue", "stumble", '"x.pdf"')
    work()
    return run


def test_a_sound_database_is_one_line_and_exit_code_0(worked: Run) -> None:
    ran = worked("verify")

    assert (ran.exit_code, ran.stdout) == (0, "All is sound: every invariant holds.\n")
    assert json.loads(worked("verify", "--json").stdout) == []


def test_each_breach_is_listed_and_the_exit_code_is_1(worked: Run, psql: psycopg.Connection) -> None:
    psql.execute("update retoma.attempts set ending = 'lost' where job_id = 1")

    ran = worked("verify")
    told = worked("verify", "--json")

    assert ran.exit_code == told.exit_code == 1
    assert [line.split("\t")[0] for line in ran.stdout.splitlines()] == ["job 1"]
    assert "1 invariant does not hold." in ran.stderr
    assert [(breach["what"], sorted(breach)) for breach in json.loads(told.stdout)] == [
        ("job 1", ["found", "invariant", "what"])
    ]


def test_the_process_leaves_with_1_too(
    command: Command, worked: Run, psql: psycopg.Connection, database_url: str
) -> None:
    assert worked("verify").exit_code == 0
    psql.execute("update retoma.attempts set ending = 'lost' where job_id = 1")

    assert command("verify", DATABASE_URL=database_url).returncode == 1

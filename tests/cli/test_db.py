"""retoma db: the tables up and down, and what is said when the database cannot be used."""

import json

import psycopg
import pytest

from retoma.database import check_version
from retoma.errors import DatabaseTooOld

from .conftest import PROGRAM, Command, Run

# Its password holds a % that is no escape.
MALFORMED = "postgresql://me:hun%ter2@127.0.0.1:5432/db"
UNREACHABLE = "postgresql://me:hunter2@127.0.0.1:1/db"


def tables(url: str) -> set[str]:
    with psycopg.connect(url) as connection:
        rows = connection.execute("select tablename from pg_tables where schemaname = 'retoma'").fetchall()
    return {name for (name,) in rows}


@pytest.mark.parametrize("args", [("db", "upgrade"), ("worker", "--app", PROGRAM)])
def test_a_malformed_address_is_one_clear_line_without_the_password(command: Command, args: tuple[str, ...]) -> None:
    ran = command(*args, DATABASE_URL=MALFORMED)

    assert ran.returncode == 2
    assert ran.stdout == ""
    first, second = ran.stderr.splitlines()
    assert "a % in the password is not followed by two hexadecimal digits" in first
    assert second.startswith("Try: ")
    assert "hun" not in ran.stderr


def test_a_server_that_is_not_there_is_one_clear_line_without_the_password(command: Command) -> None:
    ran = command("db", "upgrade", DATABASE_URL=UNREACHABLE)

    assert ran.returncode == 2
    first, second = ran.stderr.splitlines()
    assert first.startswith("The database at 127.0.0.1:1/db cannot be reached")
    assert second.startswith("Try: ")
    assert "hunter2" not in ran.stderr


def test_debug_does_not_print_the_password_either(run_on_nothing: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", UNREACHABLE)
    ran = run_on_nothing("--debug", "db", "upgrade")

    assert "Traceback" in ran.stderr
    assert "hunter2" not in ran.stderr


@pytest.mark.parametrize("number", [90624, 140018])
def test_an_old_server_is_refused(number: int) -> None:
    with pytest.raises(DatabaseTooOld, match="needs PostgreSQL 15 or newer") as refused:
        check_version(number)

    assert refused.value.exit_code == 2
    check_version(150000)


def test_without_tables_a_command_says_how_to_make_them(command: Command, empty_database_url: str) -> None:
    ran = command("job", "list", DATABASE_URL=empty_database_url)

    assert ran.returncode == 2
    assert ran.stderr.splitlines() == [
        "This database has no Retoma tables yet.",
        "Try: Run 'retoma db upgrade' first.",
    ]


def test_tables_of_another_revision_are_refused(run: Run, psql: psycopg.Connection) -> None:
    psql.execute("update retoma.alembic_version set version_num = '0000'")

    ran = run("job", "list")

    assert ran.exit_code == 2
    assert "are at revision 0000, and this program needs" in ran.stderr


def test_the_tables_go_up_down_and_up_again(run_on_nothing: Run, empty_database_url: str) -> None:
    run = run_on_nothing

    assert run("db", "status").exit_code == 2
    assert "went from nothing to revision" in run("db", "upgrade").stderr
    assert "already" in run("db", "upgrade").stderr
    assert "jobs" in tables(empty_database_url)
    status = run("db", "status", "--json")
    assert status.exit_code == 0
    assert json.loads(status.stdout)["ready"] is True

    assert run("db", "downgrade", "--to", "base", "--yes").exit_code == 0
    assert tables(empty_database_url) <= {"alembic_version"}

    assert run("db", "upgrade").exit_code == 0
    assert "jobs" in tables(empty_database_url)


def test_a_downgrade_is_not_done_when_nobody_can_be_asked(run: Run, database_url: str) -> None:
    ran = run("db", "downgrade", "--to", "base")

    assert ran.exit_code == 2
    assert "--yes" in ran.stderr
    assert "jobs" in tables(database_url)


def test_an_unknown_revision_is_told(run: Run) -> None:
    ran = run("db", "upgrade", "--to", "nowhere")

    assert ran.exit_code == 2
    assert "nowhere" in ran.stderr
    assert len(ran.stderr.splitlines()) == 2


def test_the_printed_sql_does_what_an_upgrade_does(
    run_on_nothing: Run, empty_database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("DATABASE_URL", UNREACHABLE)  # no database is asked
    up, down = run_on_nothing("db", "sql"), run_on_nothing("db", "sql", "--down")
    monkeypatch.setenv("DATABASE_URL", empty_database_url)

    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(up.stdout)
        assert run_on_nothing("db", "status").exit_code == 0

        connection.execute(down.stdout)
    assert tables(empty_database_url) <= {"alembic_version"}


def test_the_real_command_upgrades_a_real_database(command: Command, empty_database_url: str) -> None:
    ran = command("db", "upgrade", DATABASE_URL=empty_database_url)

    assert ran.returncode == 0
    assert "jobs" in tables(empty_database_url)

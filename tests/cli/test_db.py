"""retoma db: the tables up and down, and what is said when the database cannot be used."""

import json
import re
import shutil
from pathlib import Path

import psycopg
import pytest

from retoma import Settings
from retoma.app.extension import branches_of
from retoma.errors import DatabaseTooOld
from retoma.pipelines import ALL
from retoma.postgres import migrate
from retoma.postgres.database import check_version
from retoma.postgres.embedded import server
from retoma.postgres.migrate import HEAD

from .conftest import PROGRAM, Command, Run

# Its password holds a % that is no escape.
MALFORMED = "postgresql://me:hun%ter2@127.0.0.1:5432/db"
UNREACHABLE = "postgresql://me:hunter2@127.0.0.1:1/db"
WITH_TABLES = [each.name for each in ALL if each.migrations]


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


def newer(psql: psycopg.Connection, *, serves: str | None) -> str:
    """Have the tables be those of the program after this one, which say whom they serve."""
    revision = f"{int(HEAD) + 1:04d}"
    psql.execute(f"update retoma.alembic_version set version_num = '{revision}'")
    said = "null" if serves is None else f"'serves {serves}'"
    psql.execute(f"comment on table retoma.alembic_version is {said}")
    return revision


@pytest.mark.parametrize("serves", ["0001", HEAD])
def test_newer_tables_that_serve_this_program_are_used(run: Run, psql: psycopg.Connection, serves: str) -> None:
    revision = newer(psql, serves=serves)

    assert run("job", "list").exit_code == 0
    status = run("db", "status", "--json")
    assert status.exit_code == 0
    assert json.loads(status.stdout) == {
        "current": revision,
        "head": HEAD,
        "serves": serves,
        "ready": True,
        "extensions": {
            each.name: {"current": each.head, "head": each.head, "ready": True}
            for each in branches_of(ALL)
            if each is not migrate.ENGINE
        },
    }
    upgraded = run("db", "upgrade")
    assert upgraded.exit_code == 0
    assert (
        upgraded.stderr == f"The tables are at revision {revision}, newer than this version needs, and serve it too.\n"
    )
    assert f"revision {revision}, newer than this version needs ({HEAD}), and serves it" in run("doctor").stdout


@pytest.mark.parametrize("serves", [f"{int(HEAD) + 1:04d}", None], ids=["raised", "unsaid"])
@pytest.mark.parametrize("args", ["job list", "db status", "db upgrade", "worker"])
def test_newer_tables_that_do_not_serve_this_program_are_refused(
    run: Run, psql: psycopg.Connection, serves: str | None, args: str
) -> None:
    revision = newer(psql, serves=serves)

    ran = run(*args.split())

    assert ran.exit_code == 2
    found = f"The Retoma tables are at revision {revision}, and this program needs {HEAD};"
    assert ran.stderr.splitlines() == [
        f"{found} they serve programs from {revision} on.",
        f"Try: Use a newer version of Retoma, or with it 'retoma db downgrade --to {HEAD}'.",
    ]


def test_tables_of_a_newer_program_are_not_taken_down_by_an_older_one(run: Run, psql: psycopg.Connection) -> None:
    revision = newer(psql, serves="0001")

    ran = run("db", "downgrade", "--to", "base", "--yes")

    assert ran.exit_code == 2
    assert f"are at revision {revision}, and this program knows them up to {HEAD}." in ran.stderr
    assert psql.execute("select count(*) from retoma.jobs").fetchone() == (0,)


def test_an_upgrade_that_gets_no_lock_says_who_has_it_and_leaves_nothing_half_done(
    run_on_nothing: Run, empty_database_url: str
) -> None:
    run_on_nothing("db", "upgrade", "--to", "0002")
    there = tables(empty_database_url)

    with psycopg.connect(empty_database_url, application_name="nightly backup") as holder:
        holder.execute("lock table retoma.jobs in access share mode")
        ran = run_on_nothing("db", "upgrade", "--tries", "1")
        pid = holder.info.backend_pid

    assert ran.exit_code == 2
    said, next = ran.stderr.splitlines()
    assert re.fullmatch(
        r"Revision 0003 was tried once and did not happen: retoma\.jobs is held by "
        rf"pid {pid} \(nightly backup, idle in transaction for \d+ s\)\.",
        said,
    )
    assert f"pg_terminate_backend({pid})" in next
    assert tables(empty_database_url) == there
    assert json.loads(run_on_nothing("db", "status", "--json").stdout)["current"] == "0002"


def test_upgrades_at_the_same_time_tell_whom_they_wait_for_and_all_end_well(
    command: Command, empty_database_url: str
) -> None:
    with psycopg.connect(empty_database_url) as holder:
        pid = holder.info.backend_pid
        holder.execute("select pg_advisory_xact_lock(%s)", [migrate._LOCK])
        waiting = [command.start("db", "upgrade", DATABASE_URL=empty_database_url) for _ in range(2)]
        told = [each.stderr.readline() for each in waiting if each.stderr]

    assert len(told) == 2
    for said in told:
        assert said.startswith("Changing the tables waits: the right to change the tables is held by")
        assert f"pid {pid} (idle in transaction" in said
    assert [each.wait(timeout=240) for each in waiting] == [0, 0]
    assert migrate.status(empty_database_url, Settings.load()).ready


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
    beside = [("db", "sql", "--extension", each) for each in WITH_TABLES]
    theirs = [(run_on_nothing(*each), run_on_nothing(*each, "--down")) for each in beside]
    monkeypatch.setenv("DATABASE_URL", empty_database_url)

    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        connection.execute(up.stdout)
        for each_up, _ in theirs:
            connection.execute(each_up.stdout)
        assert run_on_nothing("db", "status").exit_code == 0

        for _, each_down in theirs:
            connection.execute(each_down.stdout)
        connection.execute(down.stdout)
    assert tables(empty_database_url) <= {"alembic_version"}


def test_the_printed_sql_changes_nothing_on_tables_of_another_revision(
    run_on_nothing: Run, empty_database_url: str
) -> None:
    run_on_nothing("db", "upgrade", "--to", "0002")
    there = tables(empty_database_url)
    revisions = run_on_nothing("db", "sql", "--from", "0004").stdout.split("BEGIN;")[1:]

    with psycopg.connect(empty_database_url, autocommit=True) as connection:
        for revision in revisions:  # as a program does that goes on after an error
            with pytest.raises(psycopg.errors.RaiseException, match="The tables are not at revision"):
                connection.execute(f"begin; {revision}")
            connection.execute("rollback")

    assert revisions
    assert tables(empty_database_url) == there


def test_the_real_command_upgrades_a_real_database(command: Command, empty_database_url: str) -> None:
    ran = command("db", "upgrade", DATABASE_URL=empty_database_url)

    assert ran.returncode == 0
    assert "jobs" in tables(empty_database_url)


def test_the_address_is_printed_and_leads_to_the_database(run: Run, database_url: str) -> None:
    ran = run("db", "url")

    assert ran.stdout == f"{database_url}\n"
    assert ran.stderr == ""


def test_the_address_of_the_embedded_server_is_printed_and_no_tables_are_made(command: Command) -> None:
    home = Path(command.environment["RETOMA_HOME"])
    try:
        ran = command("db", "url", DATABASE_URL="")

        assert ran.returncode == 0
        assert ran.stdout.startswith("postgresql://")
        assert "stops soon after its last user has gone" in ran.stderr
        asked = command("db", "psql", "-Atc", "select to_regnamespace('retoma') is null", DATABASE_URL="")
        assert (asked.returncode, asked.stdout) == (0, "t\n")
    finally:
        server.stop(home)


@pytest.mark.skipif(shutil.which("psql") is None, reason="psql is not installed")
def test_psql_is_opened_in_the_database_and_its_exit_code_is_ours(command: Command, database_url: str) -> None:
    asked = command("db", "psql", "-Atc", "select count(*) from retoma.jobs", DATABASE_URL=database_url)
    refused = command("db", "psql", "-c", "nonsense", DATABASE_URL=database_url)

    assert (asked.returncode, asked.stdout) == (0, "0\n")
    assert refused.returncode == 1


def test_the_password_is_not_among_the_arguments_of_psql(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "psql"
    program.write_text('#!/bin/sh\necho "$@" "$PGPASSWORD" >"$SEEN"\n')
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("SEEN", str(tmp_path / "seen"))
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:hunt%40er2@127.0.0.1:1/db?sslmode=disable")

    assert run("db", "psql", "-c", "select 1").exit_code == 0

    *arguments, password = (tmp_path / "seen").read_text().split()
    assert password == "hunt@er2"
    assert "hunt" not in " ".join(arguments)
    assert {"user=me", "host=127.0.0.1", "dbname=db", "sslmode=disable", "-c"} <= set(arguments)


def test_where_psql_is_missing_it_says_what_to_install(
    run: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    ran = run("db", "psql")

    assert ran.exit_code == 2
    assert ran.stderr.startswith("psql is not installed here.\nTry: install PostgreSQL's client")


def test_a_database_without_the_tables_of_an_installed_extension_is_in_order(
    run: Run, psql: psycopg.Connection
) -> None:
    """As that of a program that lists none: what is not there is no fault, and is not spoken of."""
    for each in branches_of(ALL)[1:]:
        psql.execute(f"drop schema {each.schema} cascade")

    status, doctor = run("db", "status", "--json"), run("doctor", "--json")

    assert (status.exit_code, json.loads(status.stdout)["extensions"]) == (0, {})
    assert doctor.exit_code == 0, doctor.output
    told = doctor.stdout + run("db", "status").stdout
    assert [each.name for each in branches_of(ALL)[1:] if each.name in told] == []

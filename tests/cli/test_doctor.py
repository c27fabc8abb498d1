"""retoma doctor: green, amber, red, and the fix."""

import dataclasses
import json
from urllib.parse import urlsplit

import psycopg
import pytest

from retoma import Settings
from retoma.app.doctor import limits as doctor_limits
from retoma.app.doctor.health import judge
from retoma.model.health import Health

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


NO_LIMITS = {
    "key_days",
    "web_allow_hosts",
    "web_waiting",
    "web_wait_seconds",
    "web_deadline_seconds",
    "web_trace_url",
    "web_read_only",
}


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


def test_the_doctor_looks_at_a_real_database(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETOMA_TOKEN")
    ran = run("doctor", "--json")

    assert ran.exit_code == 0, ran.output
    findings = {finding["what"]: finding for finding in json.loads(ran.stdout)}
    assert {"database", "schema", "version", "durability", "hints", "transactions", "rows of jobs"} <= findings.keys()
    assert {findings[what]["level"] for what in findings if what not in {"workers", "sandbox", "account"}} == {"green"}
    assert findings["account"]["level"] == "amber", "tests sign in as the superuser"
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


def test_every_limit_is_told_with_its_setting_and_what_is_off_is_said(command: Command) -> None:
    nowhere = "postgresql://me@127.0.0.1:1/db"
    ran = command("doctor", "--json", DATABASE_URL=nowhere, RETOMA_WEB_HEADERS="50", RETOMA_KEY_FILES_PER_DAY="2000")
    told = {each["seen"] for each in json.loads(ran.stdout) if each["what"].startswith(("limit", "quota"))}

    assert "50 of a request (RETOMA_WEB_HEADERS)" in told
    assert "65,536 bytes (RETOMA_WEB_HEADER_BYTES)" in told
    assert "2,000 files of a key in a day (RETOMA_KEY_FILES_PER_DAY)" in told
    assert "off: no limit on bytes of a key in a day (RETOMA_KEY_BYTES_PER_DAY)" in told
    named = " ".join(told)
    counted = [name for name in Settings.model_fields if name.startswith(("web_", "key_")) and name not in NO_LIMITS]
    assert [name for name in counted if f"RETOMA_{name.upper()})" not in named] == []


def test_a_server_that_may_open_too_few_files_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor_limits.resource, "getrlimit", lambda _: (1024, 1024))

    assert doctor_limits.too_few_files(Settings.load()) == 1024
    assert doctor_limits.too_few_files(Settings.load(web_connections=500)) is None


def account(command: Command, url: str) -> dict[str, str]:
    """What is said of the account that *url* signs in with."""
    found: list[dict[str, str]] = json.loads(command("doctor", "--json", DATABASE_URL=url).stdout)
    return next(each for each in found if each["what"] == "account")


@pytest.mark.parametrize(
    ("part", "level", "seen"),
    [
        ("admin", "amber", "is a superuser: who has its password has the whole server"),
        ("owner", "green", "owns the tables, and is no superuser"),
        ("worker", "green", "has the rights of worker"),
        ("web", "green", "has the rights of web"),
        ("reader", "green", "has the rights of reader"),
    ],
)
def test_the_account_is_told_by_what_it_may_do(
    command: Command, parts: dict[str, str], part: str, level: str, seen: str
) -> None:
    found = account(command, parts[part])

    assert (found["level"], found["seen"]) == (level, f"{urlsplit(parts[part]).username} {seen}")
    assert bool(found["next"]) == (level != "green")


@pytest.mark.parametrize(
    ("lost", "told"),
    [
        ("select on retoma.jobs", "lacks select on jobs"),
        ("update (state, was) on retoma.batches", "lacks update (state, was) on batches"),
        ("usage on sequence retoma.jobs_id_seq", "lacks usage on jobs_id_seq"),
        ("usage on schema retoma", "lacks usage on the schema"),
        (
            "select on all tables in schema retoma",
            "lacks select on alembic_version; select on alert_deliveries; select on alerts; select on api_keys; ",
        ),
    ],
)
def test_an_account_that_lacks_rights_is_red_and_told_which(
    command: Command, parts: dict[str, str], lost: str, told: str
) -> None:
    role = str(urlsplit(parts["web"]).username)
    with psycopg.connect(parts["admin"], autocommit=True) as connection:
        connection.execute(f"revoke {lost} from {role}".encode())

    ran = command("doctor", "--json", DATABASE_URL=parts["web"])

    found = next(each for each in json.loads(ran.stdout) if each["what"] == "account")
    assert (ran.returncode, found["level"]) == (1, "red")
    assert f"{role} has not the rights of web: it {told}" in found["seen"]
    assert "retoma db roles --apply" in found["next"]


@pytest.mark.parametrize(
    ("given", "told"),
    [
        ("grant update (data) on retoma.events to {}", "update (data) on events"),
        ("grant delete on retoma.events to {}", "delete on events"),
        ("alter role {} createrole", "createrole"),
    ],
)
def test_an_account_that_may_do_more_than_its_part_is_pointed_out(
    command: Command, parts: dict[str, str], given: str, told: str
) -> None:
    role = str(urlsplit(parts["web"]).username)
    with psycopg.connect(parts["admin"], autocommit=True) as connection:
        connection.execute(given.format(role).encode())

    found = account(command, parts["web"])

    assert (found["level"], found["seen"]) == ("amber", f"{role} may do more than web needs: {told}")


def test_an_account_with_rights_by_hand_is_taken_for_the_part_it_can_be(
    command: Command, parts: dict[str, str]
) -> None:
    """As where somebody grants by a script of their own."""
    with psycopg.connect(parts["admin"], autocommit=True) as connection:
        connection.execute("comment on schema retoma is null")

    assert account(command, parts["worker"])["seen"].endswith("has the rights of worker")
    assert account(command, parts["reader"])["seen"].endswith("has the rights of reader")

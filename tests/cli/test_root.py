"""The first word of a command: quick, and clear about what went wrong."""

import json
import subprocess
import sys

import click
import psycopg
import pytest
from click import Context
from click.testing import CliRunner

import retoma.cli
from retoma.cli.errors import explain, without_passwords

HEAVY = {"psycopg", "pydantic", "alembic", "sqlalchemy", "rich", "asyncio", "retoma.app.retoma"}


@pytest.mark.parametrize("asked", [["--version"], ["--help"]])
def test_version_and_help_import_nothing_heavy(asked: list[str]) -> None:
    program = (
        "import json, sys\nfrom retoma.cli import main\n"
        f"try: main({asked!r}, prog_name='retoma')\nexcept SystemExit: pass\n"
        "print(json.dumps(sorted(sys.modules)))"
    )

    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    imported = set(json.loads(ran.stdout.splitlines()[-1]))
    assert not HEAVY & imported
    allowed = {"retoma.cli.root", "retoma.cli.language"}
    assert not [name for name in imported if name.startswith("retoma.cli.") and name not in allowed]


def test_the_package_gives_a_name_when_it_is_asked_for() -> None:
    program = (
        "import sys, retoma\n"
        "assert 'psycopg' not in sys.modules\n"
        "import retoma.run.pipeline\n"
        "from retoma import Retoma, pipeline\n"
        "assert callable(pipeline) and 'psycopg' in sys.modules\n"
        "assert 'Retoma' in dir(retoma)\n"
    )

    subprocess.run([sys.executable, "-c", program], check=True)


def test_the_module_is_the_command() -> None:
    ran = subprocess.run([sys.executable, "-m", "retoma", "--version"], capture_output=True, text=True, check=True)

    assert ran.stdout.startswith("retoma ")


def invoke(*args: str) -> tuple[int, str]:
    ran = CliRunner().invoke(retoma.cli.main, args, prog_name="retoma")
    return ran.exit_code, ran.stderr


def test_a_mistyped_command_is_guessed() -> None:
    code, said = invoke("jobs")

    assert code == 2
    assert said.splitlines() == ["There is no command 'jobs'. Did you mean 'retoma job'?", "Try: retoma --help"]


@pytest.mark.parametrize("words", [(), ("up",), ("db",), ("db", "upgrade"), ("batch", "watch"), ("db", "psql")])
def test_help_has_a_short_name_everywhere(words: tuple[str, ...]) -> None:
    short, long = (
        CliRunner().invoke(retoma.cli.main, [*words, asked], prog_name="retoma") for asked in ("-h", "--help")
    )

    assert short.exit_code == 0
    assert short.stdout == long.stdout
    assert short.stdout.startswith("Usage: retoma")


@pytest.mark.parametrize("lang", ["C", "pt_BR.UTF-8"])
def test_help_says_what_each_command_does_in_a_whole_sentence(lang: str) -> None:
    cut = []
    for name in retoma.cli.main.list_commands(Context(retoma.cli.main)):
        ran = CliRunner(env={"LANG": lang, "COLUMNS": "80"}).invoke(retoma.cli.main, [name, "--help"])
        assert ran.exit_code == 0
        cut += [f"{name}: {line}" for line in ran.stdout.splitlines()[1:] if line.endswith("...")]

    assert cut == []


@pytest.mark.parametrize("words", [(), ("db",)])
def test_a_command_alone_is_its_help_and_advises_nothing_more(words: tuple[str, ...]) -> None:
    code, said = invoke(*words)

    assert code == 2
    assert said.startswith("Usage: retoma")
    assert "Try:" not in said


def test_a_wrong_option_is_told_in_two_lines() -> None:
    code, said = invoke("job", "list", "--state", "stuck")

    assert code == 2
    assert len(said.splitlines()) == 2
    assert said.splitlines()[1] == "Try: retoma job list --help"


@pytest.mark.parametrize(
    ("args", "told"),
    [
        (("prune", "--older-than", "soon"), "is not a length of time"),
        (("queue", "limit", "a", "b", "0"), "is not a limit"),
        (("job", "signal", "1", "answer", "yes"), "is not JSON"),
        (("job", "retry"), "Name jobs by their ids"),
        (("job", "retry", "1", "--all-failed"), "not both"),
        (("job", "cancel"), "Which jobs?"),
        (("bench", "no-such-figure"), "There is no figure"),
        (("bench", "noop_jobs_deep", "--waiting", "-1"), "is not in the range"),
    ],
)
def test_what_cannot_be_meant_is_refused_before_anything_is_asked(args: tuple[str, ...], told: str) -> None:
    code, said = invoke(*args)

    assert code == 2
    assert told in said


@pytest.fixture
def surprise(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise RuntimeError("the roof fell in at postgresql://me:hunter2@host/db")

    monkeypatch.setattr(retoma.cli.main, "get_command", lambda *_: click.Command("prune", callback=fail))


@pytest.mark.usefixtures("surprise")
def test_a_surprise_is_one_line_and_a_hint() -> None:
    code, said = invoke("prune")

    assert code == 1
    assert said.splitlines()[0].startswith("Something unexpected happened: RuntimeError: the roof fell in")
    assert "--debug" in said.splitlines()[1]
    assert "hunter2" not in said


@pytest.mark.usefixtures("surprise")
def test_debug_shows_where_a_surprise_came_from_and_still_no_password() -> None:
    code, said = invoke("--debug", "prune")

    assert code == 1
    assert "Traceback (most recent call last)" in said
    assert "hunter2" not in said


def test_ctrl_c_is_exit_code_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted() -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(retoma.cli.main, "get_command", lambda *_: click.Command("prune", callback=interrupted))

    assert invoke("prune")[0] == 130


def test_a_password_is_not_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DATABASE_URL", "postgresql://me:hunt%40er@host/db")

    assert without_passwords("hunt%40er, hunt@er, postgresql://a:b@c/d") == "…, …, postgresql://…@c/d"


def test_an_error_of_the_driver_counts_as_a_database_that_does_not_answer() -> None:
    message, hint, code = explain(psycopg.OperationalError("server closed the connection"), debug=False)

    assert (message, code) == ("The database refused or stopped answering: server closed the connection", 2)
    assert "retoma doctor" in hint

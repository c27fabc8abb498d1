"""``retoma chaos``: what it says after real kills, and that its count finds what should not be there."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retoma.bench.chaos.cli import chaos as command
from retoma.bench.chaos.program import BEGAN, DONE, Line
from retoma.bench.chaos.run import Report, begun_again, redone
from retoma.errors import ConfigurationError
from retoma.isolate import kernel
from retoma.store.query import load

SQL = load("retoma.bench.chaos", "log.sql")
PROGRAM = """
from retoma import Retoma, Retry, Run, pipeline

@pipeline("double", retry=Retry(attempts=1000, wait=0.05))
async def double(number: int, run: Run) -> int:
    return await run.step("double", lambda: number * 2)

app = Retoma({url}pipelines=[double])
"""


def chaos(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "retoma", "chaos", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500, check=False)


def program(folder: Path, url: str = "") -> str:
    (folder / "mine.py").write_text(PROGRAM.format(url=url))
    return "mine:app"


# — with real workers —


@pytest.mark.crash
@pytest.mark.timeout(600)
def test_its_own_jobs_are_struck_and_every_promise_is_kept(tmp_path: Path) -> None:
    ended = chaos(tmp_path, "--jobs", "100", "--faults", "6", "--seed", "7")

    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert told["kept"]
    assert (told["completed"], told["failed"], told["lost"], told["breaches"]) == (100, {}, 0, [])
    assert sum(told["faults"].values()) == 6
    assert told["attempts_lost"] > 0, "nobody held a job when it was struck"
    assert told["begun_again"] <= told["attempts_lost"]
    assert ended.stderr.count("\n") >= 6, "each fault is told"


@pytest.mark.crash
@pytest.mark.timeout(600)
def test_the_pipeline_of_a_user_is_run(tmp_path: Path) -> None:
    mine = ("--app", program(tmp_path), "--pipeline", "double", "--input", "4")
    ended = chaos(tmp_path, *mine, "--jobs", "40", "--faults", "3", "--seed", "3")

    assert ended.returncode == 0, ended.stderr
    told = json.loads(ended.stdout)
    assert (told["completed"], told["lost"], told["doubled_checkpoints"]) == (40, 0, 0)
    assert told["redone"] is None, "nothing is known of what it does"


# — what it refuses —


def test_a_program_that_names_its_database_is_not_run(tmp_path: Path) -> None:
    named = program(tmp_path, url='"postgresql://ana@127.0.0.1:9/hers", ')
    ended = chaos(tmp_path, "--app", named, "--pipeline", "double", "--input", "4")

    assert ended.returncode == 2
    assert "mine:app names its database itself" in ended.stderr
    assert "DATABASE_URL" in ended.stderr


def test_where_processes_cannot_be_found_nothing_is_struck_and_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel, "LINUX", False)

    with pytest.raises(ConfigurationError, match="needs Linux"):
        command.main([], standalone_mode=False)


@pytest.mark.parametrize("words", [("--app", "mine:app"), ("--pipeline", "double"), ("--input", "4")])
def test_a_part_of_what_names_ones_own_jobs_is_not_enough(tmp_path: Path, words: tuple[str, ...]) -> None:
    ended = chaos(tmp_path, *words)

    assert ended.returncode == 2
    assert "give all three: --app, --pipeline and --input" in ended.stderr


def test_an_input_that_the_pipeline_does_not_take_is_refused_before_anything_is_started(tmp_path: Path) -> None:
    ended = chaos(tmp_path, "--app", program(tmp_path), "--pipeline", "double", "--input", '"four"')

    assert ended.returncode == 2
    assert "not an input of 'double'" in ended.stderr


# — its count —


def a_report(**changed: Any) -> Report:
    figures: dict[str, Any] = dict.fromkeys(Report.__dataclass_fields__, 0)
    return Report(**{**figures, "breaches": [], "faults": {}, "failed": {}, "given_back_seconds": None, **changed})


def test_attempts_that_were_lost_break_no_promise() -> None:
    assert a_report(attempts_lost=9, begun_again=9, given_up=2, redone=None).kept


@pytest.mark.parametrize(
    "changed",
    [
        {"lost": 1},
        {"without_effect": 1},
        {"doubled_effects": 1},
        {"doubled_checkpoints": 1},
        {"stale_writes": 1},
        {"after_the_end": 1},
        {"redone": 1},
        {"breaches": ["job 1"]},
        {"failed": {"timeout": 1}},
    ],
    ids=lambda changed: next(iter(changed)),
)
def test_one_thing_that_must_not_be_breaks_it(changed: dict[str, Any]) -> None:
    assert not a_report(**changed).kept


def test_a_step_is_done_again_only_where_its_handler_knew_that_it_was_saved() -> None:
    cut_off = [Line(1, BEGAN, "a"), Line(1, BEGAN, "a"), Line(1, DONE, "a")]

    assert (redone(cut_off), begun_again(cut_off)) == (0, 1)
    assert redone([*cut_off, Line(1, BEGAN, "a")]) == 1
    assert redone([*cut_off, Line(2, BEGAN, "a"), Line(1, BEGAN, "b")]) == 0


def test_what_is_planted_in_the_logs_is_found(psql: psycopg.Connection) -> None:
    psql.execute(SQL["tables"])
    assert [found(psql, name) for name in SOUGHT] == [0, 0, 0, 0]

    psql.execute("insert into chaos.effects values (1, 1), (1, 2), (2, 1)")
    psql.execute("insert into chaos.saves values (1, 'a', 1, 1), (1, 'a', 2, 2), (2, 'a', 1, 1), (2, 'b', 1, 2)")
    psql.execute(
        "insert into chaos.changes (job, before, state, fence) values"
        " (1, 'queued', 'running', 2), (1, 'running', 'queued', 1),"  # a fence that falls
        " (2, 'running', 'completed', 1), (2, 'completed', 'queued', 1)"  # and one that goes on after its end
    )

    assert [found(psql, name) for name in SOUGHT] == [1, 1, 1, 2]


SOUGHT = ("doubled_effects", "doubled_saves", "stale_writes", "after_the_end")


def found(psql: psycopg.Connection, name: str) -> int:
    row = psql.execute(SQL[name], {"ids": [1, 2]}).fetchone()
    assert row is not None
    return int(row[0])

"""Names, keys and errors are chosen by others: a terminal shows them and obeys none, a spreadsheet computes none."""

from __future__ import annotations

import ast
import asyncio
import csv
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

import retoma.cli
from retoma import Retoma
from retoma.cli import output

from .conftest import Run

EVIL = "\x1b]0;title\x07\x1b[2J\x9b31m\x1b]8;;http://evil\x1b\\link\r\u202eevil\u2066\x7f\x85"
STEERING = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
STYLES = re.compile(r"\x1b\[[0-9;]*m")
"""Our own colours."""

COMMANDS = [
    ("batch", "list"),
    ("batch", "show", "1"),
    ("batch", "explain", "1"),
    ("batch", "errors", "1"),
    ("batch", "events", "1"),
    ("batch", "plan", "1"),
    ("batch", "export", "1"),
    ("job", "list"),
    ("job", "show", "1"),
    ("job", "export"),
    ("queue", "list"),
    ("workers",),
]


@pytest.fixture
def evil(program: Retoma, work: Callable[[], int]) -> None:
    """A batch and a job whose names, keys and errors steer a terminal."""

    async def made() -> None:
        async with program as app:
            stumble = app.registry.pipeline("stumble")
            await app.batch(stumble, [EVIL, "b"], name=EVIL, key=lambda each: f"key {each}")

    asyncio.run(made())
    work()


@pytest.mark.usefixtures("evil")
@pytest.mark.parametrize(
    ("way", "command"),
    [
        *(("terminal", command) for command in COMMANDS),
        *(("pipe", command) for command in COMMANDS),
        *(("json", command) for command in COMMANDS if "export" not in command),
    ],
    ids=lambda given: given if isinstance(given, str) else " ".join(given),
)
def test_no_command_sends_what_steers_a_terminal(
    run: Run, way: str, command: tuple[str, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    if way == "terminal":
        monkeypatch.setattr(output, "in_terminal", lambda: True)
        monkeypatch.setenv("COLUMNS", "400")
    said = run(*command, *(["--json"] if way == "json" else []))

    assert said.exit_code == 0, said.output
    assert STEERING.findall(STYLES.sub("", said.output)) == []
    if way == "json":
        json.loads(said.stdout)


@pytest.mark.usefixtures("evil")
def test_it_is_shown_instead(run: Run) -> None:
    listed, shown = run("batch", "list").stdout, run("batch", "show", "1", "--json").stdout

    assert r"\x1b]0;title\x07\x1b[2J\x9b31m" in listed
    assert json.loads(shown)["name"] == EVIL


def test_an_error_steers_no_terminal(run: Run) -> None:
    said = run("job", "show", EVIL)

    assert said.exit_code != 0
    assert STEERING.findall(said.output) == []


def test_a_command_has_one_way_out() -> None:
    folder = Path(retoma.cli.__file__).parent
    others = [
        f"{file.name}:{node.lineno}"
        for file in sorted(folder.glob("*.py"))
        if file.name != "output.py"
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.Call) and ast.unparse(node.func) in ("click.echo", "click.secho", "print")
    ]

    assert others == []


KEYS = ["=cmd|'/C calc'!A0", "+HYPERLINK(1)", "-2", "@SUM(1)", "\t=x", " =1", "＝1+1", "ata.txt"]


def test_no_cell_of_an_export_begins_a_formula(run: Run, program: Retoma, tmp_path: Path) -> None:
    async def made() -> None:
        async with program as app:
            await app.enqueue_many(app.registry.pipeline("double"), range(len(KEYS)), key=lambda place: KEYS[place])

    asyncio.run(made())
    said = run("job", "export", "-o", str(tmp_path / "jobs.csv"))

    assert said.exit_code == 0, said.output
    with (tmp_path / "jobs.csv").open(newline="") as file:
        keys = {row["key"] for row in csv.DictReader(file)}
    assert keys == {*(f"'{key}" for key in KEYS[:-1]), "ata.txt"}

"""The types of the front door: what they must let pass, and what they must not."""

import json
import re
import subprocess
import sys
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
ACCEPTED = Path(__file__).with_name("accepted.py")
REFUSED = Path(__file__).with_name("refused.py")


Complaints = dict[str, dict[int, str]]


@cache
def mypy() -> Complaints:
    """What mypy says of each file, by line; both at once, because the start is what takes time."""
    said = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", ACCEPTED, REFUSED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found: Complaints = {ACCEPTED.name: {}, REFUSED.name: {}}
    for line in said.stdout.splitlines():
        if match := re.match(r"(.*?):(\d+): error: (.*)", line):
            found.setdefault(Path(match[1]).name, {})[int(match[2])] = match[3]
    assert not said.stderr, said.stderr
    return found


@cache
def pyright() -> Complaints:
    """The same of pyright, which many editors use. The package basedpyright brings the Node.js that it runs on."""
    said = subprocess.run(
        [sys.executable, "-m", "basedpyright", "--outputjson", "--pythonpath", sys.executable, ACCEPTED, REFUSED],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    found: Complaints = {ACCEPTED.name: {}, REFUSED.name: {}}
    for each in json.loads(said.stdout)["generalDiagnostics"]:
        if each["severity"] == "error":
            found[Path(each["file"]).name][each["range"]["start"]["line"] + 1] = each["message"]
    return found


CHECKERS = pytest.mark.parametrize("complaints", [mypy, pyright], ids=lambda checker: checker.__name__)


@CHECKERS
def test_what_is_right_is_accepted(complaints: Callable[[], Complaints]) -> None:
    assert complaints()[ACCEPTED.name] == {}


@CHECKERS
def test_what_is_wrong_is_refused_and_nothing_else(complaints: Callable[[], Complaints]) -> None:
    marked = {
        number
        for number, line in enumerate(REFUSED.read_text(encoding="utf-8").splitlines(), start=1)
        if line.endswith("# refused")
    }
    refused = complaints()[REFUSED.name]

    assert sorted(marked - refused.keys()) == [], "these lines are accepted"
    assert {number: refused[number] for number in refused.keys() - marked} == {}

"""The types of the front door: what they must let pass, and what they must not."""

import re
import subprocess
import sys
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
ACCEPTED = Path(__file__).with_name("accepted.py")
REFUSED = Path(__file__).with_name("refused.py")


@cache
def complaints() -> dict[str, dict[int, str]]:
    """What mypy says of each file, by line; both at once, because the start is what takes time."""
    said = subprocess.run(
        [sys.executable, "-m", "mypy", "--no-error-summary", "--hide-error-context", ACCEPTED, REFUSED],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    found: dict[str, dict[int, str]] = {ACCEPTED.name: {}, REFUSED.name: {}}
    for line in said.stdout.splitlines():
        if match := re.match(r"(.*?):(\d+): error: (.*)", line):
            found.setdefault(Path(match[1]).name, {})[int(match[2])] = match[3]
    assert not said.stderr, said.stderr
    return found


def test_what_is_right_is_accepted() -> None:
    assert complaints()[ACCEPTED.name] == {}


def test_what_is_wrong_is_refused_and_nothing_else() -> None:
    marked = {
        number
        for number, line in enumerate(REFUSED.read_text(encoding="utf-8").splitlines(), start=1)
        if line.endswith("# refused")
    }
    refused = complaints()[REFUSED.name]

    assert sorted(marked - refused.keys()) == [], "these lines are accepted"
    assert {number: refused[number] for number in refused.keys() - marked} == {}

"""The tables of attacks and of bad input: each row names the tests that show it, and they are there."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from .test_ledger import TEST, exists

PAGE = Path(__file__).parents[2] / "docs/operate/security.md"


def table(heading: str) -> list[tuple[str, str, str]]:
    """The rows of the table under *heading*."""
    _, _, after = PAGE.read_text(encoding="utf-8").partition(f"## {heading}\n")
    section = after.partition("\n## ")[0]
    rows = re.findall(r"^\| (.+?) \| (.+?) \| (.+) \|$", section, re.MULTILINE)
    return [(what, meets, shown) for what, meets, shown in rows if shown not in ("shown by", "---")]


@pytest.mark.parametrize(
    ("heading", "least"), [("Attacks, and what stops each", 37), ("Bad input, and what it meets", 26)]
)
def test_each_row_names_tests_that_are_there(heading: str, least: int) -> None:
    rows = table(heading)
    named = {what: TEST.findall(shown) for what, _, shown in rows}

    assert len(rows) >= least
    assert [what for what, tests in named.items() if not tests] == []
    assert [each for tests in named.values() for each in tests if not exists(each)] == []

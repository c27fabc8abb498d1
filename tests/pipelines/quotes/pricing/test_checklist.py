"""The check-list names tests that exist, and articles that somebody has looked up."""

from __future__ import annotations

import re
from pathlib import Path

PAGE = Path(__file__).parents[4] / "docs/guides/quotes-checklist.md"
ROWS = re.findall(r"^\| (\d+) \| (.+?) \| (.+?) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
TESTS = {
    name
    for file in Path(__file__).parents[1].rglob("test_*.py")
    for name in re.findall(r"^ *(?:async )?def (test_\w+)", file.read_text(encoding="utf-8"), re.MULTILINE)
}


def test_every_row_is_numbered_and_has_a_test_or_a_reason() -> None:
    assert [int(number) for number, _, _ in ROWS] == list(range(1, len(ROWS) + 1))
    shown = [row for row in ROWS if not row[2].startswith("*not here*: ")]
    assert len(shown) >= 60
    named = {number: re.findall(r"`(\w+)`", tests) for number, _, tests in shown}
    assert [number for number, tests in named.items() if not tests or not TESTS.issuperset(tests)] == []


def test_no_article_is_named_that_was_not_looked_up() -> None:
    text = PAGE.read_text(encoding="utf-8")

    assert set(re.findall(r"art\. (\d+)", text)) == {"3", "5", "6"}

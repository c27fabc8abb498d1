"""The tests share one server, each with a database of its own: none may see, or end, what another one does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

TESTS = Path(__file__).parents[1]
SERVER_WIDE = re.compile(r"\bfrom (pg_locks|pg_stat_activity)\b")
OWN = re.compile(r"\b(datname = |database = |pid = )")
NEAR = 300


def looks() -> list[tuple[str, str]]:
    """Every look at what goes on in the whole server, and the words around it."""
    found = []
    for file in sorted(TESTS.rglob("*.py")):
        text = file.read_text(encoding="utf-8")
        for match in SERVER_WIDE.finditer(text):
            line = text.count("\n", 0, match.start()) + 1
            around = text[max(0, match.start() - NEAR) : match.end() + NEAR]
            found.append((f"{file.relative_to(TESTS)}:{line}", around))
    return found


@pytest.mark.parametrize(("place", "around"), [pytest.param(*each, id=each[0]) for each in looks()])
def test_a_look_at_the_whole_server_names_its_own_database_or_session(place: str, around: str) -> None:
    assert OWN.search(around), f"{place} also sees what the test beside it does"

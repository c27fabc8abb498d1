"""retoma review: what it prints, and what it changes."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from retoma.app.loader import find_app
from retoma.testing import drain

from .conftest import Run

PROGRAM = f"{Path(__file__).parent / 'review_program.py'}:app"


@pytest.fixture
def guesses(run: Run, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Two jobs wait for a person; the second is the more doubtful one."""
    monkeypatch.setenv("RETOMA_APP", PROGRAM)
    monkeypatch.delitem(sys.modules, "review_program", raising=False)
    for number in ("2", "1"):
        run("enqueue", "guess", number)
    asyncio.run(drain(find_app(PROGRAM)))
    return run


def test_what_waits_is_listed_with_the_lowest_margin_first(guesses: Run) -> None:
    listed = json.loads(guesses("review", "list", "--json").stdout)

    assert [(each["job_id"], each["proposal"], each["label"]) for each in listed] == [
        (2, 2, "double"),
        (1, 4, "double"),
    ]
    assert "it is a guess" in guesses("review", "list").stdout


def test_a_decision_becomes_the_output_and_can_be_taken_back(guesses: Run) -> None:
    accepted, corrected = guesses("review", "accept", "2"), guesses("review", "correct", "1", "5", "--note", "counted")
    refused = guesses("review", "reject", "1")
    undone = guesses("review", "undo")
    rejected = guesses("review", "reject", "1", "--retry")

    assert [each.exit_code for each in (accepted, corrected, refused, undone, rejected)] == [0, 0, 4, 0, 0]
    assert "chose correct at" in refused.stderr
    lines = [json.loads(line) for line in guesses("review", "export").stdout.splitlines()]
    assert [(line["review_id"], line["kind"], line["decided"]) for line in lines] == [
        (2, "accept", 2),
        (1, "correct", 5),
        (1, "undo", None),
        (1, "retry", None),
    ]
    assert json.loads(guesses("job", "show", "2", "--json").stdout)["output"] == 2


def test_a_value_that_does_not_fit_is_told_and_changes_nothing(guesses: Run) -> None:
    unread, unfit = guesses("review", "correct", "1", "{"), guesses("review", "correct", "1", '"many"')

    assert (unread.exit_code, unfit.exit_code) == (2, 2)
    assert "VALUE is not JSON" in unread.stderr
    assert "not an output of 'guess'" in unfit.stderr
    assert guesses("review", "export").stdout == ""

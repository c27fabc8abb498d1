"""What is printed, for people and for programs."""

import json
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from retoma.cli import output
from retoma.model.job import JobState
from retoma.model.queue import Queue

PAUSED = Queue("double", 2, 1, 0, 3.25, datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), "a\tlong\nstory")
COLUMNS: output.Columns[Queue] = {
    "name": lambda queue: queue.name,
    "seconds": lambda queue: queue.oldest_due_seconds,
    "paused": lambda queue: queue.paused_at,
    "why": lambda queue: queue.paused_reason,
    "empty": lambda _queue: None,
}


def test_a_cell_never_breaks_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    output.table([PAUSED], COLUMNS, nothing="none")

    assert capsys.readouterr().out == "double\t3.25\t2030-01-02T03:04:05+00:00\ta long story\t\n"


def test_nothing_is_nothing_to_a_pipe_and_a_word_to_a_person(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    output.table([], COLUMNS, nothing="none")
    piped = capsys.readouterr()
    monkeypatch.setattr(output, "in_terminal", lambda: True)
    output.table([], COLUMNS, nothing="none")
    seen = capsys.readouterr()

    assert (piped.out, piped.err) == ("", "")
    assert (seen.out, seen.err) == ("", "none\n")


@pytest.mark.parametrize(("width", "headings"), [(80, ["name", "seconds", "paused", "why"]), (22, ["name", "seconds"])])
def test_a_narrow_terminal_loses_the_last_columns_and_an_empty_one_is_not_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, headings: list[str]
) -> None:
    monkeypatch.setattr(output, "in_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))

    output.table([PAUSED], COLUMNS, nothing="none")

    assert capsys.readouterr().out.splitlines()[0].split() == headings


@pytest.mark.parametrize("width", [40, 80, 100])
def test_what_stands_below_a_row_is_shown_whole_however_narrow_the_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    monkeypatch.setattr(output, "in_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))
    story = " ".join(f"word{number}" for number in range(60)) + " " + "x" * 150
    rows = [replace(PAUSED, paused_reason=story), replace(PAUSED, name="triple", paused_reason=None)]

    output.table(rows, COLUMNS, nothing="none", below="why")

    lines = capsys.readouterr().out.splitlines()
    assert max(len(line.rstrip()) for line in lines) <= width
    assert lines[0].split()[:2] == ["name", "seconds"]
    assert "why" not in lines[0]
    assert "".join("".join(lines[2:-1]).split()) == "".join(story.split())
    assert lines[-1].startswith("triple")


def test_json_opens_stored_values_and_writes_times_in_iso(capsys: pytest.CaptureFixture[str]) -> None:
    output.print_json([PAUSED, JobState.FAILED])

    queue, state = json.loads(capsys.readouterr().out)
    assert (queue["paused_at"], state) == ("2030-01-02T03:04:05+00:00", "failed")

"""What is printed, for people and for programs."""

import json
from datetime import UTC, datetime

import pytest

from retoma.cli import show
from retoma.model import JobState, Queue

PAUSED = Queue("double", 2, 1, 0, 3.25, datetime(2030, 1, 2, 3, 4, 5, tzinfo=UTC), "a\tlong\nstory")
COLUMNS: show.Columns[Queue] = {
    "name": lambda queue: queue.name,
    "seconds": lambda queue: queue.oldest_due_seconds,
    "paused": lambda queue: queue.paused_at,
    "why": lambda queue: queue.paused_reason,
    "empty": lambda _queue: None,
}


def test_a_cell_never_breaks_its_line(capsys: pytest.CaptureFixture[str]) -> None:
    show.table([PAUSED], COLUMNS, nothing="none")

    assert capsys.readouterr().out == "double\t3.25\t2030-01-02T03:04:05+00:00\ta long story\t\n"


def test_nothing_is_nothing_to_a_pipe_and_a_word_to_a_person(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    show.table([], COLUMNS, nothing="none")
    piped = capsys.readouterr()
    monkeypatch.setattr(show, "in_terminal", lambda: True)
    show.table([], COLUMNS, nothing="none")
    seen = capsys.readouterr()

    assert (piped.out, piped.err) == ("", "")
    assert (seen.out, seen.err) == ("", "none\n")


@pytest.mark.parametrize(("width", "headings"), [(80, ["name", "seconds", "paused", "why"]), (22, ["name", "seconds"])])
def test_a_narrow_terminal_loses_the_last_columns_and_an_empty_one_is_not_drawn(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, width: int, headings: list[str]
) -> None:
    monkeypatch.setattr(show, "in_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", str(width))

    show.table([PAUSED], COLUMNS, nothing="none")

    assert capsys.readouterr().out.splitlines()[0].split() == headings


def test_json_opens_stored_values_and_writes_times_in_iso(capsys: pytest.CaptureFixture[str]) -> None:
    show.print_json([PAUSED, JobState.FAILED])

    queue, state = json.loads(capsys.readouterr().out)
    assert (queue["paused_at"], state) == ("2030-01-02T03:04:05+00:00", "failed")

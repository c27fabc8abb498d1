"""The board between a supervisor and its executor: what one side notes, the other reads, even after a death."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator

import pytest

from retoma.system.marks import LOOP
from retoma.worker.status_board import Note, StatusBoard, Totals


@pytest.fixture
def board() -> Iterator[StatusBoard]:
    board = StatusBoard.new(3)
    yield board
    board.close()


def test_a_new_board_is_empty(board: StatusBoard) -> None:
    assert board.notes() == []
    assert board.totals() == Totals()
    assert board.beat == 0


def test_a_note_says_which_job_and_which_step_until_when(board: StatusBoard) -> None:
    board.begin(1, job=7, fence=2, began=10.0, deadline=70.0)
    assert board.notes() == [Note(7, 2, 10.0, 70.0, None)]

    board.step(1, "chapter/3", 40.0)
    assert board.notes() == [Note(7, 2, 10.0, 40.0, "chapter/3")]

    board.clear(1)
    assert board.notes() == []


def test_each_place_has_its_own_note(board: StatusBoard) -> None:
    for place in range(3):
        board.begin(place, job=place + 1, fence=1, began=0.0, deadline=9.0)
        board.step(place, f"step/{place}", 5.0)
    board.clear(1)

    assert [(note.job, note.step) for note in board.notes()] == [(1, "step/0"), (3, "step/2")]


def test_a_new_job_does_not_inherit_the_step_of_the_last(board: StatusBoard) -> None:
    board.begin(0, job=1, fence=1, began=0.0, deadline=9.0)
    board.step(0, "a long name of a step", 5.0)
    board.begin(0, job=2, fence=1, began=1.0, deadline=10.0)

    assert board.notes() == [Note(2, 1, 1.0, 10.0, None)]


def test_a_shorter_name_leaves_nothing_of_the_longer_one(board: StatusBoard) -> None:
    board.begin(0, job=1, fence=1, began=0.0, deadline=9.0)
    board.step(0, "summarize/chapter/12", 5.0)
    board.step(0, "end", 5.0)

    assert board.notes()[0].step == "end"


@pytest.mark.parametrize("name", ["x" * 300, "ação/" * 40, "日本" * 60])
def test_a_name_that_is_too_long_is_cut_and_never_spills_over(board: StatusBoard, name: str) -> None:
    board.begin(0, job=1, fence=1, began=0.0, deadline=9.0)
    board.begin(1, job=2, fence=1, began=0.0, deadline=9.0)
    board.step(0, name, 5.0)

    first, second = board.notes()
    assert first.step is not None
    assert name.startswith(first.step.rstrip("\ufffd"))
    assert len(first.step) >= 20
    assert second == Note(2, 1, 0.0, 9.0, None)


def test_figures_and_heartbeat_do_not_touch_each_other(board: StatusBoard) -> None:
    totals = Totals(ready=True, claimed=10, completed=7, failed=2, retried=1, draining=True, busy=1.5)
    board.beat = 123.5
    board.tell(totals)
    assert board.beat == 123.5

    board.beat = 124.5
    assert board.totals() == totals


def test_large_numbers_fit(board: StatusBoard) -> None:
    board.begin(0, job=2**62, fence=2**40, began=1e9, deadline=1e9 + 1)
    board.tell(Totals(claimed=2**50, busy=1e12))

    assert board.notes()[0].job == 2**62
    assert board.totals().claimed == 2**50


def test_what_a_process_noted_before_it_died_can_be_read(board: StatusBoard) -> None:
    program = (
        "import os, sys; from retoma.worker.status_board import StatusBoard, Totals;"
        "board = StatusBoard(int(sys.argv[1]), 3);"
        "board.begin(2, 42, 5, 1.0, 2.0); board.step(2, 'read', 1.5); board.tell(Totals(ready=True, claimed=3));"
        "print(board.beat); sys.stdout.flush(); os.kill(os.getpid(), 9)"
    )
    board.beat = 77.0
    died = subprocess.run(
        [sys.executable, "-c", program, str(board.file)], pass_fds=[board.file], stdout=subprocess.PIPE, check=False
    )

    assert died.returncode == -signal.SIGKILL
    assert died.stdout.strip() == b"77.0"
    assert board.notes() == [Note(42, 5, 1.0, 1.5, "read")]
    assert board.totals() == Totals(ready=True, claimed=3)


def test_a_board_has_no_name_that_others_could_open(board: StatusBoard) -> None:
    assert os.fstat(board.file).st_nlink == 0


def test_a_note_says_whether_the_code_of_its_job_is_on_the_processor(board: StatusBoard) -> None:
    for place in range(3):
        board.begin(place, job=place + 7, fence=1, began=0.0, deadline=9.0)
    board.marks[LOOP] = 2  # the place of job 8, counted from one
    board.marks[5] = 3  # and a thread of job 9

    assert [(note.job, note.running) for note in board.notes()] == [(7, False), (8, True), (9, True)]

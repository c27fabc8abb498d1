"""Executors that are copies of a process that has loaded the program: whose children they are, and when none is."""

from __future__ import annotations

import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import psutil
import pytest

from retoma import Settings
from retoma.isolate import kernel
from retoma.worker.executor_main import CANNOT_START
from retoma.worker.status_board import StatusBoard, Totals
from retoma.worker.template import Begun, Template

pytestmark = pytest.mark.skipif(not kernel.LINUX, reason="only Linux copies executors")

PROGRAM = """
import threading, time
from retoma import Retoma, Run, pipeline

@pipeline("nothing")
async def nothing(_: int, run: Run) -> None: ...

app = Retoma(pipelines=[nothing])
"""
THREAD = "threading.Thread(target=time.sleep, args=(60,), daemon=True).start()\n"
FILE = "kept = open(__file__)\n"
LOG = "log = open(__file__ + '.log', 'a')\n"

Make = Callable[..., Awaitable[Template]]


@pytest.fixture
async def template(tmp_path: Path) -> AsyncIterator[Make]:
    """A template that has been prepared, of a program with one more line."""
    made: list[Template] = []
    loaded = StatusBoard.new(1)
    loaded.tell(Totals(ready=True))

    async def make(line: str = "", **given: str) -> Template:
        file = tmp_path / "small_program.py"
        file.write_text(PROGRAM + line)
        made.append(Template(f"{file}:app", Settings.load(**given)))
        made[-1].learn(loaded)
        await made[-1].prepare()
        return made[-1]

    yield make
    for each in made:
        each.close()


@pytest.fixture
def board() -> StatusBoard:
    return StatusBoard.new(1)


def end_of(begun: Begun) -> int:
    """How it ends when its orders never come; only its parent is told."""
    os.close(begun.control)
    return os.waitstatus_to_exitcode(os.waitpid(begun.pid, 0)[1])


async def test_a_copy_is_a_child_of_its_supervisor_whatever_becomes_of_the_template(
    template: Make, board: StatusBoard
) -> None:
    made = await template(LOG)
    begun = await made.copy([board.file])
    assert begun is not None
    copy = psutil.Process(begun.pid)
    listed, parent = " ".join(copy.cmdline()), copy.ppid()
    made.close()

    assert copy.is_running()
    assert parent == os.getpid()
    assert "retoma.worker.executor_main" in listed, "whoever looks for executors finds it"
    assert end_of(begun) == CANNOT_START


async def test_a_template_that_was_killed_is_loaded_again(template: Make, board: StatusBoard) -> None:
    made = await template()
    (loaded,) = (each for each in psutil.Process().children() if "template_main" in " ".join(each.cmdline()))
    loaded.send_signal(signal.SIGKILL)
    psutil.wait_procs([loaded], timeout=0)

    assert await made.copy([board.file]) is None, "an executor loads the program itself"
    await made.prepare()
    begun = await made.copy([board.file])

    assert begun is not None
    assert end_of(begun) == CANNOT_START


@pytest.mark.parametrize("line", [THREAD, FILE], ids=["a thread", "an open file"])
async def test_a_program_that_copies_would_share_something_with_is_loaded_by_each_executor(
    template: Make, board: StatusBoard, line: str
) -> None:
    assert await (await template(line)).copy([board.file]) is None


async def test_who_wants_no_copies_has_none(template: Make, board: StatusBoard) -> None:
    assert await (await template(worker_template="off")).copy([board.file]) is None

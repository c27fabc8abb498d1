"""retoma demo: the whole of it, and its oracle, which must be able to say no."""

import dataclasses
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import psutil
import pytest

from retoma.demo import oracle, texts
from retoma.demo.diary import Line
from retoma.demo.keywords import keywords_of, language_of
from retoma.model import Checkpoint

NOW = datetime(2030, 1, 1, tzinfo=UTC)


def saved(job: int, step: str, fence: int) -> Checkpoint:
    return Checkpoint(job, step, 1, "1", "", "", None, fence, 0.5, NOW, None, None)


def test_a_finished_step_that_runs_again_is_seen() -> None:
    checkpoints = {(1, "read"): saved(1, "read", fence=1)}

    assert oracle.run_again([Line(1, 1, "read")], checkpoints) == 0
    assert oracle.run_again([Line(1, 1, "read"), Line(1, 2, "read")], checkpoints) == 1
    assert oracle.run_again([Line(1, 1, "read"), Line(1, 1, "read")], checkpoints) == 1


def test_a_step_that_was_cut_off_may_run_again() -> None:
    assert oracle.run_again([Line(1, 1, "read"), Line(1, 2, "read")], {(1, "read"): saved(1, "read", fence=2)}) == 0


def test_a_lost_document_and_a_second_row_break_the_promise() -> None:
    later = NOW + timedelta(seconds=1)
    whole = oracle.weigh([], [], [], [], executor_killed=NOW, worker_killed=later)
    rows = [("0001.txt", ["a"]), ("0001.txt", ["a"])]
    broken = oracle.weigh(["0001.txt", "0002.txt"], [], [], rows, executor_killed=NOW, worker_killed=later)

    assert whole.kept
    assert (broken.missing, broken.rows_twice, broken.kept) == (1, 1, False)
    assert not dataclasses.replace(whole, run_again=1).kept


def test_the_same_number_gives_the_same_text() -> None:
    assert texts.invent(7) == texts.invent(7)
    assert texts.invent(7) != texts.invent(9)
    assert (language_of(texts.invent(7)), language_of(texts.invent(8))) == ("en", "pt")


def test_the_keywords_are_what_the_text_is_about() -> None:
    for number in range(1, 21):
        text = texts.invent(number)
        subject = text.split()[0].lower()

        assert subject in keywords_of.function(text, language_of(text))


def environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(folder), "DATABASE_URL": "postgresql://nobody@127.0.0.1:1/nowhere"}


def left_behind(folder: Path) -> list[str]:
    """Processes that have to do with *folder*, once those that are just ending have had a moment."""
    deadline = time.monotonic() + 5
    while (found := running(folder)) and time.monotonic() < deadline:
        time.sleep(0.05)
    return found


def running(folder: Path) -> list[str]:
    found = []
    for process in psutil.process_iter():
        try:
            line = [*process.cmdline(), process.environ().get("RETOMA_HOME", "")]
        except psutil.Error:
            continue
        if any(str(folder) in word for word in line) and process.pid != os.getpid():
            found.append(" ".join(line))
    return found


@pytest.fixture
def folder() -> Iterator[Path]:
    """A place for temporary folders that the server's account can pass through; pytest's own is closed to it."""
    place = Path(tempfile.mkdtemp(prefix="retoma-demo-test-"))
    place.chmod(0o755)
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.mark.crash
@pytest.mark.timeout(180)
def test_the_demo_keeps_the_promise_and_leaves_nothing_behind(folder: Path) -> None:
    began = time.monotonic()
    ran = subprocess.run(
        [sys.executable, "-m", "retoma", "demo", "--documents", "150"],
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=150,
        check=False,
    )

    assert ran.returncode == 0, ran.stdout + ran.stderr
    told = dict(line.split("\t") for line in ran.stdout.splitlines())
    assert told["documents done"] == "150 of 150"
    assert told["rows written, one per document"] == "150 (0 twice, 0 missing)"
    assert told["steps done"] == "750"
    assert told["finished steps that ran again"] == "0"
    assert int(told["steps given back from checkpoints"]) > 0
    recovered = [int(number) for number in re.findall(r"\d+", told["jobs recovered"])]
    assert all(recovered), told["jobs recovered"]
    assert re.search(r"kill -9 \d+: one executor", ran.stderr)
    assert re.search(r"kill -9 \d+: the whole worker", ran.stderr)
    assert "\x1b" not in ran.stdout + ran.stderr
    assert left_behind(folder) == []
    assert list(folder.iterdir()) == []
    assert time.monotonic() - began < 120


@pytest.mark.crash
@pytest.mark.timeout(120)
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 129)])
def test_the_demo_that_is_interrupted_ends_everything_it_started(
    folder: Path, number: signal.Signals, code: int
) -> None:
    demo = subprocess.Popen(
        [sys.executable, "-m", "retoma", "demo"],
        env=environment(folder),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert demo.stderr
    for line in demo.stderr:
        if "First worker" in line:
            break
    demo.send_signal(number)
    demo.communicate(timeout=60)

    assert demo.returncode == code
    assert left_behind(folder) == []
    assert list(folder.iterdir()) == []

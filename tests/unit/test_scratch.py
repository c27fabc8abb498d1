"""Files that another process finds by their name, and that are gone when their process is, however it ended."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

CORPUS = Path(__file__).parents[1] / "corpus"
HOLD = """
import sys
from retoma.system.tempfiles import named
with named(suffix=".pdf") as file:
    file.write(b"what somebody sent")
    file.flush()
    print(file.name, flush=True)
    sys.stdin.read()
"""
READ = """
import asyncio, sys
from pathlib import Path
from retoma.providers.local import LocalExtractor
reader = LocalExtractor(readers={"txt": ["rude_readers:hangs_on_page_5"]} if sys.argv[1] == "hang" else None)
print("reading", flush=True)
asyncio.run(reader.extract(Path(sys.argv[2]), kind="txt", timeout=60))
"""

Begin = Callable[..., subprocess.Popen[str]]


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """Where temporary files go."""
    place = tmp_path / "temporary"
    place.mkdir()
    return place


@pytest.fixture
def begin(place: Path) -> Iterator[Begin]:
    """Starts a program with a temporary folder of its own; the pid is known to be its own until it was waited for."""
    begun: list[subprocess.Popen[str]] = []

    def begin(program: str, *words: str) -> subprocess.Popen[str]:
        environment = os.environ | {"TMPDIR": str(place), "PYTHONPATH": str(CORPUS)}
        command = [sys.executable, "-c", textwrap.dedent(program), *words]
        process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        begun.append(process)
        return process

    yield begin
    for process in begun:
        process.kill()
        process.communicate()


def said(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    return process.stdout.readline().strip()


def test_it_is_found_by_its_name_and_nothing_stays(place: Path, begin: Begin) -> None:
    holder = begin(HOLD)
    file = Path(said(holder))

    assert (file.read_bytes(), file.suffix) == (b"what somebody sent", ".pdf")
    assert file.is_relative_to(place)
    assert oct(file.parent.stat().st_mode & 0o777) == "0o700", "it is nobody else's to see"
    holder.communicate("")
    assert list(place.iterdir()) == []


def test_what_a_killed_process_left_is_swept_by_the_next_and_what_a_living_one_has_is_not(
    place: Path, begin: Begin
) -> None:
    killed, living = begin(HOLD), begin(HOLD)
    left, kept = Path(said(killed)), Path(said(living))
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    assert left.exists()

    following = begin(HOLD)
    found = Path(said(following))

    assert not left.parent.exists()
    assert kept.read_bytes() == found.read_bytes() == b"what somebody sent"
    assert sorted(place.iterdir()) == sorted([kept.parent, found.parent])


def test_a_folder_of_that_name_which_is_not_a_folder_is_left_alone(place: Path, begin: Begin, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "precious").touch()
    (place / "retoma-scratch-link").symlink_to(tmp_path / "elsewhere")

    begin(HOLD).communicate("")

    assert (tmp_path / "elsewhere" / "precious").exists()


def test_nothing_stays_of_a_reader_that_was_killed_while_it_read(place: Path, begin: Begin, tmp_path: Path) -> None:
    text = tmp_path / "text.txt"
    text.write_text("Um texto simples que qualquer pessoa lê.")
    reader = begin(READ, "hang", str(text))
    assert said(reader) == "reading"
    end = time.monotonic() + 150
    while not [each for each in psutil.Process(reader.pid).children() if list(place.rglob("*"))]:
        assert time.monotonic() < end, "it never began to read"
        time.sleep(0.05)
    reader.send_signal(signal.SIGKILL)
    reader.wait()
    assert list(place.iterdir())

    begin(READ, "read", str(text)).communicate("")

    assert list(place.iterdir()) == []

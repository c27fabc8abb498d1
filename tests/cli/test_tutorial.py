"""The first page to follow, followed to the letter: in an empty folder, with the worker of the page still at work."""

import json
import os
import re
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from retoma.postgres.embedded import server

DOCS = Path(__file__).parents[2] / "docs"
BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)```$", re.MULTILINE)


class Reader:
    """Somebody who types what a page says, in a folder of their own."""

    def __init__(self, page: Path, folder: Path) -> None:
        blocks = BLOCK.findall(page.read_text(encoding="utf-8"))
        self.folder = folder
        self.commands = [text for info, text in blocks if not info]
        self.files = {text.split()[1]: text for info, text in blocks if info == "python run"}
        ours = {"DATABASE_URL", "RETOMA_DATABASE_URL", "RETOMA_HOME", "RETOMA_APP"}
        self.environment = {name: value for name, value in os.environ.items() if name not in ours}
        self.environment["PATH"] = f"{Path(sys.executable).parent}:{self.environment['PATH']}"

    def save(self) -> None:
        for name, text in self.files.items():
            (self.folder / name).write_text(text, encoding="utf-8")

    def command(self, beginning: str) -> str:
        """The command of the page that begins so."""
        return next(each for each in self.commands if each.startswith(beginning))

    def types(self, line: str) -> str:
        ran = subprocess.run(
            ["sh", "-c", line],
            cwd=self.folder,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=90,
            check=False,
        )
        assert ran.returncode == 0, f"{line}\n{ran.stdout}{ran.stderr}"
        return ran.stdout

    def starts(self, line: str) -> subprocess.Popen[bytes]:
        with (self.folder / "up.txt").open("ab") as talk:
            return subprocess.Popen(shlex.split(line), cwd=self.folder, env=self.environment, stdout=talk, stderr=talk)


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    yield tmp_path
    for home in tmp_path.glob(".*"):
        if home.is_dir():
            server.stop(home)


def until(holds: Callable[[], bool], what: str) -> None:
    end = time.monotonic() + 150
    while not holds():
        assert time.monotonic() < end, f"never seen: {what}"
        time.sleep(0.1)


@pytest.mark.timeout(900)
@pytest.mark.parametrize(
    ("page", "log", "check"),
    [
        ("start/first-pipeline.md", "work.log", "RETOMA_HOME=.check"),
        ("pt/inicio.md", "trabalho.log", "RETOMA_HOME=.confere"),
    ],
)
def test_the_tutorial_ends_well_when_it_is_followed_to_the_letter(
    folder: Path, page: str, log: str, check: str
) -> None:
    reader = Reader(DOCS / page, folder)
    reader.save()

    def lines() -> list[str]:
        return (folder / log).read_text().split() if (folder / log).exists() else []

    def executors() -> list[int]:
        return [each["pid"] for each in json.loads(reader.types("retoma workers --json")) if each["alive"]]

    up = reader.starts(f"{reader.command('retoma up').strip()} --port 0")
    try:
        until(lambda: "The API is at" in (folder / "up.txt").read_text(), "the first terminal is ready")
        assert (folder / "up.txt").read_text().startswith("DATABASE_URL is not set: a PostgreSQL of its own is made")
        id = reader.types(reader.command("retoma enqueue")).strip()
        assert id.isdigit()  # 1, unless a maintenance job was due first
        until(lambda: len(lines()) >= 2, "two letters were weighed")
        (killed,) = executors()
        os.kill(killed, signal.SIGKILL)
        seen = len(lines())
        until(lambda: len(lines()) > seen + 1, "another executor weighs on")
        done = lines()
        assert done.count("alfa") == 1
        assert len(done) - len(set(done)) <= 1, "at most the letter at hand is weighed twice"

        # The worker of the first terminal is still at work.
        assert reader.types(reader.command(check)) == ""
        reader.types(reader.command("python3"))
        assert up.poll() is None
        assert executors()  # one more while a job that was killed runs alone
    finally:
        up.send_signal(signal.SIGINT)
        try:
            up.wait(timeout=120)
        except subprocess.TimeoutExpired:
            up.kill()
            up.wait()

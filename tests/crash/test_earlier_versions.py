"""What an earlier version of the program left half done, killed in the middle, is upgraded and ended by this one."""

from __future__ import annotations

import importlib.metadata
import io
import json
import os
import re
import signal
import subprocess
import sys
import tarfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from fleet import HERE, Fleet, until
from oracle import Oracle

pytestmark = [pytest.mark.crash, pytest.mark.timeout(900)]

BEFORE_THE_ROOMS = "3f05533b0ede"
"""The last commit whose modules lay side by side and whose products were part of the engine's tables and pages."""
LOCK = "requirements-demo.lock"
LOCKED = re.compile(r"^(([\w.-]+)==.*\n(?:    .*\n)+)", re.MULTILINE)
DOCUMENTS, STEPPED = 24, 12


@pytest.fixture
def earlier(tmp_path: Path) -> Path:
    """The source of that commit, with what it depends on and this version no longer does beside it."""
    root, place = HERE.parent.parent, tmp_path / "earlier"
    command = ["git", "-C", root, "archive", BEFORE_THE_ROOMS, "src", LOCK]
    archive = subprocess.run(command, capture_output=True, check=False)
    if archive.returncode:
        pytest.skip(f"the history of this copy does not reach back to {BEFORE_THE_ROOMS}: {archive.stderr.decode()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(place, filter="data")
    missing = place / "missing.lock"
    missing.write_text(
        "".join(each[0] for each in LOCKED.findall((place / LOCK).read_text()) if not installed(each[1]))
    )
    pip = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", "install", "--quiet", "--no-deps"]
    command = [*pip, "--only-binary", ":all:", "--require-hashes", "--target", place / "src", "-r", missing]
    if subprocess.run(command, check=False).returncode:
        pytest.skip(f"what {BEFORE_THE_ROOMS} needs cannot be installed here: {missing.read_text()}")
    return place / "src"


def installed(name: str) -> bool:
    try:
        importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return True


@pytest.fixture
def fleet(empty_database_url: str, tmp_path: Path) -> Iterator[Fleet]:
    fleet = Fleet(empty_database_url, tmp_path)
    yield fleet
    fleet.clear_away()
    fleet.tell()


def documents(folder: Path) -> Path:
    folder.mkdir()
    for number in range(DOCUMENTS):
        text = f"Ata da reunião ordinária, lavrada e assinada. Este é o documento de número {number}.\n"
        (folder / f"{number:03}.txt").write_text(text)
    return folder


def ended(oracle: Oracle, batch: int) -> int:
    return len(oracle.jobs(batch, "completed", "failed", "cancelled"))


async def test_batches_that_an_earlier_version_was_killed_in_are_upgraded_and_ended(
    fleet: Fleet, earlier: Path, tmp_path: Path
) -> None:
    source = {"PYTHONPATH": os.pathsep.join([str(earlier), str(HERE)])}
    assert await fleet.run("old-upgrade", source, "db", "upgrade").exit_code(60) == 0
    oracle = Oracle(fleet.url, fleet.file)
    command = [sys.executable, str(HERE / "earlier_app.py"), str(documents(tmp_path / "papers")), str(STEPPED)]
    variables = os.environ | fleet.environment() | {"DATABASE_URL": fleet.url} | source
    begun = json.loads(subprocess.run(command, env=variables, capture_output=True, check=True).stdout)
    assert Path(begun["program"]).is_relative_to(earlier)
    batches = (begun["execution"], begun["batch"])
    old = fleet.run("old", source, "worker", "--app", "earlier_app:app", "--processes", "1", "--at-once", "4")
    await until(lambda: all(ended(oracle, each) >= 4 for each in batches), what="the old worker ends some of each")
    os.killpg(old.pid, signal.SIGKILL)
    await until(lambda: old.ended, what="it is gone")
    assert any(oracle.jobs(each, "running") for each in batches)

    assert await fleet.run("upgrade", {}, "db", "upgrade").exit_code(60) == 0
    fleet.start("new", app="earlier_app:app", at_once=4)
    await until(lambda: all(oracle.batch(each)[0] == "completed" for each in batches), what="both are completed")

    assert [oracle.states(oracle.jobs(each)) for each in batches] == [{"completed": DOCUMENTS}, {"completed": STEPPED}]
    oracle.nothing_is_wrong()
    lines = (tmp_path / "classified.log").read_text().splitlines()
    asked = Counter(int(line.split()[0]) for line in lines)
    held = 4
    assert set(asked) == set(range(DOCUMENTS))
    assert asked.total() <= DOCUMENTS + held, "what the old worker had classified is not classified again"
    answers = (
        "select count(distinct document_id) from retoma.classifications where batch_id = %s and category is not null"
    )
    assert oracle.one(answers, begun["execution"]) == DOCUMENTS
    oracle.close()

"""The programs in examples/ run as they are, and print what they promise."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx2
import pytest

Said = Callable[..., list[str]]

EXAMPLES = Path(__file__).parents[2] / "examples"
SHORT = 60


@pytest.fixture
def environment(database_url: str, tmp_path: Path) -> dict[str, str]:
    return {**os.environ, "DATABASE_URL": database_url, "RETOMA_HOME": str(tmp_path / ".retoma")}


@pytest.fixture
def said(environment: dict[str, str], tmp_path: Path) -> Said:
    """Runs an example to its end, and gives the lines that it prints."""

    def run(name: str, *arguments: str) -> list[str]:
        command = [sys.executable, str(EXAMPLES / name), *arguments]
        ran = subprocess.run(
            command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=50, check=False
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
        return ran.stdout.splitlines()

    return run


@contextmanager
def started(*command: str, env: dict[str, str], cwd: Path) -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen(command, env=env, cwd=cwd, stderr=subprocess.PIPE, text=True)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        process.communicate(timeout=120)


def test_a_folder_is_classified_with_own_labels_and_only_once(said: Said, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("Invoice 17. Total amount due: 120 euros, payable by the end of May.")
    (tmp_path / "b.txt").write_text("Heat the oven, stir two tablespoons of sugar into the dough and bake it.")

    first = said("classify_folder.py", str(tmp_path))
    second = said("classify_folder.py", str(tmp_path))

    assert first == ["a.txt: invoice", "b.txt: recipe", "2 classified now, 0 before"]
    assert second == ["a.txt: invoice", "b.txt: recipe", "0 classified now, 2 before"]


def test_a_killed_worker_leaves_its_steps(said: Said) -> None:
    killed, result, attempts, twice = said("survive_a_kill.py")

    assert int(re.findall(r"; (\d) steps are saved", killed)[0]) >= 3
    assert result == "result: on tw th fo fi si"
    assert attempts == "attempts: ['lost', 'completed']"
    assert twice.count("'") <= 2, "at most the step that was under way"


def test_a_budget_pauses_a_batch_and_more_of_it_continues_it(said: Said) -> None:
    paused, completed, paid = said("ask_with_a_budget.py")
    done = int(re.findall(r"(\d+) of 10", paused)[0])
    recorded, billed = re.findall(r"([\d.]+) US\$", paid)

    assert paused.startswith("paused by budget: ")
    assert 0 < done < 10
    assert completed == "completed: 10 of 10 done"
    assert recorded == billed
    assert paid.endswith("for 10 calls")


def test_an_application_queues_jobs_and_has_the_site_beside_it(environment: dict[str, str], tmp_path: Path) -> None:
    program = str(EXAMPLES / "own_application.py")
    worker = ("-m", "retoma", "worker", "--app", f"{program}:engine")
    with (
        started(sys.executable, program, "0", env=environment, cwd=tmp_path) as server,
        started(sys.executable, *worker, env=environment, cwd=tmp_path),
    ):
        assert server.stderr is not None
        lines = iter(server.stderr.readline, "")
        url = next(found[1] for line in lines if (found := re.search(r"running on (http://\S+)", line)))
        with httpx2.Client(base_url=url, timeout=240) as client:
            job = client.post("/letters", json={"text": "Dear Ana and Rui"}).json()
            while (letter := client.get(f"/letters/{job['id']}").json())["state"] in ("queued", "running"):
                time.sleep(0.05)
            page = client.get("/engine/livez")
            api = client.get(f"/engine/api/v1/jobs/{job['id']}")

    assert letter == {"state": "completed", "words": 4}
    assert page.status_code == 200
    assert (api.status_code, api.json()["pipeline"]) == (200, "count-words")


@pytest.mark.parametrize("program", sorted(EXAMPLES.glob("*.py")), ids=lambda program: program.name)
def test_an_example_is_short_says_how_to_run_it_and_is_tested(program: Path) -> None:
    text = program.read_text(encoding="utf-8")

    assert len(text.splitlines()) < SHORT
    assert f"python examples/{program.name}" in text
    assert f'"{program.name}"' in Path(__file__).read_text(encoding="utf-8")

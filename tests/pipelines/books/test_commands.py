"""retoma books: a book goes in, its session is shown, resumed, planned, and moved as files."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import retoma.cli
from retoma import pipelines
from retoma.testing import drain

Run = Callable[..., Result]


@pytest.fixture
def run(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A command in this process, on the ready pipelines and the database of the test."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("RETOMA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    pipelines.ready.cache_clear()
    yield lambda *args: CliRunner().invoke(retoma.cli.main, ["books", *map(str, args)], prog_name="retoma")
    pipelines.ready.cache_clear()


@pytest.fixture
def book(tmp_path: Path) -> Path:
    parts = []
    for number in (1, 2):
        said = (
            f"A parte {part} do capítulo {number} explica que o trabalho número {part * number} deve ser guardado."
            for part in range(60)
        )
        parts.append(f"## Capítulo {number}\n\n" + " ".join(said))
    path = tmp_path / "livro.md"
    path.write_text("\n\n".join(parts), encoding="utf-8")
    return path


def test_a_book_is_summed_up_shown_moved_and_checked(run: Run, book: Path, tmp_path: Path) -> None:
    sent = run("summarize", book)
    assert sent.exit_code == 0, sent.output
    id, state, _ = sent.stdout.strip().split("\t")
    assert state == "in_progress"
    assert run("pause", id).stdout.split("\t")[1] == "paused"
    assert run("resume", id).stdout.split("\t")[1] == "in_progress"
    asyncio.run(drain(pipelines.ready()))

    shown = json.loads(run("show", id, "--json").stdout)
    assert (shown["session"]["state"], [each["number"] for each in shown["chapters"]]) == ("done", ["1", "2"])
    assert [each["id"] for each in json.loads(run("list", "--json").stdout)] == [id]
    one = run("show", id, "--chapter", "2")
    assert one.exit_code == 0, (one.output, one.exception)
    assert json.loads(one.stdout)["chapter_summary"]["numero"] == "2"
    assert "2 chapters are reused" in run("plan", id).stderr

    names = run("checkpoints", "export", id, tmp_path / "out").stdout.split()
    assert f"{id}_checkpoint_1.json" in names
    assert run("checkpoints", "check", tmp_path / "out").exit_code == 0
    assert run("checkpoints", "check", id).exit_code == 0
    (tmp_path / "out" / f"{id}_checkpoint_1.json").write_bytes(b"{")
    wrong = run("checkpoints", "check", tmp_path / "out", "--json")
    assert wrong.exit_code == 8
    assert [each["faults"][0]["reason"] for each in json.loads(wrong.stdout) if not each["valid"]] == ["not_json"]
    came = run("checkpoints", "import", tmp_path / "out")
    assert came.exit_code == 8
    assert "there" in came.stdout
    assert run("approve", id).stdout.split("\t")[1] == "done"


def test_what_is_not_there_is_said(run: Run, tmp_path: Path) -> None:
    assert "cannot be read" in run("summarize", tmp_path / "nowhere.pdf").output
    assert "There is no session" in run("resume", "nobody").output
    assert "There is no session" in run("checkpoints", "check", "nobody").output

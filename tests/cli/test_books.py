"""retoma books: a book in each format to its checkpoints, and a list of chapters that a person mends."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path

import pytest

from retoma.app.loader import find_app
from retoma.testing import drain

from .conftest import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "books"))

import files

pytestmark = pytest.mark.timeout(600)

PROGRAM = """
from pathlib import Path

from retoma import Retoma
from retoma.pipelines import BOOKS
from retoma.providers import BlobStore, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalExtractor

app = Retoma(
    extensions=[BOOKS],
    providers={Extractor: LocalExtractor(), BlobStore: FolderBlobs(Path(__file__).parent / "blobs")},
)
"""


@pytest.fixture
def program(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: ARG001 - it says which database
    """A program without a key; commands find it in the environment."""
    file = tmp_path / "books_program.py"
    file.write_text(PROGRAM)
    monkeypatch.delitem(sys.modules, "books_program", raising=False)
    monkeypatch.setenv("RETOMA_APP", f"{file}:app")
    return f"{file}:app"


def sent(run: Run, file: Path) -> list[str]:
    result = run("books", "summarize", str(file))
    assert result.exit_code == 0, result.output
    return result.stdout.split()


@pytest.mark.parametrize("name", files.FILES)
def test_a_book_ends_done_and_passed_with_checkpoints_that_meet_the_contract(
    run: Run, program: str, tmp_path: Path, name: str
) -> None:
    book = tmp_path / name
    book.write_bytes(files.FILES[name](files.chapters()))
    session, state, _ = sent(run, book)
    assert state == "in_progress"

    asyncio.run(drain(find_app(program)))

    assert sent(run, book) == [session, "done", "3/3"], "the same content finds its session"
    shown = json.loads(run("books", "show", session, "--json").stdout)
    assert [each["passed"] for each in shown["chapters"]] == [True] * 3, shown
    assert json.loads(shown["session"]["configuration"])["parameters"]["detector"] == "books-1"
    checked = run("books", "checkpoints", "check", session)
    assert checked.exit_code == 0, checked.output
    folder = tmp_path / "out"
    exported = run("books", "checkpoints", "export", session, str(folder))
    assert exported.exit_code == 0, exported.output
    assert run("books", "checkpoints", "check", str(folder)).exit_code == 0
    for format, begins in {"markdown": b"# livro", "json": b"{", "pdf": b"%PDF-", "epub": b"PK"}.items():
        file = tmp_path / f"resumo.{format}"
        written = run("books", "export", session, "--format", format, "--to", str(file))
        assert written.exit_code == 0, written.output
        assert file.read_bytes().startswith(begins)
    told = json.loads((tmp_path / "resumo.json").read_text())
    assert told["status"] == "PASS"
    assert [each["number"] for each in told["executive"]] == ["1", "2", "3"]
    assert all(each["points"] for each in told["executive"])


def test_a_list_in_doubt_waits_and_a_person_splits_merges_renames_and_approves(
    run: Run, program: str, tmp_path: Path
) -> None:
    told = files.chapters(count=1, words=4_000)
    book = tmp_path / "livro.txt"
    book.write_bytes("\n\n".join(told[0][1]).encode())
    session, *_ = sent(run, book)
    app = find_app(program)
    asyncio.run(drain(app))
    waiting = json.loads(run("books", "show", session, "--json").stdout)
    assert (waiting["session"]["state"], waiting["session"]["reason"]) == ("paused", "review")
    assert len(waiting["chapters"]) == 1
    paragraphs = told[0][1]
    second, third = (paragraphs[len(paragraphs) * n // 3] for n in (1, 2))

    split = run("books", "plan", session, "--split", "1", second[:60], "--rename", "1", "Antes")
    again = run("books", "plan", session, "--split", "1b", third[:60])
    merged = run("books", "plan", session, "--merge", "1b", "1bb")

    assert [each.exit_code for each in (split, again, merged)] == [0, 0, 0], split.output + again.output + merged.output
    assert [len(each.stdout.splitlines()) for each in (again, merged)] == [3, 2], again.stdout
    assert run("books", "approve", session).exit_code == 0
    asyncio.run(drain(app))
    shown = json.loads(run("books", "show", session, "--json").stdout)
    assert shown["session"]["state"] == "done"
    assert [each["number"] for each in shown["chapters"]] == ["1", "1b"]
    assert shown["chapters"][0]["title"] == "Antes"
    late = run("books", "plan", session, "--merge", "1", "1b")
    assert late.exit_code != 0
    assert "are done" in late.output

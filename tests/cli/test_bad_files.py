"""Every bad file of the corpus by every command that takes files: a clear line and an exit code, and no traceback."""

from __future__ import annotations

import sys
from pathlib import Path

import psycopg
import pytest
from click.testing import Result

from .conftest import Run

sys.path.insert(0, str(Path(__file__).parents[1] / "corpus"))

import bad_files

pytestmark = pytest.mark.timeout(600)

PROGRAM = """
from pathlib import Path

from retoma import Retoma
from retoma.pipelines import ALL
from retoma.providers import BlobStore, Classifier, Embedder, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalEmbedder, LocalExtractor
from retoma.providers.local.encoder import Lexical

providers = {
    BlobStore: FolderBlobs(Path(__file__).parent / "blobs"), Extractor: LocalExtractor(),
    Embedder: LocalEmbedder(Lexical()), Classifier: LocalClassifier(Lexical()),
}
app = Retoma(extensions=ALL, providers=providers)
"""
ENDINGS = {0, 1, 2, 8}
"""All is well; the file is at fault, or the order; some were not taken."""


@pytest.fixture
def files(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> list[Path]:  # noqa: ARG001 - which database
    """The corpus in a folder of its own, and a program that takes all of it."""
    program = tmp_path / "bad_program.py"
    program.write_text(PROGRAM)
    monkeypatch.delitem(sys.modules, "bad_program", raising=False)
    monkeypatch.setenv("RETOMA_APP", f"{program}:app")
    folder = tmp_path / "corpus"
    folder.mkdir()
    made = []
    for number, bad in enumerate(bad_files.CORPUS):
        file = folder / f"{number:02}.{bad.kind}"
        file.write_bytes(bad.make())
        made.append(file)
    return made


def told(ran: Result) -> str | None:
    """What is wrong with how a command ended."""
    clear = ran.exception is None or isinstance(ran.exception, SystemExit)
    quiet = not any(each in ran.output for each in ("Traceback", "psycopg", "site-packages"))
    return None if clear and quiet and ran.exit_code in ENDINGS else f"{ran.exit_code}: {ran.output[-300:]}"


def test_a_folder_of_them_is_classified_or_told_one_by_one(
    run: Run, files: list[Path], psql: psycopg.Connection
) -> None:
    ran = run("classify", str(files[0].parent), "--detach")

    assert told(ran) is None
    (kept,) = psql.execute("select count(*) from retoma.project_documents").fetchone() or ()
    assert f"{len(files)} files: {kept} new" in ran.stderr
    assert 0 < kept < len(files)


def test_documents_are_taken_or_told_one_by_one(run: Run, files: list[Path], psql: psycopg.Connection) -> None:
    ran = run("documents", "ingest", *map(str, files))

    assert told(ran) is None
    (kept,) = psql.execute("select count(*) from retoma.documents").fetchone() or ()
    assert 0 < kept < len(files)
    assert ran.exit_code == 8


@pytest.mark.parametrize("words", [("books", "summarize"), ("quotes", "run", "--detach")])
def test_a_book_or_a_list_that_is_none_is_one_clear_line(run: Run, files: list[Path], words: tuple[str, ...]) -> None:
    ended = {bad.name: run(*words, str(file)) for bad, file in zip(bad_files.CORPUS, files, strict=True)}

    assert {name: said for name, ran in ended.items() if (said := told(ran)) is not None} == {}
    refused = [ran for ran in ended.values() if ran.exit_code in {1, 2}]
    assert refused
    assert [ran.output for ran in refused if not ran.stderr.strip()] == []

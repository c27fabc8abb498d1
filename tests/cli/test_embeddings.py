"""retoma embeddings: texts added, followed and found from a terminal; and what doctor says of vectors."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retoma.app.loader import find_app
from retoma.testing import drain

from .conftest import Run

PROGRAM = """
from retoma import Retoma
from retoma.pipelines import EMBEDDINGS
from retoma.providers import Embedder
from retoma.providers.local import LocalEmbedder

app = Retoma(extensions=[EMBEDDINGS], providers={Embedder: LocalEmbedder()})
"""
WHERE = ("--organisation", "acme", "--site", "main")
DOG = "O cachorro dorme no sofá da sala."


@pytest.fixture
def embedding(tmp_path: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> str:  # noqa: ARG001 - it says which database
    """The reference of a program that embeds on this machine; commands find it in the environment."""
    file = tmp_path / "embedding_program.py"
    file.write_text(PROGRAM)
    monkeypatch.delitem(sys.modules, "embedding_program", raising=False)
    monkeypatch.setenv("RETOMA_APP", f"{file}:app")
    return f"{file}:app"


def lines(result: Any) -> list[list[str]]:
    assert result.exit_code == 0, result.output
    return [line.split("\t") for line in result.stdout.splitlines()]


def test_texts_are_added_once_followed_shown_and_found(run: Run, embedding: str, tmp_path: Path) -> None:
    note = tmp_path / "note.txt"
    note.write_text(DOG)
    many = tmp_path / "many.jsonl"
    many.write_text(
        "".join(
            json.dumps({"source_id": id, "content": content, "language": "pt"}) + "\n"
            for id, content in [("2", DOG), ("3", "A fatura de energia vence na segunda-feira.")]
        )
    )

    one = lines(run("embeddings", "add", str(note), *WHERE, "--source-type", "note", "--source-id", "1"))
    more = lines(run("embeddings", "add", "--jsonl", str(many), *WHERE, "--source-type", "note"))
    waiting = json.loads(run("embeddings", "status", "--json").stdout)
    asyncio.run(drain(find_app(embedding)))
    status = lines(run("embeddings", "status", *WHERE))
    (hit,) = json.loads(run("embeddings", "search", "animal descansando", *WHERE, "--limit", "1", "--json").stdout)
    shown = json.loads(run("embeddings", "show", "note", "2", *WHERE, "--json").stdout)

    assert one == [["note", "1", "1", "1", "queued", "yes"]]
    assert [[*each[:3], *each[4:]] for each in more] == [
        ["note", "2", "1", "queued", "no"],
        ["note", "3", "1", "queued", "yes"],
    ]
    assert more[0][3] == one[0][3] != more[1][3], "the same content is the same job"
    assert waiting == {"stored": 0, "states": {"queued": 3}}
    assert status == [["stored", "2"], ["active", "3"]]
    assert hit["excerpt"] == DOG
    assert hit["sources"] == [{"source_type": "note", "source_id": "1"}, {"source_type": "note", "source_id": "2"}]
    assert [(each["version"], each["state"], each["text"]) for each in shown] == [(1, "active", DOG)]


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("nowhere.txt", *WHERE, "--source-type", "t", "--source-id", "1"), "nowhere.txt cannot be read"),
        (("-", *WHERE, "--source-type", "t"), "has no source_id"),
        (("--jsonl", "-", *WHERE, "--source-type", "t"), "Line 1 of - is not JSON"),
        (("-", *WHERE, "--source-type", "t", "--source-id", "1", "--site", "s" * 101), "site of a text has 1 to 100"),
    ],
)
@pytest.mark.usefixtures("embedding")
def test_what_cannot_be_added_is_told_and_nothing_is_written(
    run: Run, psql: psycopg.Connection, args: tuple[str, ...], words: str
) -> None:
    refused = run("embeddings", "add", *args, input="um texto")

    assert refused.exit_code != 0
    assert words in refused.stderr
    assert "Try:" in refused.stderr
    assert psql.execute("select count(*) from retoma.jobs").fetchone() == (0,)


def test_a_source_that_is_not_there_is_told(run: Run) -> None:
    refused = run("embeddings", "show", "note", "7", *WHERE)

    assert (refused.exit_code, "'7'" in refused.stderr) == (3, True)


def test_the_doctor_tells_what_the_database_can_do_with_vectors(run: Run, psql: psycopg.Connection) -> None:
    def seen() -> list[str]:
        return next(row for row in lines(run("doctor")) if row[1] == "vectors")

    with_pgvector = seen()
    psql.execute("drop extension vector cascade")
    without = seen()
    psql.execute("create extension vector")
    unindexed = seen()

    assert with_pgvector[0] == "green"
    assert with_pgvector[2].startswith("pgvector ")
    assert with_pgvector[2].endswith(" with HNSW")
    assert without == [
        "amber",
        "vectors",
        "exact search in numpy; fine up to ~50,000 chunks",
        "create extension vector",
    ]
    assert (unindexed[0], "without its HNSW indexes" in unindexed[2]) == ("amber", True)

"""retoma documents: files go in, and what became of them comes out, for people and for pipes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner, Result
from shelf import LEASE, RECIPE

import retoma.cli
from retoma import pipelines
from retoma.bench.evaluation import samples
from retoma.testing import drain

Run = Callable[..., Result]


@pytest.fixture
def run(database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Run]:
    """A command in this process, on the ready pipelines and the database of the test."""
    monkeypatch.setenv("DATABASE_URL", database_url)
    monkeypatch.setenv("RETOMA_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    pipelines.ready.cache_clear()
    yield lambda *args: CliRunner().invoke(retoma.cli.main, ["documents", *map(str, args)], prog_name="retoma")
    pipelines.ready.cache_clear()


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    content = {
        "contrato.pdf": samples.pdf(LEASE),
        "bolo.txt": RECIPE.encode(),
        "vazio.pdf": b"",
        "mudo.html": b"<html><script>x()</script></html>",
    }
    for name, whole in content.items():
        (tmp_path / name).write_bytes(whole)
    return {name: tmp_path / name for name in content}


def work() -> int:
    return asyncio.run(drain(pipelines.ready()))


def test_files_are_sent_and_the_refused_ones_do_not_spoil_the_others(run: Run, files: dict[str, Path]) -> None:
    did = run("ingest", files["contrato.pdf"], files["vazio.pdf"], files["bolo.txt"], "nenhum.pdf")

    rows = [line.split("\t") for line in did.stdout.splitlines()]
    assert did.exit_code == 8
    assert [row[1:] for row in rows] == [["PENDING", str(files["contrato.pdf"])], ["PENDING", str(files["bolo.txt"])]]
    assert "vazio.pdf: file_empty: vazio.pdf has 0 bytes." in did.stderr
    assert "nenhum.pdf: it cannot be read: No such file or directory." in did.stderr
    assert "2 of 4 files were taken." in did.stderr

    again = run("ingest", files["bolo.txt"])
    assert (again.exit_code, again.stdout.split("\t")[3].strip()) == (0, f"equal to {rows[1][0]}")


def test_what_was_sent_is_listed_shown_searched_processed_again_and_removed(run: Run, files: dict[str, Path]) -> None:
    id = run("ingest", files["contrato.pdf"]).stdout.split("\t")[0]
    run("ingest", files["bolo.txt"])
    work()

    listed = json.loads(run("list", "--json").stdout)
    assert [(each["filename"], each["status"]) for each in listed] == [
        ("bolo.txt", "COMPLETED"), ("contrato.pdf", "COMPLETED"),
    ]  # fmt: skip
    assert run("list", "--search", "contr").stdout.split("\t")[:3] == [id, "COMPLETED", "contrato.pdf"]
    assert run("list", "--status", "failed").stdout == ""

    shown = json.loads(run("show", id, "--json").stdout)
    assert (shown["document"]["id"], shown["processing"]["status"], len(shown["chunks"])) == (id, "COMPLETED", 3)
    assert "Locador\tMaria da Silva\t0.60" in run("show", id).stdout

    found = json.loads(run("search", "como preparar sobremesa caseira", "--limit", "1", "--json").stdout)
    assert [(each["filename"], each["how"]) for each in found] == [("bolo.txt", "meaning")]
    assert "\tboth\t" in run("search", "rescisão").stdout.splitlines()[0]

    assert run("reprocess", id).stdout == f"{id}\tPENDING\n"
    assert run("remove", id).exit_code == 2  # nobody is there to be asked
    assert run("remove", id, "--yes").stdout == f"{id}\tremoved\n"
    assert run("remove", id, "--yes").exit_code == run("show", id).exit_code == 3


def test_who_waits_is_told_what_failed(
    run: Run, files: dict[str, Path], database_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def worked_meanwhile(_seconds: float) -> None:
        await drain(pipelines.ready())

    monkeypatch.setattr("retoma.pipelines.documents.cli._pause", worked_meanwhile)

    did = run("ingest", "--wait", files["contrato.pdf"], files["mudo.html"])

    said = {line.split("\t")[2]: line.split("\t")[1] for line in did.stdout.splitlines()}
    assert said == {str(files["contrato.pdf"]): "COMPLETED", str(files["mudo.html"]): "FAILED"}
    assert "no_text: mudo.html" in did.stderr
    assert did.exit_code == 8
    with psycopg.connect(database_url) as connection:
        assert connection.execute("select count(*) from retoma.documents").fetchone() == (2,)

"""retoma classify: a folder, a Ctrl-C half-way, and the same command again."""

from __future__ import annotations

import csv
import io
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from .conftest import Command

# Several processes start here, and the machine may be busy.
pytestmark = pytest.mark.timeout(600)

PROGRAM = f"{Path(__file__).parent / 'classify_program.py'}:app"
KINDS = {
    "ata": "Ata da reunião. Assembleia geral. Presentes os senhores. Ordem do dia. Nada mais havendo a tratar.",
    "contrato": "Pelo presente instrumento particular, contratante e contratada ajustam cláusulas, preço e vigência.",
}


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "docs"
    made.mkdir()
    for number in range(12):
        text = list(KINDS.values())[number % 2]
        (made / f"{number:02}.txt").write_text(f"{text} Documento {number}.")
    return made


@pytest.fixture
def environment(database_url: str, tmp_path: Path) -> dict[str, str]:
    return {"DATABASE_URL": database_url, "CLASSIFY_BLOBS": str(tmp_path / "blobs"), "RETOMA_HEARTBEAT_SECONDS": "0.5"}


def finish(command: Command, *args: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The command to its end, however busy the machine is."""
    process = command.start(*args, **variables)
    out, err = process.communicate(timeout=220)
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def until(ready: Callable[[], object], seconds: float = 150.0) -> None:
    deadline = time.monotonic() + seconds
    while not ready():
        assert time.monotonic() < deadline, "it did not come to pass"
        time.sleep(0.05)


def finished(psql: psycopg.Connection) -> dict[str, object]:
    return dict(
        psql.execute("select code, processed_at from retoma.classifications where processed_at is not null").fetchall()
    )


def test_a_folder_is_classified_and_the_same_command_again_says_what_it_skips(
    command: Command, folder: Path, environment: dict[str, str], tmp_path: Path
) -> None:
    (folder / "quebrado.pdf").write_bytes(b"%PDF-1.4\nnothing")
    (folder / "programa.exe").write_bytes(b"MZ" + bytes(100))
    file = tmp_path / "out.csv"

    first = finish(command, "classify", str(folder), "--app", PROGRAM, "--export", str(file), **environment)
    again = finish(command, "classify", str(folder), "--app", PROGRAM, "--at-once", "10", **environment)

    rows = list(csv.reader(io.StringIO(file.read_text("utf-8-sig"), newline=""), delimiter=";"))
    assert (first.returncode, again.returncode) == (8, 8), first.stderr + again.stderr
    assert "14 files: 13 new, 0 known." in first.stderr
    assert "programa.exe is a program" in first.stderr
    assert "quebrado.pdf: document_damaged" in first.stderr
    assert {line.split("\t")[0]: line.split("\t")[1] for line in first.stdout.splitlines()[-2:]} == {
        "ata": "6",
        "contrato": "6",
    }
    assert len(rows) == 14
    assert "14 files: 0 new, 13 known." in again.stderr
    assert "12 were classified before and were skipped." in again.stderr


FAULT = """
create or replace function retoma.fault() returns trigger language plpgsql as $$
    begin raise 'a fault of the tests'; end $$;
create trigger fault before insert on retoma.audit for each row when ({}) execute function retoma.fault()
"""


def test_what_it_keeps_what_it_begins_and_what_it_shows_is_in_the_audit(
    command: Command, folder: Path, environment: dict[str, str], psql: psycopg.Connection
) -> None:
    done = finish(command, "classify", str(folder), "--app", PROGRAM, **environment)

    rows = psql.execute(
        "select action, outcome, object_kind, object_id, after ? 'sha256' from retoma.audit order by id"
    ).fetchall()
    assert done.returncode == 0, done.stderr
    kept = ("project.classify", "done", "project", "1", True)
    assert rows == [
        ("project.classify", "done", "project", "1", False),
        *[kept] * 12,
        ("batch.classify", "done", "batch", "1", False),
        ("batch.classify", "looked", "batch", "1", None),
    ]


def test_nothing_is_shown_unless_the_look_is_in_the_audit(
    command: Command, folder: Path, environment: dict[str, str], psql: psycopg.Connection
) -> None:
    psql.execute(FAULT.format("new.outcome = 'looked'").encode())

    done = finish(command, "classify", str(folder), "--app", PROGRAM, **environment)

    assert len(finished(psql)) == 12, "the work itself is done"
    assert (done.returncode == 0, "ata" in done.stdout) == (False, False), done.stdout


def test_no_document_is_kept_without_its_row(
    command: Command, folder: Path, environment: dict[str, str], psql: psycopg.Connection
) -> None:
    psql.execute(FAULT.format("new.after ? 'sha256'").encode())

    done = finish(command, "classify", str(folder), "--app", PROGRAM, "--detach", **environment)

    assert done.returncode != 0
    assert psql.execute("select count(*) from retoma.project_documents").fetchone() == (0,)
    assert psql.execute("select action, object_id from retoma.audit").fetchall() == [("project.classify", "1")]


def test_ctrl_c_leaves_the_rest_and_the_same_command_goes_on(
    command: Command, folder: Path, environment: dict[str, str], psql: psycopg.Connection
) -> None:
    slow = environment | {"CLASSIFY_SECONDS": "0.5"}
    begun = command.start("classify", str(folder), "--app", PROGRAM, "--at-once", "1", **slow)
    until(lambda: len(finished(psql)) >= 3)

    begun.send_signal(signal.SIGINT)
    said = begun.communicate(timeout=60)[1]
    done = finished(psql)
    (state,) = psql.execute("select state from retoma.batches").fetchone() or ()
    (folder / "novo.txt").write_text(KINDS["ata"] + " Novo.")
    ended = finish(command, "classify", str(folder), "--app", PROGRAM, "--at-once", "1", **environment)

    assert begun.returncode == 130, said
    assert "nothing that is done is lost. To go on: retoma classify" in said
    assert 3 <= len(done) < 12
    assert state == "running"
    assert ended.returncode == 0, ended.stderr
    assert f"goes on: {len(done)} of 12 are done and are not done again." in ended.stderr
    assert "1 documents came later." in ended.stderr
    now = finished(psql)
    assert len(now) == 13
    assert {code: now[code] for code in done} == done


def test_it_can_be_left_to_workers_with_kinds_of_ones_own(
    command: Command, folder: Path, environment: dict[str, str], tmp_path: Path, psql: psycopg.Connection
) -> None:
    labels = tmp_path / "labels.txt"
    labels.write_text("- reunião: registro de assembleia; ordem do dia\n- acordo: cláusulas e preço; contratada\n")

    own = ("--labels", str(labels), "--name", "Meu lote", "--detach")
    left = finish(command, "classify", str(folder), "--app", PROGRAM, *own, **environment)
    wrong = command("classify", str(folder), "--export", "out.pdf", **environment)
    nowhere = command("classify", str(folder / "none"), **environment)

    assert left.returncode == 0, left.stderr
    assert int(left.stdout) == 1
    assert "No worker serves it yet." in left.stderr
    name, configuration = psql.execute("select name, configuration from retoma.batches").fetchone() or ()
    assert (name, [each["name"] for each in configuration["labels"]]) == ("Meu lote", ["reunião", "acordo"])
    assert (wrong.returncode, nowhere.returncode) == (2, 2)
    assert "--export writes .xlsx, .csv, .json" in wrong.stderr


@pytest.mark.timeout(900)
def test_a_pilot_classifies_some_says_what_all_would_take_and_the_same_command_goes_on(
    command: Command, folder: Path, environment: dict[str, str], psql: psycopg.Connection
) -> None:
    tried = finish(command, "classify", str(folder), "--pilot", "4", "--app", PROGRAM, **environment)
    some = len(finished(psql))
    again = finish(command, "classify", str(folder), "--app", PROGRAM, **environment)

    assert tried.returncode == 0, tried.stderr
    assert "4 of 4 jobs ended, 0 failed" in tried.stdout
    assert "To go on with all of them: retoma classify" in tried.stderr
    assert again.returncode == 0, again.stderr
    assert (some, len(finished(psql))) == (4, 12)
    assert psql.execute("select count(*) from retoma.batches").fetchone() == (1,)


def test_the_rest_of_a_folder_gets_another_prompt(
    command: Command, folder: Path, environment: dict[str, str], tmp_path: Path, psql: psycopg.Connection
) -> None:
    first = tmp_path / "first.md"
    first.write_text("- ata: reunião; presentes\n- contrato: cláusulas; preço\n")
    run = ("classify", str(folder), "--app", PROGRAM, "--labels", str(first))
    finish(command, *run, "--pilot", "2", **environment)
    [[batch]] = psql.execute("select batch_id from retoma.executions").fetchall()
    psql.execute(
        "with made as (insert into retoma.prompts (name, sha256) values ('Outro', 'abc') returning id)"
        " insert into retoma.prompt_versions (prompt_id, sha256, content)"
        " select id, 'abc', '- reunião: presentes\n- acordo: preço' from made"
    )

    done = finish(command, "classify", "replan", str(batch), "--prompt", "Outro", "--app", PROGRAM, **environment)
    again = finish(command, "classify", "replan", str(batch), "--prompt", "Outro", "--app", PROGRAM, **environment)
    nobody = finish(command, "classify", "replan", str(batch), "--prompt", "Nenhum", "--app", PROGRAM, **environment)
    compared = finish(command, "batch", "cohorts", str(batch), **environment)

    assert (done.returncode, again.returncode, nobody.returncode) == (0, 0, 3), done.stderr + nobody.stderr
    assert f"To compare: retoma batch cohorts {batch}" in done.stderr
    assert "has this prompt already" in again.stderr
    assert "There is no prompt Nenhum." in nobody.stderr
    assert "Outro" in compared.stdout

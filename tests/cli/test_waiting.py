"""--wait comes back: also where nobody else works, and where the only worker dies meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import psycopg
import pytest

from .conftest import Command
from .test_worker import until

# Several processes start here, and the machine may be busy.
pytestmark = pytest.mark.timeout(900)

BOOK = "\n\n".join(
    f"# Capítulo {number}\n\n" + f"A casa do capítulo {number} era antiga. Maria abriu a porta e viu o jardim. " * 6
    for number in (1, 2)
)
NOTE = "Ata da assembleia geral. Presentes os diretores. Foi aprovado o relatório do ano."


@pytest.fixture
def environment(database_url: str) -> dict[str, str]:
    return {
        "DATABASE_URL": database_url,
        "RETOMA_HEARTBEAT_SECONDS": "0.5",
        "RETOMA_LEASE_SECONDS": "4",
        "RETOMA_POLL_SECONDS": "0.2",
    }


@pytest.fixture
def files(tmp_path: Path) -> dict[str, Path]:
    found = {"book": tmp_path / "livro.md", "note": tmp_path / "ata.txt"}
    found["book"].write_text(BOOK)
    found["note"].write_text(NOTE)
    return found


def test_a_document_is_read_where_no_worker_is(
    command: Command, environment: dict[str, str], files: dict[str, Path], psql: psycopg.Connection
) -> None:
    ran = command.start("documents", "ingest", str(files["note"]), "--wait", **environment)
    out, err = ran.communicate(timeout=600)

    assert ran.returncode == 0, err
    assert out.split("\t")[1:] == ["COMPLETED", f"{files['note']}\n"]
    assert psql.execute("select count(*) from retoma.document_chunks").fetchone() != (0,)


def test_a_book_is_summed_up_where_no_worker_is(
    command: Command, environment: dict[str, str], files: dict[str, Path]
) -> None:
    ran = command.start("books", "summarize", str(files["book"]), "--wait", **environment)
    out, err = ran.communicate(timeout=600)

    assert ran.returncode == 0, err
    assert out.split("\t")[1:] == ["done", "2/2\n"]


def test_it_works_on_here_when_the_only_worker_dies(
    command: Command, environment: dict[str, str], files: dict[str, Path], psql: psycopg.Connection
) -> None:
    worker = command.start("worker", "--queues", "books", **environment)
    until(lambda: psql.execute("select 1 from retoma.workers where 'books' = any (pipelines)").fetchone())
    os.kill(worker.pid, signal.SIGSTOP)  # it is there, and does nothing
    waiting = command.start("books", "summarize", str(files["book"]), "--wait", **environment)
    until(lambda: psql.execute("select 1 from retoma.jobs where pipeline = 'books'").fetchone())
    os.kill(worker.pid, signal.SIGKILL)
    out, err = waiting.communicate(timeout=600)

    assert waiting.returncode == 0, err
    assert out.split("\t")[1:] == ["done", "2/2\n"]


def test_a_paused_queue_is_told_and_ctrl_c_leaves_the_rest_and_says_how_to_go_on(
    command: Command, environment: dict[str, str], files: dict[str, Path], psql: psycopg.Connection
) -> None:
    psql.execute("insert into retoma.queues (name, paused_at, paused_reason) values ('books', now(), 'person')")
    waiting = command.start("books", "summarize", str(files["book"]), "--wait", **environment)
    until(lambda: psql.execute("select 1 from retoma.workers where 'books' = any (pipelines)").fetchone())
    assert waiting.stderr is not None
    said = waiting.stderr.readline()
    waiting.send_signal(signal.SIGINT)
    _, err = waiting.communicate(timeout=600)
    (session,) = psql.execute("select id from books.sessions").fetchone() or ("",)

    assert said == "Queue books is paused; 'retoma queue resume books' lets it go on.\n"
    assert waiting.returncode == 130, err
    assert f"nothing that is done is lost. To go on: retoma books resume {session} --wait" in " ".join(err.split())

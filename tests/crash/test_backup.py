"""A half-done batch in a dump: brought back into another database it is finished there, and nothing that the dump knew
as done is done or paid again.
"""

from __future__ import annotations

import os
import signal
import subprocess
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import paid_app
import psycopg
import pytest
from fleet import Fleet, until
from oracle import Oracle
from paid_app import INPUT, MODEL, OUTPUT, PROVIDER, Document

from retoma import Retoma
from retoma.postgres.embedded.binaries import binaries
from retoma.testing.billing import Biller

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

BACKUP = Path(__file__).parents[2] / "deploy/backup"
PAPERS = [Document(number=number, letters=80 + number, questions=3) for number in range(24)]


def run(program: str, *words: object, **variables: object) -> subprocess.CompletedProcess[str]:
    """A script of deploy/backup, with the programs of the server that is dumped: pg_dump must be as new as it is."""
    bin, _ = next(binaries())
    env = {"PATH": f"{bin}:{os.environ['PATH']}", "LANG": "C.UTF-8"}
    env |= {name: str(value) for name, value in variables.items()}
    command = [str(BACKUP / program), *map(str, words)]
    return subprocess.run(command, env=env, capture_output=True, text=True, timeout=200, check=False)


def test_a_backup_is_whole_private_and_the_oldest_go(database_url: str, tmp_path: Path) -> None:
    for day in range(1, 4):
        (tmp_path / f"retoma-2020010{day}T000000Z.dump").touch()

    made = run("backup", DATABASE_URL=database_url, BACKUP_FOLDER=tmp_path, BACKUP_KEEP=2)

    assert made.returncode == 0, made.stderr
    dump = Path(made.stdout.strip())
    assert dump.stat().st_mode & 0o077 == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["retoma-20200103T000000Z.dump", dump.name]


def test_a_backup_that_fails_leaves_nothing_and_says_so(database_url: str, tmp_path: Path) -> None:
    nowhere = urlsplit(database_url)._replace(path="/no_such_database").geturl()

    made = run("backup", DATABASE_URL=nowhere, BACKUP_FOLDER=tmp_path)

    assert made.returncode == 1
    assert "no dump was made" in made.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_restore_never_writes_over_tables_that_are_there(database_url: str, tmp_path: Path) -> None:
    refused = run("restore", tmp_path / "any.dump", DATABASE_URL=database_url)

    assert refused.returncode == 1
    assert "has tables of Retoma already" in refused.stderr


async def test_a_dump_of_a_half_done_batch_is_finished_elsewhere_and_nothing_is_paid_again(
    fleet: Fleet, oracle: Oracle, empty_database_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Biller(tmp_path / "bill.jsonl", seconds=0.05) as biller:
        monkeypatch.setenv("PAID_URL", biller.base_url)
        async with Retoma(fleet.url, pipelines=paid_app.PIPELINES, providers=paid_app.PROVIDERS) as app:
            await app.calls.set_price(PROVIDER, MODEL, input=INPUT, output=OUTPUT)
            batch = await app.batch(paid_app.inquire, PAPERS, name="papers", key=lambda paper: paper.key)
        first = fleet.start("ana", app="paid_app:app", at_once=2)
        await until(lambda: oracle.states().get("completed", 0) >= 4, what="some are done")

        dumped = run("backup", DATABASE_URL=fleet.url, BACKUP_FOLDER=tmp_path)
        first.send(signal.SIGKILL, executors=True)
        assert dumped.returncode == 0, dumped.stderr
        restored = run("restore", dumped.stdout.strip(), DATABASE_URL=empty_database_url)
        assert restored.returncode == 0, restored.stderr

        with psycopg.connect(empty_database_url, autocommit=True) as connection:
            done, answered = _known(connection)
            assert 0 < len(done) < len(PAPERS)
            fleet.start("bia", app="paid_app:app", at_once=4, url=empty_database_url)
            await until(lambda: len(_known(connection)[0]) == len(PAPERS), seconds=240, what="it is finished there")
            rows = connection.execute("select job, fence from effects where step = 'record' order by job").fetchall()
        async with Retoma(empty_database_url, pipelines=paid_app.PIPELINES, providers=paid_app.PROVIDERS) as app:
            ended = await app.batches.get(batch.id)
            assert await app.system.verify() == []
        paid = biller.bill.by_request

    assert ended.state == "completed"
    assert len(rows) == len({job for job, _ in rows}) == len(PAPERS), "a document was recorded twice"
    assert done.items() <= dict(rows).items(), "what was done before the dump was done again"
    assert len(paid) == sum(paper.questions for paper in PAPERS)
    # What was asked after the dump, and before the kill, is unknown there and may be asked again.
    twice = {request[:24] for request, times in paid.items() if times > 1}
    assert twice.isdisjoint(answered), "what the dump knew as answered was paid again"


def _known(connection: psycopg.Connection[Any]) -> tuple[dict[int, int], set[str]]:
    """The jobs that are done, with the fence that their row was written with; the requests that are answered."""
    done = connection.execute(
        "select effect.job, effect.fence from effects as effect join retoma.jobs as job on job.id = effect.job"
        " where effect.step = 'record' and job.state = 'completed'"
    ).fetchall()
    answered = connection.execute("select request_id from retoma.calls where state = 'answered'").fetchall()
    return dict(done), {request.removeprefix("chat-") for (request,) in answered}

"""retoma status: one screen, and what to do next."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from retoma import Retoma
from retoma.cli import output

from .conftest import Run, here

ACCOUNT = "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds"


def advice(run: Run) -> list[str]:
    found: list[dict[str, str]] = json.loads(run("status", "--json").stdout)["next"]
    return [each["command"] for each in found]


def test_where_nothing_was_ever_done_it_says_how_to_begin(run: Run) -> None:
    ran = run("status")

    assert ran.exit_code == 0
    assert "PostgreSQL" in ran.stdout
    assert "Nobody works." in ran.stdout
    assert advice(run) == ["retoma worker --app myapp:app", "retoma enqueue --app myapp:app PIPELINE INPUT"]


def test_without_a_database_it_says_so_and_makes_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("DATABASE_URL", raising=False)
    monkeypatch.delenv("RETOMA_DATABASE_URL", raising=False)
    monkeypatch.setenv("RETOMA_HOME", str(tmp_path / "home"))

    told, as_json = here("status"), here("status", "--json")

    assert "There is no database yet" in told.stdout
    assert "Try: retoma up" in told.stdout
    assert json.loads(as_json.stdout)["database"] is None
    assert not (tmp_path / "home").exists()


def test_jobs_without_a_worker_a_paused_queue_and_what_failed_are_each_told_with_a_command(
    run: Run, work: Callable[[], int]
) -> None:
    run("enqueue", "stumble", '"a letter"')
    work()
    run("enqueue", "double", "1")
    run("queue", "pause", "plod")

    said = run("status").stdout

    assert "Nobody works, and jobs could run now: 1." in said
    assert "double\t1\t1\t0" in said
    assert advice(run) == [
        "retoma worker --app myapp:app",
        "retoma queue resume plod",
        "retoma job list --state failed",
    ]


def test_a_batch_that_needs_help_is_told_with_why_and_one_that_has_ended_is_not(
    run: Run, program: Retoma, work: Callable[[], int]
) -> None:
    async def make(name: str) -> int:
        async with program as app:
            return (await app.batch(app.registry.pipeline("double"), [1, 2], name=name)).id

    asyncio.run(make("over"))
    work()
    run("batch", "pause", str(asyncio.run(make("letters"))))
    found = json.loads(run("status", "--json").stdout)

    (batch,) = found["batches"]
    assert (batch["name"], batch["state"], batch["total"], batch["needs_help"]) == ("letters", "paused", 2, True)
    assert f"retoma batch explain {batch['id']}" in [each["command"] for each in found["next"]]
    assert batch["sentence"] in run("status").stdout


def test_a_queue_that_no_worker_serves_is_named(run: Run, psql: psycopg.Connection) -> None:
    run("enqueue", "double", "1")
    psql.execute(
        f"{ACCOUNT}, seen_at, lease_expires_at) values"
        " ('a', 'here', 1, '0', '{plod}', '{plod}', 1, 60, now(), now() + interval '1 minute')"
    )

    assert advice(run) == ["retoma worker --queues double --app myapp:app"]


def test_in_a_terminal_it_is_one_screen(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    run("enqueue", "double", "1")
    monkeypatch.setattr(output, "in_terminal", lambda: True)
    monkeypatch.setenv("COLUMNS", "80")

    said = run("status").stdout

    assert len(said.splitlines()) < 24
    assert "Try: retoma worker --app myapp:app" in said

"""The command line with --api says what it says on the database, and needs none."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import Any

import pytest
from click.testing import CliRunner, Result

import retoma.cli
from retoma.cli.speaking import SPEAKING
from retoma.pipelines.ready_app import ready

from .conftest import SECRET, Served

pytestmark = pytest.mark.timeout(600)


@pytest.fixture
def by_api(served: Served, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A command that asks the server; a database is out of its reach."""

    def run(*args: str) -> Result:
        monkeypatch.setenv("RETOMA_API_KEY", SECRET)
        monkeypatch.setenv("DATABASE_URL", "postgresql://nobody@127.0.0.1:1/nothing")
        return CliRunner().invoke(retoma.cli.main, [*args, "--api", served.url], prog_name="retoma")

    return run


@pytest.fixture
def by_database(served: Served, monkeypatch: pytest.MonkeyPatch) -> Any:
    def run(*args: str) -> Result:
        monkeypatch.setenv("DATABASE_URL", served.settings.database_url or "")
        ready.cache_clear()  # another test of this process may have made it, for another database
        return CliRunner().invoke(retoma.cli.main, args, prog_name="retoma")

    return run


@pytest.fixture(scope="module")
def batch(served: Served) -> str:
    """A batch of which one job failed."""
    with served.client() as client:
        id = client.batches.create("stumble", ["a.pdf"], name="papers", keys=["a"], labels={"team": "x"}).id
        served.work()
    return str(id)


@pytest.mark.parametrize(
    "command",
    [
        "batch list",
        "batch list --json --label team=x --limit 1",
        "batch show {batch}",
        "batch errors {batch}",
        "batch errors {batch} --json",
        "batch events {batch}",
        "batch plan {batch}",
        "batch plan {batch} --json",
        "job list --state failed",
        "job list --json --limit 2",
        "job show {job}",
        "job show {job} --json",
        "queue list",
        "queue list --json",
        "workers --all",
        "workers --all --json",
        "schedule list",
        "calls list",
        "calls spend --json",
        "prices list",
        "limits list",
        "errors",
        "errors --json",
        "search a.pdf",
        "search {job} --json",
        "operation list",
        "operation show 999999999",
        "review list --json",
        "batch show 999999999",
        "job show 999999999",
    ],
)
def test_a_command_prints_the_same_by_the_api_and_by_the_database(
    command: str, batch: str, served: Served, by_api: Any, by_database: Any
) -> None:
    job = served.ask(lambda client: client.jobs.find(batch_id=int(batch)))[0].id
    args = command.format(batch=batch, job=job).split()

    over_http, on_tables = by_api(*args), by_database(*args)

    assert over_http.exit_code == on_tables.exit_code, f"{over_http.output}{on_tables.output}"
    assert over_http.stdout == on_tables.stdout


def test_explain_names_the_verdict_and_the_advice_of_the_server(batch: str, by_api: Any, by_database: Any) -> None:
    over_http, on_tables = (
        json.loads(run("batch", "explain", batch, "--json").stdout) for run in (by_api, by_database)
    )

    # Times go on between the two looks, so the facts are compared by name.
    assert over_http.pop("evidence").keys() == on_tables.pop("evidence").keys()
    assert over_http == on_tables


@pytest.mark.usefixtures("batch")
def test_status_tells_where_the_server_is_and_what_to_do(served: Served, by_api: Any) -> None:
    seen = json.loads(by_api("status", "--json").stdout)

    assert served.url in seen["database"]["place"]
    assert seen["database"]["failed_jobs"] >= 1
    assert any("retoma" in each["command"] for each in seen["next"])


def test_a_watch_ends_with_the_exit_code_of_the_batch(batch: str, by_api: Any) -> None:
    watched = by_api("batch", "watch", batch)

    assert watched.exit_code == 8
    assert "1 failed" in watched.stderr


def test_a_batch_is_retried_paused_resumed_and_cancelled_over_http(served: Served, by_api: Any) -> None:
    with served.client() as client:
        id = client.batches.create("wait", ["x", "y"], name="waiting").id
    for command, state in (
        (f"batch pause {id} --reason lunch", "paused"),
        (f"batch change {id} --name other --label team=y", "paused"),
        (f"batch resume {id}", "queued"),
        (f"batch cancel {id}", "cancelled"),
        (f"batch retry-failed {id} --cancelled", "running"),
        (f"batch cancel {id}", "cancelled"),
        (f"batch restart {id} --yes", "running"),
        (f"batch cancel {id}", "cancelled"),
    ):
        done = by_api(*command.split())
        assert (done.exit_code, done.stdout) == (0, f"{id}\t{state}\n"), (command, done.stderr)
    assert by_api("batch", "pause", str(id)).exit_code == 4


def test_jobs_and_queues_are_acted_on_over_http(served: Served, by_api: Any) -> None:
    with served.client() as client:
        id = client.jobs.enqueue("wait", "z").id

    assert by_api("job", "cancel", str(id)).stdout == f"{id}\tcancelled\n"
    assert by_api("job", "retry", str(id), "999999999").exit_code == 3
    served.work()
    assert by_api("job", "signal", str(id), "answer", '"yes"').exit_code == 0
    served.work()
    assert by_api("job", "restart", str(id)).stdout == f"{id}\tqueued\n"
    assert by_api("queue", "pause", "wait").exit_code == 0
    assert by_api("queue", "resume", "wait").exit_code == 0
    assert by_api("queue", "weight", "wait", "2").exit_code == 0
    assert by_api("queue", "limit", "wait", "a", "none").exit_code == 0
    assert by_api("job", "cancel", str(id)).exit_code == 0


def test_many_jobs_are_acted_on_and_a_proposal_is_decided_over_http(served: Served, by_api: Any) -> None:
    with served.client() as client:
        failed, judged = client.jobs.enqueue("stumble", "o").id, client.jobs.enqueue("judge", "p").id
        served.work()
        [waiting] = client.reviews.find(job_id=judged)

        done = json.loads(by_api("operation", "run", "retry", "--id", str(failed), "--yes", "--json").stdout)
        accepted = by_api("review", "accept", str(waiting.id), "--note", "read")
        undone = by_api("review", "undo")
        corrected = by_api("review", "correct", str(waiting.id), '"Q"')

        assert (done["done"], client.jobs.get(failed).state) == (1, "queued")
        assert [each.exit_code for each in (accepted, undone, corrected)] == [0, 0, 0], corrected.stderr
        assert json.loads(client.jobs.get(judged).output or "") == "Q"
        client.calls.set_limit("p/m", requests=1)
        assert by_api("limits", "remove", "p/m").exit_code == 0
        client.jobs.cancel(failed)


@pytest.mark.parametrize(
    "command", ["prune --yes", "db status", "key list", "worker", "doctor", "job export", "verify"]
)
def test_a_command_that_needs_the_database_says_so(by_api: Any, command: str) -> None:
    refused = by_api(*command.split())

    assert refused.exit_code == 2
    assert "needs the database" in refused.stderr
    assert "DATABASE_URL" in refused.stderr


def test_what_no_server_does_is_said_by_a_command_that_asks_one(by_api: Any, tmp_path: Any) -> None:
    (tmp_path / "other.json").write_text("{}")

    refused = by_api("batch", "plan", "1", "--configuration", str(tmp_path / "other.json"))

    assert (refused.exit_code, "needs the database" in refused.stderr) == (2, True)


def test_a_wrong_key_is_told_with_what_to_do(served: Served, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RETOMA_API_KEY", "rtm_this_is_not_a_key_of_anybody")

    refused = CliRunner().invoke(retoma.cli.main, ["--api", served.url, "queue", "list"], prog_name="retoma")

    assert refused.exit_code == 2
    assert "RETOMA_API_KEY" in refused.stderr


def test_the_address_comes_from_the_environment_and_no_database_is_made(served: Served, tmp_path: Any) -> None:
    environment = {name: value for name, value in os.environ.items() if name != "DATABASE_URL"}
    environment |= {"RETOMA_API_URL": served.url, "RETOMA_API_KEY": SECRET, "RETOMA_HOME": str(tmp_path / "home")}

    def run(*args: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "retoma", *args]
        return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=100)

    assert run("queue", "list", "--json").returncode == 0
    assert run("prune", "--yes").returncode == 2
    assert not (tmp_path / "home").exists()


def test_every_command_that_speaks_to_a_server_is_a_command() -> None:
    main = retoma.cli.main
    with main.make_context("retoma", ["status"]) as context:
        for name, words in SPEAKING.items():
            command = main.get_command(context, name)
            assert command is not None, name
            for word in words:
                assert word in command.commands, f"{name} {word}"  # type: ignore[attr-defined]

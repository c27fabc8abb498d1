"""retoma job and enqueue: what they print, and what they change."""

import asyncio
import csv
import json
import os
import pty
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import psycopg
import pytest

from retoma import Retoma

from .conftest import Command, Run

Work = Callable[[], int]


def rows(printed: str) -> list[list[str]]:
    return [line.split("\t") for line in printed.splitlines()]


@pytest.fixture
def five(run: Run, work: Work) -> Run:
    """Job 1 is completed, job 2 failed, job 3 waits for a signal; 4 and 5 are for later."""
    run("enqueue", "double", "21")
    run("enqueue", "stumble", '"x.pdf"', "--key", "x")
    run("enqueue", "wait", '"reader"')
    work()
    run("enqueue", "double", "1", "--delay", "1h")
    run("enqueue", "plod", "2", "--delay", "1d")
    return run


def test_enqueue_prints_the_id_and_nothing_else(run: Run) -> None:
    ran = run("enqueue", "double", "21")

    assert (ran.exit_code, ran.stdout, ran.stderr) == (0, "1\n", "")


def test_enqueue_reads_standard_input(run: Run) -> None:
    run("enqueue", "double", "-", input="4")

    assert json.loads(run("job", "show", "1", "--json").stdout)["input"] == 4


def test_enqueue_with_a_key_gives_the_same_job_back(run: Run) -> None:
    run("enqueue", "double", "1", "--key", "one")

    ran = run("enqueue", "double", "1", "--key", "one")

    assert ran.stdout == "1\n"
    assert "has the key 'one' already" in ran.stderr


@pytest.mark.parametrize("text", ['"x"', "{", "null"])
def test_enqueue_refuses_what_the_pipeline_does_not_take(run: Run, text: str) -> None:
    ran = run("enqueue", "double", text)

    assert ran.exit_code == 2
    assert "This is not an input of 'double'" in ran.stderr
    assert run("job", "list").stdout == ""


def test_enqueue_of_an_unknown_pipeline_names_those_there_are(run: Run) -> None:
    ran = run("enqueue", "nothing", "1")

    assert ran.exit_code == 2
    assert "double, plod, stumble, wait" in ran.stderr
    assert ran.stderr.splitlines()[1].startswith("Try: Add it to pipelines=[…]")


def test_enqueue_of_a_misspelt_pipeline_asks_for_the_one_that_was_meant(run: Run) -> None:
    ran = run("enqueue", "doubl", "1")

    assert ran.stderr.splitlines()[1:] == ["Did you mean 'double'?"]


def test_without_a_program_enqueue_says_how_to_name_one(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RETOMA_APP")

    ran = run("enqueue", "double", "1")

    assert ran.exit_code == 2
    assert ran.stderr.splitlines()[1].startswith("Try: Name your own program with --app MODULE:ATTRIBUTE")


@pytest.mark.parametrize(
    ("text", "told"), [('"x"', "Give JSON of the type integer"), ("{", "Write it as JSON in single")]
)
def test_an_unfit_input_is_told_what_fits(run: Run, text: str, told: str) -> None:
    ran = run("enqueue", "double", text)

    assert ran.stderr.splitlines()[1].startswith(f"Try: {told}")


def test_the_jobs_of_one_batch(five: Run, program: Retoma) -> None:
    async def batch() -> int:
        async with program as app:
            return (await app.batch(app.registry.pipeline("double"), [7, 8], name="two")).id

    id = asyncio.run(batch())

    listed = rows(five("job", "list", "--batch", str(id)).stdout)

    assert len(listed) == 2
    assert five("job", "list", "--batch", str(id + 1)).stdout == ""


def test_a_pipe_gets_tabs_and_no_colour(five: Run) -> None:
    ran = five("job", "list")

    assert [row[:2] for row in rows(ran.stdout)] == [
        ["5", "queued"],
        ["4", "queued"],
        ["3", "queued"],
        ["2", "failed"],
        ["1", "completed"],
    ]
    assert {len(row) for row in rows(ran.stdout)} == {10}
    assert "\x1b" not in ran.stdout


def test_jobs_are_chosen_by_state_pipeline_queue_and_key(five: Run) -> None:
    def ids(*wanted: str) -> list[str]:
        return [row[0] for row in rows(five("job", "list", *wanted).stdout)]

    assert ids("--state", "failed") == ["2"]
    assert ids("--pipeline", "double") == ["4", "1"]
    assert ids("--queue", "plod") == ["5"]
    assert ids("--key", "x") == ["2"]
    assert ids("--limit", "2") == ["5", "4"]
    assert ids("--limit", "2", "--before", "4") == ["3", "2"]


def test_json_has_the_fields_of_a_job_with_its_values_opened(five: Run) -> None:
    listed = json.loads(five("job", "list", "--json").stdout)

    job = next(each for each in listed if each["id"] == 1)
    assert (job["state"], job["input"], job["output"]) == ("completed", 21, 42)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", job["created_at"])


def test_show_tells_the_attempts_the_checkpoints_and_the_error(five: Run) -> None:
    shown = json.loads(five("job", "show", "2", "--json").stdout)
    printed = five("job", "show", "2").stdout

    assert [(each["attempt"], each["ending"]) for each in shown["attempts"]] == [(1, "failed")]
    assert [(each["step"], each["value"]) for each in shown["checkpoints"]] == [("look", "X.PDF")]
    assert "ValueError: cannot read x.pdf" in shown["error"]
    assert "state\tfailed" in printed
    assert "ValueError: cannot read x.pdf" in printed


def test_an_unknown_job_is_exit_code_3(run: Run) -> None:
    ran = run("job", "show", "404")

    assert ran.exit_code == 3
    assert ran.stderr.splitlines()[0] == "There is no job 404."


def test_retry_queues_the_failed_and_says_what_it_could_not(five: Run) -> None:
    ran = five("job", "retry", "2", "404", "1")

    assert ran.stdout == "2\tqueued\n"
    assert "There is no job 404." in ran.stderr
    assert "Job 1 is completed" in ran.stderr
    assert ran.exit_code == 3


def test_retry_can_take_every_failed_job_of_a_pipeline(five: Run) -> None:
    assert five("job", "retry", "--all-failed", "--pipeline", "double").stdout == ""
    assert five("job", "retry", "--all-failed").stdout == "2\tqueued\n"


def test_an_id_that_no_job_can_have_is_exit_code_3_too(run: Run) -> None:
    ran = run("job", "show", "99999999999999999999")

    assert ran.exit_code == 3
    assert ran.stderr.splitlines()[0] == "There is no job 99999999999999999999."


def test_thousands_of_failed_jobs_are_retried_in_pieces(run: Run, psql: psycopg.Connection) -> None:
    psql.execute(
        "insert into retoma.jobs (queue, pipeline, state, attempt, max_attempts, timeout_seconds, input, finished_at)"
        " select 'double', 'double', 'failed', 1, 1, 60, '1', now() from generate_series(1, 2500)"
    )
    ran = run("job", "retry", "--all-failed", "--attempts", "4")

    assert ran.stdout.splitlines() == [f"{number}\tqueued" for number in range(1, 2501)]
    assert psql.execute("select state, max_attempts, count(*) from retoma.jobs group by 1, 2").fetchall() == [
        ("queued", 5, 2500)
    ]


def test_cancel_stops_what_waits_and_refuses_what_ended(five: Run) -> None:
    assert five("job", "cancel", "4", "5").stdout == "4\tcancelled\n5\tcancelled\n"
    ended = five("job", "cancel", "1")

    assert ended.exit_code == 4
    assert "Job 1 is completed and cannot be cancelled any more." in ended.stderr


def test_restart_begins_anew_and_keeps_what_was_saved_aside(five: Run, work: Work) -> None:
    assert five("job", "restart", "1").stdout == "1\tqueued\n"
    work()

    shown = json.loads(five("job", "show", "1", "--json").stdout)
    assert shown["output"] == 42
    assert sorted(bool(each["set_aside_at"]) for each in shown["checkpoints"]) == [False, True]


def test_a_signal_reaches_the_job_that_waits_for_it(five: Run, work: Work) -> None:
    assert "was told" in five("job", "signal", "3", "answer", '"go"').stderr
    assert "before" in five("job", "signal", "3", "answer", '"stop"').stderr
    work()

    assert json.loads(five("job", "show", "3", "--json").stdout)["output"] == "go"


def test_the_dead_letters_can_be_exported(five: Run, tmp_path: Path) -> None:
    lines = five("job", "export", "--state", "failed").stdout.splitlines()
    five("job", "export", "-o", str(tmp_path / "jobs.jsonl"))
    said = five("job", "export", "-o", str(tmp_path / "jobs.csv")).stderr

    assert [json.loads(line)["id"] for line in lines] == [2]
    assert len((tmp_path / "jobs.jsonl").read_text().splitlines()) == 5
    with (tmp_path / "jobs.csv").open(newline="") as file:
        exported = list(csv.DictReader(file))
    assert [(row["id"], row["state"], row["input"]) for row in exported][1] == ("2", "failed", '"x.pdf"')
    assert said.startswith("5 jobs were written")


def test_a_file_that_cannot_be_written_is_told(five: Run, tmp_path: Path) -> None:
    ran = five("job", "export", "-o", str(tmp_path / "nowhere" / "jobs.csv"))

    assert ran.exit_code == 2
    assert "cannot be written: No such file or directory" in ran.stderr


@pytest.mark.usefixtures("five")
def test_a_terminal_gets_a_table_with_headings(command: Command, database_url: str) -> None:
    ours, theirs = pty.openpty()
    subprocess.run(
        [sys.executable, "-m", "retoma", "job", "list"],
        env=command.environment | {"DATABASE_URL": database_url, "TERM": "xterm", "NO_COLOR": "1", "COLUMNS": "100"},
        stdout=theirs,
        stdin=theirs,
        check=True,
    )
    os.close(theirs)
    printed = os.read(ours, 100_000).decode()
    os.close(ours)

    assert re.sub(r"\x1b\[\d*m", "", printed).split()[:3] == ["id", "state", "reason"]
    assert "\t" not in printed
    assert "\x1b[" not in printed, "NO_COLOR: not even bold"


def test_the_command_does_the_same_as_a_process(command: Command, five: Run, database_url: str) -> None:
    ran = command("job", "list", "--state", "failed", DATABASE_URL=database_url)

    assert ran.returncode == 0
    assert ran.stdout == five("job", "list", "--state", "failed").stdout

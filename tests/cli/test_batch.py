"""retoma batch and its aliases: what they print, what they change, and how they end."""

import asyncio
import csv
import json
import os
import pty
import re
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retoma import Retoma, Retry, pipeline
from retoma import Run as JobRun
from retoma.testing import drain

from .conftest import Command, Run


@pipeline("read", retry=Retry(attempts=1))
async def read(name: str, run: JobRun) -> str:
    await run.step("open", name.upper)
    if name.startswith("bad"):
        raise ValueError(f"cannot read {name!r}")
    return name


class Desk:
    """An app on the database of the test, and a batch or two made with it."""

    def __init__(self, url: str) -> None:
        self.app = Retoma(url, pipelines=[read])

    def ask(self, question: Callable[[Retoma], Awaitable[Any]]) -> Any:
        async def asked() -> Any:
            async with self.app as app:
                return await question(app)

        return asyncio.run(asked())

    def batch(self, *names: str, **options: Any) -> int:
        made = self.ask(lambda app: app.batch(read, names, name="contracts", key=lambda name: name, **options))
        return int(made.id)

    def work(self) -> int:
        return asyncio.run(drain(self.app))


@pytest.fixture
def desk(run: Run, database_url: str) -> Desk:  # noqa: ARG001 - it says which database
    return Desk(database_url)


@pytest.fixture
def mixed(desk: Desk) -> Desk:
    """Batch 1 is completed: two jobs went well, two failed."""
    desk.batch("a.pdf", "bad1.pdf", "b.pdf", "bad2.pdf", labels={"client": "acme"}, configuration={"model": "small"})
    desk.work()
    return desk


def stall(psql: psycopg.Connection, id: int) -> None:
    """Let the batch have started long ago, with nobody there to work on it."""
    psql.execute(
        "update retoma.batches set state = 'running', was = 'queued', started_at = now() - interval '1 day',"
        " last_progress_at = now() - interval '1 day' where id = %s",
        [id],
    )
    psql.execute("update retoma.jobs set run_at = now() - interval '1 day' where batch_id = %s", [id])


@pytest.fixture
def stalled(run: Run, desk: Desk, psql: psycopg.Connection) -> Run:
    """Batch 1 stalled at the start: no worker is there."""
    desk.batch("a.pdf", "b.pdf", "c.pdf")
    stall(psql, 1)
    run("watchdog", "--once")
    return run


def rows(printed: str) -> list[list[str]]:
    return [line.split("\t") for line in printed.splitlines()]


def load(run: Run, *args: str) -> Any:
    return json.loads(run(*args, "--json").stdout)


# — looking —


def test_batches_are_chosen_by_state_pipeline_name_and_label(run: Run, mixed: Desk) -> None:
    mixed.batch("c.pdf", labels={"client": "other"})

    def ids(*wanted: str) -> list[str]:
        return [row[0] for row in rows(run("batch", "list", *wanted).stdout)]

    assert ids() == ["2", "1"]
    assert ids("--state", "completed") == ["1"]
    assert ids("--state", "completed", "--state", "queued") == ["2", "1"]
    assert ids("--pipeline", "nothing") == []
    assert ids("--label", "client=other") == ["2"]
    assert ids("--limit", "1") == ["2"]
    assert ids("--before", "2") == ["1"]


def test_json_has_the_fields_of_a_batch_with_money_as_text(run: Run, desk: Desk) -> None:
    desk.batch("a.pdf", budget=Decimal("2.50"), labels={"client": "acme"})

    (batch,) = load(run, "batch", "list")

    assert (batch["state"], batch["total"], batch["budget"], batch["labels"]) == (
        "queued", 1, "2.50", {"client": "acme"},
    )  # fmt: skip
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT[\d:.]+\+00:00", batch["created_at"])


@pytest.mark.usefixtures("mixed")
def test_show_tells_counts_steps_errors_and_why(run: Run) -> None:
    shown = load(run, "batch", "show", "1")
    printed = run("batch", "show", "1").stdout

    progress = shown["progress"]
    assert (progress["done"], progress["total"], progress["percent"], progress["failed"]) == (4, 4, 100.0, 2)
    assert [(step["step"], step["done"]) for step in shown["steps"]] == [("open", 4)]
    assert [(group["jobs"], group["first_keys"]) for group in shown["errors"]] == [(2, ["bad1.pdf", "bad2.pdf"])]
    assert shown["explanation"]["verdict"] == "completed"
    assert shown["configuration"] == {"model": "small"}
    assert "done\t4/4 (100%)" in printed
    assert "resumes\t0 of 3" in printed
    assert "command\tretoma batch retry-failed 1" in printed


@pytest.mark.usefixtures("mixed")
def test_errors_come_in_groups(run: Run) -> None:
    (group,) = load(run, "batch", "errors", "1")
    (row,) = rows(run("batch", "errors", "1").stdout)

    assert row[:2] == [group["fingerprint"], "2"]
    assert row[2:5] == ["ValueError", "ValueError: cannot read 'bad1.pdf'", "bad1.pdf,bad2.pdf"]


@pytest.mark.usefixtures("mixed")
def test_events_go_on_from_a_cursor_and_have_no_gap(run: Run) -> None:
    told = [json.loads(line) for line in run("batch", "events", "1", "--jsonl").stdout.splitlines()]
    later = rows(run("batch", "events", "1", "--after", "2").stdout)

    assert [event["seq"] for event in told] == [*range(1, len(told) + 1)]
    assert [event["kind"] for event in told][:2] == ["created", "sealed"]
    assert told[-1]["kind"] == "completed"
    assert [int(row[0]) for row in later] == [event["seq"] for event in told[2:]]
    assert load(run, "batch", "events", "1") == told


def test_explain_says_that_nobody_works_and_how_to_change_that(run: Run, desk: Desk) -> None:
    desk.batch("a.pdf")

    found = load(run, "batch", "explain", "1")
    printed = run("batch", "explain", "1").stdout

    assert (found["verdict"], found["needs_help"], found["action"]) == ("no_workers", True, "start_worker")
    assert "retoma worker --queues read" in printed
    assert "unfinished\t1" in printed


def test_plan_counts_what_a_resume_would_do(stalled: Run) -> None:
    plan = load(stalled, "batch", "plan", "1")

    assert (plan["can"], plan["skips"], plan["begins"], plan["batch"]["id"]) == (True, 0, 3, 1)
    assert "begins\t3" in stalled("batch", "plan", "1").stdout


@pytest.mark.usefixtures("mixed")
def test_plan_counts_what_another_configuration_would_do_again(run: Run, tmp_path: Path) -> None:
    same, other = tmp_path / "same.json", tmp_path / "other.json"
    same.write_text('{"model": "small"}')
    other.write_text('{"model": "large"}')

    def counts(file: Path) -> tuple[int, int, int]:
        plan = load(run, "batch", "plan", "1", "--configuration", str(file))
        return plan["skips"], plan["reruns"], plan["leaves_failed"]

    assert counts(same) == (2, 0, 2)
    assert counts(other) == (0, 2, 2)


@pytest.mark.parametrize("text", ["[1]", "{", None])
def test_a_configuration_must_be_a_file_with_an_object(run: Run, tmp_path: Path, text: str | None) -> None:
    file = tmp_path / "other.json"
    if text is not None:
        file.write_text(text)

    ran = run("batch", "plan", "1", "--configuration", str(file))

    assert ran.exit_code == 2
    assert "other.json" in ran.stderr


@pytest.mark.usefixtures("mixed")
def test_every_job_of_a_batch_is_exported_and_no_other(run: Run, tmp_path: Path) -> None:
    run("enqueue", "double", "1")
    lines = [json.loads(line) for line in run("batch", "export", "1").stdout.splitlines()]
    said = run("batch", "export", "1", "-o", str(tmp_path / "jobs.csv")).stderr
    run("batch", "export", "1", "-o", str(tmp_path / "jobs.txt"), "--format", "csv")

    assert {(job["key"], job["state"], job["attempt"], job["output"]) for job in lines} == {
        ("a.pdf", "completed", 1, "a.pdf"),
        ("b.pdf", "completed", 1, "b.pdf"),
        ("bad1.pdf", "failed", 1, None),
        ("bad2.pdf", "failed", 1, None),
    }
    assert "cannot read" in next(job["error"] for job in lines if job["state"] == "failed")
    with (tmp_path / "jobs.csv").open(newline="") as file:
        assert [row["key"] for row in csv.DictReader(file)] == [job["key"] for job in lines]
    assert (tmp_path / "jobs.txt").read_text() == (tmp_path / "jobs.csv").read_text()
    assert said.startswith("4 jobs were written")


def test_a_large_batch_is_exported_page_by_page(run: Run, desk: Desk) -> None:
    desk.batch(*(f"{number:04}.pdf" for number in range(1234)))

    keys = [json.loads(line)["key"] for line in run("batch", "export", "1").stdout.splitlines()]

    assert sorted(keys) == [f"{number:04}.pdf" for number in range(1234)]


@pytest.mark.parametrize(
    "words",
    [
        "show", "watch", "plan", "explain", "events", "errors", "resume", "retry-failed", "pause", "cancel",
        "restart --yes", "change --name x", "seal", "export",
    ],
)  # fmt: skip
def test_an_unknown_batch_is_exit_code_3(run: Run, words: str) -> None:
    verb, *options = words.split()

    ran = run("batch", verb, "404", *options)

    assert ran.exit_code == 3
    assert ran.stderr.splitlines()[0] == "There is no batch 404."
    assert ran.stderr.splitlines()[1].startswith("Try: ")


# — going on and stopping —


def serve(psql: psycopg.Connection) -> None:
    """A worker that serves all there is, and takes nothing."""
    psql.execute(
        "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds,"
        " lease_expires_at) select 'ana', 'here', 1, '0', array_agg(distinct queue), array_agg(distinct pipeline),"
        " 1, 60, now() + interval '1 h' from retoma.batches"
    )


def test_a_resume_that_nobody_can_carry_out_says_so_and_uses_none(stalled: Run, psql: psycopg.Connection) -> None:
    said = stalled("batch", "resume", "1")

    assert said.stdout == "1\trunning\n"
    assert "goes on as soon as a worker serves queue read; now none does, and no resume was used" in said.stderr
    assert said.stderr.splitlines()[-1] == "Try: retoma worker --queues read"
    assert psql.execute("select resumes from retoma.batches").fetchall() == [(0,)]


def test_a_stalled_batch_is_listed_and_resumed_once(stalled: Run, psql: psycopg.Connection) -> None:
    assert [row[:4] for row in rows(stalled("travadas").stdout)] == [["1", "contracts", "stalled", "no_workers"]]

    serve(psql)
    first = stalled("batch", "resume", "1")
    again = stalled("batch", "resume", "1")

    assert first.stdout == again.stdout == "1\trunning\n"
    assert "goes on (resume 1 of 3): 3 jobs are left" in first.stderr
    assert "is already running; nothing was changed" in again.stderr
    assert stalled("travadas").stdout == ""


def test_the_words_of_the_first_users_do_the_same(run: Run, mixed: Desk, psql: psycopg.Connection) -> None:
    mixed.batch("c.pdf")
    stall(psql, 2)
    run("watchdog", "--once")

    assert run("retomar", "2").stdout == "2\trunning\n"
    assert "2 jobs are tried again" in run("reprocessar-erros", "1").stderr


def test_a_resume_too_many_is_a_conflict_until_more_are_allowed(stalled: Run, psql: psycopg.Connection) -> None:
    psql.execute("update retoma.batches set resumes = 3")

    serve(psql)

    refused = stalled("batch", "resume", "1")
    allowed = stalled("batch", "resume", "1", "--max-resumes", "4")

    assert refused.exit_code == 4
    assert refused.stderr.splitlines()[0] == "Batch 1 was resumed 3 times, and 3 are allowed."
    assert "--max-resumes 4" in refused.stderr
    assert "resume 4 of 4" in allowed.stderr


def test_only_the_named_group_of_failures_is_tried_again(run: Run, mixed: Desk) -> None:
    (group,) = load(run, "batch", "errors", "1")

    nothing = run("batch", "retry-failed", "1", "--group", "0" * 12)
    tried = run("batch", "retry-failed", "1", "--group", group["fingerprint"])

    assert nothing.stdout == "1\tcompleted\n"
    assert "nothing was changed" in nothing.stderr
    assert tried.stdout == "1\trunning\n"
    assert mixed.work() == 2


def test_a_batch_rests_goes_on_and_is_stopped(run: Run, desk: Desk) -> None:
    desk.batch("a.pdf", "b.pdf")

    assert run("batch", "pause", "1", "--reason", "lunch").stdout == "1\tpaused\n"
    assert load(run, "batch", "show", "1")["reason"] == "lunch"
    assert desk.work() == 0
    assert run("batch", "resume", "1").stdout == "1\tqueued\n"
    assert run("batch", "cancel", "1").stdout == "1\tcancelled\n"
    assert run("batch", "pause", "1").exit_code == 4
    assert run("batch", "retry-failed", "1", "--cancelled").stdout == "1\trunning\n"
    assert desk.work() == 2


def test_a_command_on_a_large_batch_says_how_far_it_is(run: Run, desk: Desk, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("retoma.commands.operations.SMALL", 3)
    desk.batch(*(f"{number}.pdf" for number in range(5)))

    cancelled = run("batch", "cancel", "1")
    tried = run("batch", "retry-failed", "1", "--cancelled")

    assert (cancelled.stdout, cancelled.stderr.splitlines()[0]) == ("1\tcancelled\n", "cancel: 5 of 5 jobs")
    assert (tried.stdout, "5 jobs are tried again" in tried.stderr) == ("1\trunning\n", True)
    assert [each["kind"] for each in load(run, "batch", "show", "1")["operations"]] == ["retry", "cancel"]
    assert "retry" in run("batch", "show", "1").stdout
    assert desk.work() == 5


def test_a_restart_asks_first_and_says_what_it_costs(run: Run, mixed: Desk, tmp_path: Path) -> None:
    other = tmp_path / "other.json"
    other.write_text('{"model": "large"}')

    refused = run("batch", "restart", "1")
    done = run("batch", "restart", "1", "--yes", "--configuration", str(other))

    assert refused.exit_code == 2
    assert "All 4 jobs of batch 1 (contracts) would run anew, also the 2 that are done" in refused.stderr
    assert "Try: the same with --yes." in refused.stderr
    assert done.stdout == "1\trunning\n"
    assert mixed.work() == 4
    assert load(run, "batch", "show", "1")["configuration"] == {"model": "large"}


def test_the_rest_of_a_batch_is_re_planned_and_its_cohorts_are_compared(run: Run, desk: Desk, tmp_path: Path) -> None:
    desk.batch("a.pdf", "b.pdf")
    other = tmp_path / "other.json"
    other.write_text('{"model": "large"}')

    done = run("batch", "replan", "1", "--configuration", str(other), "--note", "larger")
    again = run("batch", "replan", "1", "--configuration", str(other))
    first, second = load(run, "batch", "cohorts", "1")

    assert (done.exit_code, "2 jobs of batch 1 run under the new configuration." in done.stderr) == (0, True)
    assert "has this configuration already" in again.stderr
    assert (first["jobs"], second["jobs"], second["note"]) == (0, 2, "larger")
    assert "larger" in run("batch", "cohorts", "1").stdout


def test_a_batch_that_is_at_work_is_not_restarted(run: Run, desk: Desk) -> None:
    desk.batch("a.pdf")

    ran = run("batch", "restart", "1", "--yes")

    assert ran.exit_code == 4
    assert "only one that has ended" in ran.stderr


def test_a_batch_is_changed_and_keeps_its_other_labels(run: Run, desk: Desk) -> None:
    desk.batch("a.pdf", labels={"client": "acme"})

    ran = run(
        "batch", "change", "1", "--name", "new", "--max-resumes", "7", "--max-failure-rate", "0.25",
        "--stall-seconds", "60", "--budget", "9.50", "--label", "team=blue",
    )  # fmt: skip

    assert ran.exit_code == 0
    found = load(run, "batch", "show", "1")
    assert {name: found[name] for name in ("name", "max_resumes", "max_failure_rate", "stall_seconds", "budget")} == {
        "name": "new", "max_resumes": 7, "max_failure_rate": 0.25, "stall_seconds": 60.0, "budget": "9.50",
    }  # fmt: skip
    assert found["labels"] == {"client": "acme", "team": "blue"}


@pytest.mark.parametrize("options", [(), ("--budget", "much"), ("--label", "blue"), ("--max-failure-rate", "2")])
def test_a_change_that_makes_no_sense_is_refused(run: Run, desk: Desk, options: tuple[str, ...]) -> None:
    desk.batch("a.pdf")

    assert run("batch", "change", "1", *options).exit_code == 2


def test_an_open_batch_is_sealed_when_it_is_whole(run: Run, desk: Desk) -> None:
    async def fill(app: Retoma) -> None:
        opened = await app.batches.open(read, name="bit by bit")
        await app.batches.fill(opened.id, read, ["a.pdf", "b.pdf"], key=str)

    desk.ask(fill)

    assert run("batch", "seal", "1", "--expected", "3").exit_code == 4
    assert run("batch", "seal", "1", "--expected", "2").stdout == "1\tqueued\n"
    assert desk.work() == 2


# — watching —


@pytest.mark.usefixtures("mixed")
def test_a_watch_ends_with_8_when_some_jobs_failed(run: Run) -> None:
    ran = run("batch", "watch", "1")

    assert ran.exit_code == 8
    assert [row[1:5] for row in rows(ran.stdout)] == [["completed", "4", "4", "100.0"]]
    assert "retoma batch retry-failed 1" in ran.stderr


def test_a_watch_ends_with_0_when_all_went_well_and_1_when_it_was_stopped(run: Run, desk: Desk) -> None:
    desk.batch("a.pdf")
    desk.batch("b.pdf")
    run("batch", "cancel", "2")
    desk.work()

    assert run("batch", "watch", "1").exit_code == 0
    assert json.loads(run("batch", "watch", "1", "--jsonl").stdout)["completed"] == 1
    assert run("batch", "watch", "2").exit_code == 1


def test_a_watch_ends_with_9_when_it_stalled_and_names_what_helps(stalled: Run) -> None:
    ran = stalled("batch", "watch", "1")

    assert ran.exit_code == 9
    assert "has stalled at 0 of 3; nothing that is done is lost" in ran.stderr
    assert "retoma worker --queues read" in ran.stderr


def test_ctrl_c_leaves_the_watch_and_not_the_work(command: Command, desk: Desk, run: Run, database_url: str) -> None:
    desk.batch("a.pdf")
    watching = command.start("batch", "watch", "1", DATABASE_URL=database_url)
    assert watching.stdout
    assert watching.stdout.readline().split("\t")[1] == "queued"

    watching.send_signal(signal.SIGINT)
    said = watching.communicate(timeout=120)[1]

    assert watching.returncode == 130
    assert "You left the watch; the work goes on." in said
    assert "Traceback" not in said
    assert desk.work() == 1
    assert load(run, "batch", "show", "1")["state"] == "completed"


def test_a_watch_follows_the_work_to_its_end(command: Command, desk: Desk, database_url: str) -> None:
    desk.batch("a.pdf", "b.pdf", "c.pdf")
    watching = command.start("batch", "watch", "1", DATABASE_URL=database_url)
    assert watching.stdout
    first = watching.stdout.readline()

    desk.work()
    rest, said = watching.communicate(timeout=120)

    counted = [int(line.split("\t")[2]) for line in (first + rest).splitlines()]
    assert (counted[0], counted[-1], counted == sorted(counted)) == (0, 3, True)
    assert watching.returncode == 0
    assert "is completed: 3 jobs" in said


def test_a_watch_says_why_nothing_moves(command: Command, desk: Desk, database_url: str) -> None:
    desk.batch("a.pdf")
    watching = command.start("batch", "watch", "1", DATABASE_URL=database_url)
    assert watching.stderr

    assert "worker serves queue read" in watching.stderr.readline()
    assert watching.stderr.readline().startswith("Start a worker; it then goes on by itself")
    assert watching.stderr.readline() == "Try: retoma worker --queues read\n"


def test_a_long_configuration_does_not_fill_the_screen_and_is_whole_for_programs(
    desk: Desk, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    told = {"model": "small", "prompt": "Read it. " * 500}
    desk.batch("a.pdf", configuration=told)
    piped = run("batch", "show", "1").stdout
    monkeypatch.setattr("retoma.cli.output.in_terminal", lambda: True)

    seen = run("batch", "show", "1").stdout

    assert f"configuration\t{json.dumps(told)}" in piped
    assert '{"model": "small", "prompt": "Read it. ' in seen
    assert seen.count("Read it.") < 20


def on_a_terminal(command: Command, url: str, *args: str) -> tuple[int, str]:
    """The command's exit code and what a person at a terminal of 100 columns sees."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "retoma", *args],
        env=command.environment | {"DATABASE_URL": url, "TERM": "xterm-256color", "COLUMNS": "100"},
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
    )
    os.close(theirs)
    printed = b""
    while True:
        try:
            piece = os.read(ours, 65536)
        except OSError:  # how Linux tells that nobody is at the other end any more
            break
        if not piece:
            break
        printed += piece
    os.close(ours)
    return process.wait(timeout=120), printed.decode()


@pytest.mark.usefixtures("stalled")
def test_the_bar_of_a_stalled_batch_is_amber(command: Command, database_url: str) -> None:
    code, printed = on_a_terminal(command, database_url, "batch", "watch", "1")

    assert code == 9
    assert "\x1b[33m░" in printed
    assert "0/3 " in printed
    assert "retoma worker --queues read" in printed
    assert printed.count("\x1b[?25l") == printed.count("\x1b[?25h")  # the cursor is given back


@pytest.mark.usefixtures("mixed")
def test_a_terminal_gets_bars_tables_and_one_line_for_many_jobs(command: Command, database_url: str) -> None:
    shown = on_a_terminal(command, database_url, "batch", "show", "1")[1]
    told = on_a_terminal(command, database_url, "batch", "events", "1")[1]
    planned = on_a_terminal(command, database_url, "batch", "plan", "1")[1]

    assert "▕" in shown
    assert "errors 2" in shown
    assert "\t" not in shown + told + planned
    assert "2 completed, 2 failed" in told
    assert "skip" in planned
    assert all(len(line) <= 100 for line in re.sub(r"\x1b\[[\d;?]*[a-zA-Z]", "", shown + told).splitlines())


def test_a_person_who_does_not_agree_restarts_nothing(command: Command, mixed: Desk, database_url: str) -> None:
    assert mixed
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-m", "retoma", "batch", "restart", "1"],
        env=command.environment | {"DATABASE_URL": database_url, "TERM": "xterm"},
        stdin=theirs,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.write(ours, b"n\n")
    said = process.communicate(timeout=120)[1]
    os.close(theirs)
    os.close(ours)

    assert process.returncode == 1
    assert "Nothing was changed." in said
    assert mixed.work() == 0


def test_the_command_does_the_same_as_a_process(command: Command, mixed: Desk, run: Run, database_url: str) -> None:
    assert mixed

    ran = command("batch", "list", "--json", DATABASE_URL=database_url)

    assert ran.returncode == 0
    assert ran.stdout == run("batch", "list", "--json").stdout

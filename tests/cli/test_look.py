"""retoma queue, schedule, workers, metrics and prune."""

import asyncio
import json
from collections.abc import Callable

import psycopg
import pytest

from retoma import Retoma

from .conftest import Run


def test_queues_show_how_many_wait_and_whether_they_are_paused(run: Run) -> None:
    run("enqueue", "double", "1")
    run("enqueue", "double", "2", "--delay", "1h")
    run("queue", "pause", "double", "--reason", "rent")

    (queue,) = json.loads(run("queue", "list", "--json").stdout)
    line = run("queue", "list").stdout.split("\t")

    assert (queue["name"], queue["waiting"], queue["due"], queue["paused_reason"]) == ("double", 2, 1, "rent")
    assert line[:4] == ["double", "2", "1", "0"]


def test_a_paused_queue_gives_nothing_out_until_it_is_resumed(run: Run, work: Callable[[], int]) -> None:
    run("enqueue", "double", "1")
    run("queue", "pause", "double")
    assert work() == 0

    assert "goes on" in run("queue", "resume", "double").stderr
    assert work() == 1


def test_a_queue_is_paused_until_a_time(run: Run) -> None:
    run("enqueue", "double", "1")

    told = run("queue", "pause", "double", "--for", "2h")
    (queue,) = json.loads(run("queue", "list", "--json").stdout)

    assert "is paused until" in told.stderr
    assert queue["paused_until"] is not None
    assert run("queue", "pause", "double", "--for", "2h", "--until", "2199-01-01T00:00").exit_code == 2
    assert run("queue", "pause", "double", "--until", "2001-01-01T00:00").exit_code != 0
    assert run("queue", "pause", "double", "--until", "soon").exit_code == 2


def test_a_queue_that_nobody_knows_is_paused_with_a_word_of_doubt_and_not_resumed(run: Run) -> None:
    run("enqueue", "double", "1")
    assert "No job is in a queue called doubel" in run("queue", "pause", "doubel").stderr
    assert "No job is in" not in run("queue", "pause", "double").stderr
    assert "No job is in a queue called tripel" in run("queue", "limit", "tripel", "a", "2").stderr

    assert run("queue", "resume", "nope").exit_code == 3
    assert "Queue doubel goes on." in run("queue", "resume", "doubel").stderr
    assert "Queue doubel was not paused." in run("queue", "resume", "doubel").stderr


def test_a_limit_has_a_name(run: Run) -> None:
    ran = run("limits", "set", "", "--requests", "5")

    assert ran.exit_code == 2
    assert "A limit's name has 1 to 500 characters" in ran.stderr
    assert run("limits", "list").stdout == ""


def test_a_cost_that_nobody_knows_is_called_so_until_there_is_a_price(run: Run, psql: psycopg.Connection) -> None:
    psql.execute(
        "insert into retoma.calls (key, provider, model, request, state, answer, answered_at, cost_basis, input_tokens,"
        " output_tokens) values ('k', 'acme', 'large-1', '{}', 'answered', '{}', now(), 'unpriced', 1000000, 500000)"
    )
    listed = run("calls", "list").stdout.split("\t")
    spent = run("calls", "spend")
    assert (listed[8], listed[10]) == ("1000000+500000", "unknown")
    assert spent.stdout.split("\t")[4:9] == ["unknown", "0", "0", "0", "1"]
    assert "1 calls of unknown cost are in no sum" in spent.stderr
    assert "0 calls have a cost now" in run("calls", "reprice").stderr

    prices = ("--input", "2", "--output", "4", "--cache-write", "3", "--tier", "standard")
    assert "costs 2 in and 4 out" in run("prices", "set", "acme", "large-1", *prices).stderr
    assert "1 calls have a cost now: US$ 4 in all." in run("calls", "reprice").stderr
    assert run("calls", "list").stdout.split("\t")[10] == "4"
    assert "in tier batch" in run("prices", "set", "acme", "large-1", "--input", "1", "--tier", "batch").stderr
    assert [line.split("\t")[2] for line in run("prices", "list").stdout.splitlines()] == ["", "batch"]


def test_a_price_may_begin_on_another_day(run: Run, psql: psycopg.Connection) -> None:
    assert run("prices", "set", "openai", "gpt-x", "--input", "2", "--since", "2024-02-29").exit_code == 0
    assert run("prices", "set", "openai", "gpt-x", "--input", "3").exit_code == 0

    days = psql.execute("select since::text, since = current_date from retoma.prices order by since").fetchall()
    assert [(days[0][0], days[0][1]), days[1][1]] == [("2024-02-29", False), True]
    assert run("prices", "set", "openai", "gpt-x", "--since", "yesterday").exit_code == 2


def test_calls_are_listed_page_by_page(run: Run, psql: psycopg.Connection) -> None:
    psql.execute(
        "insert into retoma.calls (key, provider, model, request, state)"
        " select number, 'openai', 'gpt-x', '{}', 'failed' from generate_series(1, 3) as number"
    )
    first = json.loads(run("calls", "list", "--limit", "2", "--json").stdout)
    rest = json.loads(run("calls", "list", "--before", str(first[-1]["id"]), "--json").stdout)

    assert [each["id"] for each in first + rest] == [3, 2, 1]


def test_a_lane_is_limited_and_set_free(run: Run, psql: psycopg.Connection) -> None:
    def limit() -> object:
        row = psql.execute("select at_once from retoma.lanes where queue = 'double' and name = 'a'").fetchone()
        return row[0] if row else "no lane"

    run("queue", "limit", "double", "a", "2")
    assert limit() == 2
    run("queue", "limit", "double", "a", "none")
    assert limit() is None


def test_schedules_are_listed_run_paused_resumed_and_removed(run: Run, program: Retoma) -> None:
    async def plan() -> None:
        async with program:
            await program.schedules.put(program.registry.pipeline("double"), 5, name="nightly", cron="0 4 * * *")

    asyncio.run(plan())

    (schedule,) = json.loads(run("schedule", "list", "--json").stdout)
    assert (schedule["name"], schedule["cron"], schedule["input"]) == ("nightly", "0 4 * * *", 5)
    assert run("schedule", "run", "nightly").stdout == "1\n"
    run("schedule", "pause", "nightly")
    assert json.loads(run("schedule", "list", "--json").stdout)[0]["paused_at"]
    assert "goes on" in run("schedule", "resume", "nightly").stderr
    run("schedule", "remove", "nightly")
    assert run("schedule", "list").stdout == ""


def test_a_schedule_whose_pipeline_nobody_serves_is_pointed_out(
    run: Run, program: Retoma, psql: psycopg.Connection
) -> None:
    async def plan() -> None:
        async with program:
            await program.schedules.put(program.registry.pipeline("double"), 5, name="nightly", cron="0 4 * * *")
            await program.schedules.put(program.registry.pipeline("wait"), "x", name="asking", cron="0 4 * * *")

    asyncio.run(plan())
    assert "No worker serves" not in run("schedule", "list").stderr, "nobody works at all"
    psql.execute(
        "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds,"
        " lease_expires_at) values ('here', 'here', 1, '0', '{wait}', '{wait}', 1, 300, now() + interval '5 minutes')"
    )

    word = "No worker serves pipeline double of schedule nightly: its jobs wait."
    assert run("schedule", "list").stderr.count("No worker serves") == 1
    assert word in run("schedule", "list").stderr
    assert word in run("schedule", "run", "nightly").stderr
    assert "No worker" not in run("schedule", "run", "asking").stderr
    (found,) = [each for each in json.loads(run("doctor", "--json").stdout) if each["what"] == "schedules"]
    assert (found["level"], "nightly (pipeline double)" in found["seen"]) == ("amber", True)
    run("schedule", "pause", "nightly")
    assert "No worker" not in run("schedule", "list").stderr
    assert "schedules" not in {each["what"] for each in json.loads(run("doctor", "--json").stdout)}


def test_an_unknown_schedule_is_exit_code_3(run: Run) -> None:
    for verb in ("run", "pause", "resume", "remove"):
        assert run("schedule", verb, "never").exit_code == 3


def test_workers_who_stopped_are_shown_when_asked_for(run: Run, work: Callable[[], int]) -> None:
    work()

    assert run("workers").stdout == ""
    (worker,) = json.loads(run("workers", "--all", "--json").stdout)
    assert worker["alive"] is False


def test_metrics_carry_the_seven_names(run: Run, work: Callable[[], int]) -> None:
    run("enqueue", "double", "1")
    run("enqueue", "stumble", '"x"')
    work()
    (worker,) = json.loads(run("workers", "--all", "--json").stdout)

    figures = json.loads(run("metrics", worker["label"], "--json").stdout)

    assert list(figures) == [
        "jobsClaimed",
        "jobsCompleted",
        "jobsFailed",
        "jobsRetried",
        "jobsRecovered",
        "avgJobDurationMs",
        "stuckJobCount",
    ]
    assert (figures["jobsClaimed"], figures["jobsCompleted"], figures["jobsFailed"]) == (2, 1, 1)
    assert "jobsClaimed\t2" in run("metrics", worker["label"]).stdout


def test_metrics_of_nobody_are_exit_code_3(run: Run) -> None:
    assert run("metrics", "nobody").exit_code == 3


def test_prune_removes_what_ended_long_ago(run: Run, work: Callable[[], int], psql: psycopg.Connection) -> None:
    run("enqueue", "double", "1")
    run("enqueue", "double", "2")
    work()
    psql.execute("update retoma.jobs set finished_at = now() - interval '8 days' where id = 1")

    assert run("prune", "--yes").stdout == "0\n"
    assert run("prune", "--older-than", "1w", "--yes").stdout == "1\n"
    assert [line.split("\t")[0] for line in run("job", "list").stdout.splitlines()] == ["2"]


def test_prune_asks_first_and_without_anybody_to_ask_removes_nothing(
    run: Run, work: Callable[[], int], monkeypatch: pytest.MonkeyPatch
) -> None:
    run("enqueue", "double", "1")
    work()

    refused = run("prune", "--older-than", "0s")
    assert refused.exit_code == 2
    assert "more than 0 days ago are removed" in refused.stderr
    assert "--yes" in refused.stderr

    monkeypatch.setattr("retoma.cli.workers.somebody_is_here", lambda: True)
    assert run("prune", "--older-than", "0s", input="n\n").exit_code == 2
    assert [line.split("\t")[0] for line in run("job", "list").stdout.splitlines()] == ["1"]

"""retoma queue, schedule, workers, metrics and prune."""

import asyncio
import json
from collections.abc import Callable

import psycopg

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
            await program.schedule(program.front.pipeline("double"), 5, name="nightly", cron="0 4 * * *")

    asyncio.run(plan())

    (schedule,) = json.loads(run("schedule", "list", "--json").stdout)
    assert (schedule["name"], schedule["cron"], schedule["input"]) == ("nightly", "0 4 * * *", 5)
    assert run("schedule", "run", "nightly").stdout == "1\n"
    run("schedule", "pause", "nightly")
    assert json.loads(run("schedule", "list", "--json").stdout)[0]["paused_at"]
    assert "goes on" in run("schedule", "resume", "nightly").stderr
    run("schedule", "remove", "nightly")
    assert run("schedule", "list").stdout == ""


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

    assert run("prune").stdout == "0\n"
    assert run("prune", "--older-than", "1w").stdout == "1\n"
    assert [line.split("\t")[0] for line in run("job", "list").stdout.splitlines()] == ["2"]

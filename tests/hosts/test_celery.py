"""Worker loops beside a real Celery on a real Redis: nodes are lost, jobs and quotes are not."""

from __future__ import annotations

import os
import signal
import subprocess
from collections import Counter
from pathlib import Path

import pytest
from node_stage import Stage, until

from retoma import Retoma

pytest.importorskip("celery", reason="Celery is not installed: pip install 'retoma[celery]'")
from guest_program import guest

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

HERE = Path(__file__).parent
QUOTES = """
create table quote_requests (
    id bigint generated always as identity primary key,
    status text not null default 'PENDING',
    processing_checkpoint text,
    last_heartbeat timestamp,
    worker_id varchar(100),
    resume_data json,
    started_at timestamp,
    completed_at timestamp,
    progress_percentage int,
    attempt_number int not null default 0,
    error_message text
);
"""


def node(stage: Stage, redis: str, name: str, **variables: str) -> subprocess.Popen[bytes]:
    command = ["-m", "celery", "--app", "guest_program:celery", "worker", "--hostname", f"{name}@here"]
    command += ["--concurrency", "2", "--loglevel", "info", "--without-gossip", "--without-mingle"]
    return stage.start(name, command, REDIS_URL=redis, HEARTBEAT_TIMEOUT="6", **variables)


async def enqueue(stage: Stage, count: int) -> list[int]:
    async with Retoma(stage.url, pipelines=[guest]) as app:
        return [receipt.id for receipt in await app.enqueue_many(guest, range(count))]


def ended(stage: Stage) -> bool:
    return not stage.one("select count(*) from retoma.jobs where queue = 'guest' and state in ('queued', 'running')")


def has_begun_one(stage: Stage, one: subprocess.Popen[bytes]) -> bool:
    return bool(set(stage.executors(one)) & {pid for _, pid in stage.lines()})


async def test_a_node_is_lost_and_every_job_is_done_once(stage: Stage, redis: str) -> None:
    first, second = node(stage, redis, "first"), node(stage, redis, "second")
    until(lambda: stage.executors(first) and stage.executors(second), "both loops have an executor")
    jobs = await enqueue(stage, 200)
    until(lambda: has_begun_one(stage, first) and has_begun_one(stage, second), "both nodes work")
    stage.kill_node(first)
    until(lambda: ended(stage), "all jobs end")

    effects = Counter(job for (job,) in stage.psql.execute("select job from effects").fetchall())
    assert effects == Counter(jobs)
    assert stage.one("select count(*) from retoma.jobs where queue = 'guest' and state = 'completed'") == len(jobs)
    begun = Counter(job for job, _ in stage.lines())
    assert begun.total() - len(jobs) <= 4, "only what the lost node had at hand was begun again"
    labels = stage.psql.execute("select distinct label from retoma.workers").fetchall()
    assert {label for (label,) in labels} == {"first@here", "second@here"}


async def test_a_loop_that_dies_is_started_again_by_its_node(stage: Stage, redis: str) -> None:
    alone = node(stage, redis, "alone")
    until(lambda: stage.executors(alone), "the loop has an executor")
    (loop,) = stage.loops(alone)
    loop.kill()
    until(lambda: [each.pid for each in stage.loops(alone) if each.pid != loop.pid], "another loop")
    jobs = await enqueue(stage, 5)
    until(lambda: ended(stage), "all jobs end")

    assert Counter(job for job, _ in stage.lines()) == Counter(jobs)


async def test_a_warm_shutdown_drains_and_leaves_nothing_behind(stage: Stage, redis: str) -> None:
    alone = node(stage, redis, "alone", GUEST_SECONDS="1")
    jobs = await enqueue(stage, 20)
    until(lambda: has_begun_one(stage, alone), "it works")
    everybody = stage.tree(alone)
    os.kill(alone.pid, signal.SIGTERM)
    until(lambda: alone.poll() is not None, "the node ends")

    assert alone.returncode == 0
    until(lambda: not any(each.is_running() for each in everybody), "nothing is left")
    assert stage.one("select count(*) from retoma.jobs where state = 'running'") == 0
    done = Counter(job for (job,) in stage.psql.execute("select job from effects").fetchall())
    begun = Counter(job for job, _ in stage.lines())
    assert begun == done, "what was begun was finished"
    assert 0 < len(done) < len(jobs)


async def test_a_node_whose_main_process_is_killed_takes_its_loop_along(stage: Stage, redis: str) -> None:
    alone = node(stage, redis, "alone")
    until(lambda: stage.executors(alone), "the loop has an executor")
    (loop,) = stage.loops(alone)
    alone.kill()
    alone.wait()

    until(lambda: not loop.is_running(), "the loop ends")


def test_a_task_of_ones_own_is_resumed_on_another_node(stage: Stage, redis: str) -> None:
    stage.psql.execute(QUOTES)
    quotes = [
        stage.psql.execute("insert into quote_requests default values returning id").fetchone()[0]  # type: ignore[index]
        for _ in range(8)
    ]
    first, second = node(stage, redis, "first"), node(stage, redis, "second")
    until(lambda: stage.executors(first) and stage.executors(second), "both nodes are there")
    stage.start("sender", [str(HERE / "guest_sender.py"), *map(str, quotes)], REDIS_URL=redis, HEARTBEAT_TIMEOUT="6")
    held = "select count(*) from quote_requests where worker_id like '%%:' || %s || ':%%'"
    until(
        lambda: any(stage.psql.execute(held, (str(each.pid),)).fetchone() != (0,) for each in stage.tree(first)),
        "a quote is at hand on the first node",
    )
    stage.kill_node(first)
    done = "select count(*) from quote_requests where status = 'DONE'"
    until(lambda: stage.one(done) == len(quotes), "all quotes end")

    stages = Counter(["ai", "shopping", *(f"product/{number}" for number in range(1, 6)), "final"])
    paid = [Counter((stage.folder / f"quote-{quote}.log").read_text().split()) for quote in quotes]
    again = sum(((each - stages) for each in paid), Counter())
    assert all(each.keys() == stages.keys() for each in paid)
    assert again.total() <= 2, "only what the lost node was paying for at that moment is paid again"
    assert stage.one("select sum(attempt_number) from quote_requests") in (1, 2)
    assert stage.one("select count(*) from quote_requests where worker_id is not null or completed_at is null") == 0

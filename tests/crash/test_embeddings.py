"""Embedding workers side by side: three of them, callers at once, and one killed between the call and the store."""

from __future__ import annotations

import json
import os
import signal
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx2
import psycopg
import pytest
from embeddings_app import Diarist
from fleet import Fleet, Member, until

from retoma import Retoma
from retoma.pipelines import EMBEDDINGS
from retoma.pipelines.embeddings.library import Embeddings, NewText
from retoma.pipelines.embeddings.pipeline import hash_of
from retoma.providers import Embedder
from retoma.web.server.server import listen, served, url_of

pytestmark = [pytest.mark.crash, pytest.mark.timeout(600)]

TEXTS = 60
AT_ONCE = 3


@pytest.fixture
async def app(fleet: Fleet) -> AsyncIterator[Retoma]:
    providers: dict[type, object] = {Embedder: Diarist(str(fleet.file))}
    async with Retoma(fleet.url, extensions=[EMBEDDINGS], providers=providers) as app:
        yield app


@asynccontextmanager
async def over_http(app: Retoma) -> AsyncIterator[httpx2.AsyncClient]:
    with listen("127.0.0.1", 0) as listening:
        async with served(app, listening), httpx2.AsyncClient(base_url=url_of(listening), timeout=30) as client:
            yield client


def start(fleet: Fleet, label: str, *, at_once: int = AT_ONCE) -> Member:
    """What somebody types into a terminal: WORKER_ID=… retoma worker."""
    command = ["-m", "retoma", "worker", "--app", "embeddings_app:app"]
    command += ["--queues", "embeddings", "--processes", "1", "--at-once", str(at_once)]
    # A busy machine must cost nobody the lease, nor the patience at the gate.
    patient = {"RETOMA_LEASE_SECONDS": "90", "RETOMA_STATEMENT_SECONDS": "90"}
    told = {"DATABASE_URL": fleet.url, "WORKER_ID": label}
    return fleet._join(label, command, fleet.environment() | patient | told)


def said(number: int, content: str) -> NewText:
    return NewText(organisation="acme", site="main", source_type="page", source_id=str(number), content=content)


def diary(fleet: Fleet) -> Counter[str]:
    """How often each text was asked for."""
    return Counter(line.split()[0] for line in fleet.file.read_text().splitlines())


async def test_three_workers_share_the_queue_and_one_that_is_killed_before_it_stores_costs_nothing(
    fleet: Fleet, app: Retoma, psql: psycopg.Connection
) -> None:
    library = Embeddings(app)
    await library.add_many([said(number, f"texto {number} antigo") for number in range(AT_ONCE)])
    first = start(fleet, "worker-0")
    await until(lambda: count(psql, "embedding_sources where active") == AT_ONCE, what="old versions are stored")
    first.send(signal.SIGTERM)
    assert await first.exit_code() == 0
    contents = [f"texto {number}" for number in range(TEXTS)]
    await library.add_many([said(number, content) for number, content in enumerate(contents)])

    with psycopg.connect(fleet.url) as gate:
        # Nobody can store: every worker comes as far as the answer, and waits with it in hand.
        gate.execute("lock table retoma.embeddings in share mode")
        workers = [start(fleet, f"worker-{number}") for number in (1, 2, 3)]
        at_the_gate = 3 * AT_ONCE
        await until(
            lambda: count(psql, "checkpoints where step = 'embed'") == at_the_gate + AT_ONCE,
            what="each worker has as many answers as it has hands",
        )
        found_meanwhile = psql.execute("select version from retoma.embedding_sources where active").fetchall()
        held = psql.execute(
            "select distinct worker.label from retoma.jobs as job join retoma.workers as worker"
            " on worker.id = job.worker_id where job.state = 'running'"
        ).fetchall()
        victim = workers[1]
        # What it has counted it tells with its heartbeat; what it has not told yet would die with it.
        told = f"workers where label = '{victim.label}' and claimed >= {AT_ONCE}"
        await until(lambda: count(psql, told) == 1, what="its heart has beaten since it claimed")
        victim.send(signal.SIGKILL, executors=True)
        await victim.exit_code()
        psql.execute(
            "update retoma.workers set lease_expires_at = now() - interval '1 second' where label = %s", (victim.label,)
        )
        gate.rollback()
    await until(lambda: count(psql, "embeddings") == TEXTS + AT_ONCE, what="all are stored")
    await until(lambda: count(psql, f"{OURS} and state = 'completed'") == TEXTS + AT_ONCE, what="all have ended")

    assert {label for (label,) in held} == {"worker-1", "worker-2", "worker-3"}
    assert found_meanwhile == [(1,)] * AT_ONCE, "the old versions were found until the new ones were stored"
    asked = diary(fleet)
    assert asked.keys() >= {hash_of(content) for content in contents}
    assert set(asked.values()) == {1}, "a text was paid twice"
    calls = psql.execute("select state, count(*) from retoma.calls group by state").fetchall()
    assert calls == [("answered", TEXTS + AT_ONCE)]
    assert (await library.status()).states == {"active": TEXTS, "off": AT_ONCE}
    recovered = psql.execute("select count(distinct job_id) from retoma.attempts where ending = 'lost'").fetchone()
    assert recovered == (AT_ONCE,)
    await the_figures_are_those_of_the_attempts(app, psql, [workers[0], workers[2]])
    assert await app.system.verify() == []


async def the_figures_are_those_of_the_attempts(app: Retoma, psql: psycopg.Connection, workers: list[Member]) -> None:
    """What each worker says of itself, over HTTP, is what the attempts say of it; each did some."""
    for worker in workers:
        worker.send(signal.SIGTERM)
        assert await worker.exit_code() == 0
    async with over_http(app) as client:
        for worker in workers:
            figures = (await client.get(f"/api/v1/workers/{worker.label}/metrics")).json()
            done = count(
                psql,
                "attempts as attempt join retoma.workers as worker on worker.id = attempt.worker_id"
                f" where worker.label = '{worker.label}' and attempt.ending = 'completed'",
            )
            assert figures["jobsCompleted"] == done > 0
            assert figures["jobsClaimed"] >= done
            assert figures["stuckJobCount"] == 0
        claimed = (await client.get("/api/v1/workers/worker-2/metrics")).json()["jobsClaimed"]
    assert claimed == AT_ONCE


OURS = "jobs where pipeline = 'embeddings'"
"""Without the maintenance jobs, which come by the clock."""


def count(psql: psycopg.Connection, what: str) -> int:
    row = psql.execute(f"select count(*) from retoma.{what}").fetchone()  # type: ignore[arg-type]
    assert row is not None
    return int(row[0])


async def test_one_content_posted_fifty_times_at_once_is_one_job_and_one_call(
    fleet: Fleet, app: Retoma, psql: psycopg.Connection
) -> None:
    content = "O mesmo texto, dito por todos."
    async with over_http(app) as client:
        url = str(client.base_url)
        callers = [fleet.call(f"caller-{number}", "embeddings_callers.py", url, 10, content) for number in range(5)]
        worker = start(fleet, "worker-1")
        for caller in callers:
            assert await caller.exit_code(60) == 0
        await until(lambda: count(psql, "embedding_sources where active") == 7, what="every source is found")
        worker.send(signal.SIGTERM)
        assert await worker.exit_code() == 0

    answers: list[dict[str, Any]] = [each for caller in callers for each in json.loads(caller.words().splitlines()[-1])]
    assert len(answers) == 50
    assert sum(each["new"] for each in answers) == 1
    assert count(psql, OURS) == 1
    assert [{each["job_id"] for each in answers}] == [{id} for (id,) in psql.execute(f"select id from retoma.{OURS}")]
    assert diary(fleet) == {hash_of(content): 1}
    assert count(psql, "embeddings") == 1
    assert count(psql, "embedding_sources") == 7, "a source that says the same again has no new version"


async def test_the_id_of_a_request_is_in_the_log_of_the_worker_and_in_every_row(
    fleet: Fleet, app: Retoma, psql: psycopg.Connection
) -> None:
    trace = os.urandom(16).hex()
    sent = {"request-4711": {"X-Correlation-ID": "request-4711"}, trace: {"traceparent": f"00-{trace}-{trace[:16]}-01"}}
    async with over_http(app) as client:
        for number, (id, headers) in enumerate(sent.items()):
            text = {"organisation": "acme", "site": "main", "source_type": "page", "source_id": f"{number}"}
            answer = await client.post("/api/v1/embeddings", json={"texts": [text | {"content": id}]}, headers=headers)
            assert answer.headers["x-correlation-id"] == id
    worker = start(fleet, "worker-1")
    await until(lambda: count(psql, f"{OURS} and state = 'completed'") == 2, what="both are embedded")
    worker.send(signal.SIGTERM)
    assert await worker.exit_code() == 0

    for job, id in enumerate(sent, start=1):
        (line,) = [said for said in worker.events("attempt.ended") if said.get("correlationId") == id]
        (executor,) = psql.execute("select worker_id from retoma.attempts where job_id = %s", (job,)).fetchall()
        assert {name: line[name] for name in ("workerId", "jobId", "jobType", "attempts", "status")} == {
            "workerId": executor[0],
            "jobId": job,
            "jobType": "embeddings",
            "attempts": 1,
            "status": "completed",
        }
        assert line["durationMs"] >= 0
        assert line["workerLabel"] == "worker-1"
        for table in ("jobs where id", "embeddings where job_id", "embedding_sources where job_id"):
            rows = psql.execute(f"select correlation_id from retoma.{table} = %s", (job,)).fetchall()
            assert rows == [(id,)], table

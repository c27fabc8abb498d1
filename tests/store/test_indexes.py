"""The walks of a worker go along an index, however large the table is."""

from __future__ import annotations

from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from retoma import Settings
from retoma.database import connection_options
from retoma.query import Query
from retoma.store import jobs, workers


@pytest.fixture
def many(psql: psycopg.Connection) -> psycopg.Connection:
    """Twenty thousand ended jobs, a few that wait, a few that run."""
    psql.execute(
        "insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds,"
        " lease_expires_at) select 'w', 'h', 1, '1', '{q}', '{p}', 1, 60, now() from generate_series(1, 50)"
    )
    psql.execute(
        "insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input, state, finished_at)"
        " select 'q', 'p', 3, 60, '1', 'completed', now() from generate_series(1, 20000)"
    )
    psql.execute(
        "insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input, state, worker_id)"
        " select 'q', 'p', 3, 60, '1', 'running', number % 3 + 1 from generate_series(1, 30) as number"
    )
    psql.execute("analyze retoma.jobs, retoma.workers")
    return psql


def plan_of(connection: psycopg.Connection, query: Query[object]) -> str:
    rows = connection.execute(f"explain {query.sql}", query.params).fetchall()
    return "\n".join(row[0] for row in rows)


def test_recovery_finds_the_jobs_of_silent_workers_by_their_index(many: psycopg.Connection) -> None:
    plan = plan_of(many, jobs.recover())

    assert "jobs_held" in plan
    assert "Seq Scan on jobs" not in plan


def test_what_a_worker_holds_is_found_by_its_index(many: psycopg.Connection) -> None:
    plan = plan_of(many, workers.called_off([1, 2]))

    assert "jobs_held" in plan
    assert "Seq Scan on jobs" not in plan


# — how deep the queue is —


@pytest.fixture
def hot(database_url: str, settings: Settings) -> Iterator[psycopg.Connection]:
    """A connection as workers have it."""
    with psycopg.Connection.connect(database_url, **connection_options(settings, hot=True)) as connection:
        yield connection


def pages_read(connection: psycopg.Connection, query: Query[object]) -> int:
    """How many pages of the tables and their indexes it looks at; nothing of what it does stays."""
    with connection.transaction(force_rollback=True):
        row = connection.execute(f"explain (analyze, buffers, format json) {query.sql}", query.params).fetchone()
    assert row is not None
    plan = row[0][0]["Plan"]
    return int(plan["Shared Hit Blocks"] + plan["Shared Read Blocks"])


@pytest.mark.usefixtures("many")
def test_a_claim_looks_at_as_little_of_a_deep_queue_as_of_a_shallow_one(
    psql: psycopg.Connection, hot: psycopg.Connection
) -> None:
    def wait(number: int) -> None:
        psql.execute(
            "insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input)"
            " select 'q', 'p', 3, 60, '1' from generate_series(1, %s)",
            [number],
        )
        psql.execute("vacuum analyze retoma.jobs")

    claim = jobs.claim(1, ["q"], ["p"], limit=10, token=uuid4(), after_lane=-1)
    wait(100)
    shallow = pages_read(hot, claim)
    wait(60_000)
    deep = pages_read(hot, claim)

    assert shallow > 10, "it took ten"
    # An index of six hundred times as many entries is a level higher, and each descent reads a page more.
    assert deep < 2 * shallow

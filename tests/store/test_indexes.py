"""The walks of a worker go along an index, however large the table is."""

from __future__ import annotations

import psycopg
import pytest

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

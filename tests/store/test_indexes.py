"""The walks of a worker go along an index, however large the table is."""

from __future__ import annotations

import time
from collections.abc import Iterator
from uuid import uuid4

import psycopg
import pytest

from retoma import Settings
from retoma.model.validation import LARGEST_ID
from retoma.postgres.database import connection_options, fetch_sync
from retoma.store import batches, calls, health, jobs, looking, operations, queues, workers
from retoma.store.batches import Piece
from retoma.store.looking import Filter, Span
from retoma.store.query import Query
from retoma.store.turns import Turns


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
    claim = jobs.claim(1, ["q"], ["p"], limit=10, token=uuid4(), turns=Turns())
    wait(psql, 100)
    psql.execute("vacuum analyze retoma.jobs")
    shallow = pages_read(hot, claim)
    wait(psql, 60_000)
    psql.execute("vacuum analyze retoma.jobs")
    deep = pages_read(hot, claim)

    assert shallow > 10, "it took ten"
    # An index of six hundred times as many entries is a level higher, and each descent reads a page more.
    assert deep < 2 * shallow


# — what ended long ago, and the jobs of large batches —

ROWS = 60_000


@pytest.fixture(scope="module")
def grown(server: str, template: str) -> Iterator[psycopg.Connection]:
    """Many ended jobs alone and in batches, many calls, nothing that is past its time."""
    name = f"{template}_grown"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database if exists {name} with (force)")
        connection.execute(f"create database {name} template {template}")
    with psycopg.connect(server.rsplit("/", 1)[0] + f"/{name}", autocommit=True) as connection:
        connection.execute(
            "insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input, state, finished_at,"
            " batch_id) select 'q', 'p', 3, 60, '1', 'completed', now() - number * interval '1 second',"
            " case when number %% 2 = 0 then 1 + number %% 3 end from generate_series(1, %s) as number",
            [ROWS],
        )
        connection.execute(
            "insert into retoma.batches (name, pipeline, queue, lane_id, max_resumes, stall_seconds, state, was, total,"
            " sealed_at, finished_at) select 'b', 'p', 'q', 1, 3, 300, 'completed', 'running', 50000, now(), now()"
            " from generate_series(1, 5000)"
        )
        connection.execute(
            "insert into retoma.calls (key, provider, model, request) select 'k', 'p', 'm', '1'"
            " from generate_series(1, %s)",
            [ROWS],
        )
        connection.execute(
            "insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input, state, worker_id)"
            " select 'q', 'p', 3, 60, '1', 'running', number from generate_series(1, 20) as number"
        )
        connection.execute(
            "update retoma.jobs set state = 'review', pipeline = 'rare' where id in (select min(id) from retoma.jobs)"
        )
        connection.execute("vacuum analyze")
        yield connection
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"drop database {name} with (force)")


LONG = 40 * 86_400.0


@pytest.mark.parametrize(
    "query",
    [
        jobs.prune(LONG), batches.end_waiting(LONG), batches.retire(LONG), batches.prune(), calls.prune(LONG),
        health.overstays(LONG),
    ],
    ids=["jobs", "waiting", "retired", "batches", "calls", "overstays"],
)  # fmt: skip
def test_what_is_past_its_time_is_found_by_an_index_and_not_by_reading_all(
    grown: psycopg.Connection, query: Query[object]
) -> None:
    plan = plan_of(grown, query)

    for table in ("jobs", "batches", "calls"):
        assert f"Seq Scan on {table}" not in plan
    # Old calls whose job is gone: the figure looks at a thousand of them, and never at more.
    assert pages_read(grown, query) < (8000 if query is not None and "oldest" in query.sql else 50)


# — what cannot be served —


def lanes(psql: psycopg.Connection, number: int, *, closed: bool, delay: str) -> None:
    psql.execute(
        "with lane as (insert into retoma.lanes (queue, name, closed_at, awake, wake_at)"
        "  select 'q', %(name)s || number, case when %(closed)s then now() end, %(closed)s, now() + %(delay)s::interval"
        "    from generate_series(1, %(number)s) as number returning id)"
        "insert into retoma.jobs (queue, lane_id, pipeline, max_attempts, timeout_seconds, input, run_at)"
        " select 'q', lane.id, 'p', 3, 60, '1', now() + %(delay)s::interval from lane",
        {"name": f"{closed} {delay} ", "closed": closed, "number": number, "delay": delay},
    )


def wait(psql: psycopg.Connection, number: int, *, pipeline: str = "p", delay: str = "0") -> None:
    psql.execute(
        "insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input, run_at)"
        " select 'q', %s, 3, 60, '1', now() + %s::interval from generate_series(1, %s)",
        [pipeline, delay, number],
    )


def vacuum(psql: psycopg.Connection) -> None:
    """Vacuum when no other session, such as an autovacuum that analyses, has a snapshot that keeps dead rows."""
    others = "datname = current_database() and pid <> pg_backend_pid() and backend_xmin is not null"
    while psql.execute(f"select from pg_stat_activity where {others}").rowcount:
        time.sleep(0.05)
    psql.execute("vacuum (analyze, index_cleanup on)")


@pytest.mark.usefixtures("many")
def test_a_claim_looks_at_nothing_that_cannot_be_served(psql: psycopg.Connection, hot: psycopg.Connection) -> None:
    claim = jobs.claim(1, ["q"], ["p"], limit=10, token=uuid4(), turns=Turns())
    wait(psql, 1000)
    vacuum(psql)
    before = pages_read(hot, claim)

    lanes(psql, 1000, closed=True, delay="0")
    lanes(psql, 5000, closed=False, delay="1 hour")
    wait(psql, 20_000, delay="1 hour")
    wait(psql, 20_000, pipeline="a pipeline of another program")
    vacuum(psql)
    after = pages_read(hot, claim)

    # Three indexes are a level higher.
    assert after < 1.5 * before
    psql.execute("delete from retoma.jobs where state = 'queued' and lane_id = 0 and pipeline = 'p' and run_at < now()")
    vacuum(psql)
    assert pages_read(hot, claim) < 60
    assert pages_read(hot, jobs.suspects(["q"], ["p"])) < 10


@pytest.mark.usefixtures("many")
def test_a_lane_with_five_thousand_places_costs_what_one_with_five_does(
    psql: psycopg.Connection, hot: psycopg.Connection
) -> None:
    def pages(at_once: int) -> int:
        psql.execute("delete from retoma.lanes; delete from retoma.jobs where state = 'queued'")
        fetch_sync(hot, queues.lanes("q", ["tenant"], at_once=at_once))
        wait(psql, 100)
        psql.execute("update retoma.jobs set lane_id = (select id from retoma.lanes) where state = 'queued'")
        vacuum(psql)
        return pages_read(hot, jobs.claim(1, ["q"], ["p"], limit=5, token=uuid4(), turns=Turns()))

    few, many_places = pages(5), pages(5000)

    assert many_places < 1.5 * few


# — lists —


@pytest.mark.parametrize(
    "wanted",
    [
        Filter(), Filter(state="review"), Filter(state="cancelled"), Filter(state="queued"), Filter(state="running"),
        Filter(pipeline="rare"), Filter(queue="nowhere"), Filter(key="none"), Filter(key="none", pipeline="p"),
        Filter(batch_id=2), Filter(batch_id=2, state="failed"), Filter(batch_id=2, pipeline="other"),
        Filter(state="review", queue="nowhere"), Filter(pipeline="rare", state="completed"),
    ],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_a_list_by_any_filter_looks_at_a_bounded_number_of_rows(
    grown: psycopg.Connection, wanted: Filter, mode: str
) -> None:
    query = looking.walk_for(wanted, Span(before=LARGEST_ID, limit=51, look=1000))
    grown.execute(f"set plan_cache_mode = {mode}")

    assert "Seq Scan on jobs" not in plan_of(grown, query)
    # A walk of a thousand rows of the table, and once more of its index; the whole is far more.
    assert pages_read(grown, query) < 150
    assert grown.execute("select relpages > 600 from pg_class where oid = 'retoma.jobs'::regclass").fetchone() == (
        True,
    )


@pytest.mark.parametrize(
    "wanted",
    [Filter(pipeline="rare"), Filter(queue="nowhere"), Filter(queue="nowhere", pipeline="rare"),
     Filter(pipeline="rare", state="completed"), Filter(state="completed", queue="nowhere"), Filter(state="queued")],
    ids=str,
)  # fmt: skip
@pytest.mark.parametrize("mode", ["force_custom_plan", "force_generic_plan"])
def test_what_is_rare_is_looked_for_to_the_end_of_the_table_without_reading_it(
    grown: psycopg.Connection, wanted: Filter, mode: str
) -> None:
    query = looking.walk_kind(wanted, Span(before=LARGEST_ID, limit=51, look=1000))
    grown.execute(f"set plan_cache_mode = {mode}")

    assert "Seq Scan on jobs" not in plan_of(grown, query)
    assert pages_read(grown, query) < 150


def test_the_counts_of_queues_read_what_waits_and_runs_and_not_what_has_ended(grown: psycopg.Connection) -> None:
    assert "Seq Scan on jobs" not in plan_of(grown, queues.all())
    assert pages_read(grown, queues.all()) < 50


@pytest.mark.parametrize("after", [0, ROWS - 300])
def test_a_piece_of_a_command_reads_its_own_jobs_and_not_the_rest_of_the_batch(
    grown: psycopg.Connection, after: int
) -> None:
    for query in (
        batches.retry_failed(
            2, Piece(after=after, limit=100), held=[after + 1], fingerprint=None, cancelled=True, attempts=None
        ),
        batches.hold_jobs(2, Piece(after=after, limit=100), ("failed",)),
        batches.cancel_jobs(2, Piece(after=after, limit=100)),
        operations.open(),
    ):
        assert "Seq Scan on jobs" not in plan_of(grown, query)
        assert pages_read(grown, query) < 50
    assert pages_read(grown, batches.restart(2, Piece(after=after, limit=100))) < 6000


def test_a_list_reads_no_bodies(psql: psycopg.Connection) -> None:
    psql.execute(
        "insert into retoma.jobs (queue, pipeline, max_attempts, timeout_seconds, input)"
        " select 'q', 'p', 3, 60, to_json((select string_agg(md5((number * part)::text), '')"
        " from generate_series(1, 10000) as part)) from generate_series(1, 20) as number"
    )
    ids = [id for (id,) in psql.execute("select id from retoma.jobs")]

    short = pages_read(psql, looking.some(ids, content=False))
    whole = pages_read(psql, looking.some(ids, content=True))

    assert short < 100
    assert whole > 500

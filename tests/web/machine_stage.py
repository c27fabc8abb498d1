"""A machine at work, for the tests of its pages: queues, lanes, executors with jobs, limits, calls, schedules."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import psycopg

from retoma import Retoma

from .conftest import House, double, wait

EXECUTORS = """
insert into retoma.workers (label, host, pid, version, queues, pipelines, at_once, lease_seconds, lease_expires_at,
                            seen_at, claimed, completed, failed, busy_seconds, memory_megabytes, doing, stopped_at,
                            reason)
values ('ana', 'alpha', 11, '0.1', '{double,wait}', '{double,wait}', 4, 60, now() + interval '10 minutes', now(),
        40, 37, 1, 12, 180.5, null, null, null),
       ('ana', 'alpha', 12, '0.1', '{double,wait}', '{double,wait}', 4, 60, now() + interval '10 minutes', now(),
        10, 9, 0, 3, 95, null, null, null),
       ('bia', 'beta', 21, '0.1', '{stumble}', '{stumble}', 2, 60, now() - interval '2 minutes',
        now() - interval '3 minutes', 5, 4, 0, 1, null, null, null, null),
       ('ana', 'alpha', 10, '0.1', '{double}', '{double}', 4, 60, now() - interval '1 hour', now() - interval '1 hour',
        5, 4, 0, 1, null, null, now() - interval '1 hour', 'lost')
returning id
"""
CALLS = """
insert into retoma.calls (key, provider, model, job_id, batch_id, step, kind, state, request, answer, cost, cost_basis,
                          input_tokens, output_tokens, asked_at, answered_at, pipeline, reserved)
select 'k' || n, case when n %% 5 = 0 then 'anthropic' else 'openai' end,
       case when n %% 5 = 0 then 'claude' else 'gpt' end,
       %(job)s, %(batch)s, 'ask', case when n %% 7 = 0 then 'again' else 'first' end,
       case when n %% 11 = 0 then 'doubtful' else 'answered' end, '{"prompt": "jabuticaba"}',
       case when n %% 11 = 0 then null else '{"text": "jabuticaba"}' end,
       case when n %% 11 = 0 or n = 3 then null else 0.01 * n end,
       case when n %% 11 = 0 then null when n = 3 then 'unpriced' else 'public' end, 100 * n, 10 * n,
       now() - make_interval(hours => 9 * n), case when n %% 11 = 0 then null else now() - make_interval(hours => 9 * n)
       + interval '2 s' end, 'double', case when n %% 11 = 0 then 0.05 else 0 end
  from generate_series(0, 40) as n
returning id
"""
LIMITS = """
insert into retoma.limits (name, requests, tokens, at_once, opened_until, failures, reason, cooled_until)
values ('openai/gpt', 60, 90000, 4, now() + interval '1 hour', 6, 'HTTP 503', null),
       ('anthropic/claude', 10, null, null, null, 0, '429', now() + interval '10 minutes')
"""


def furnish(house: House, psql: psycopg.Connection) -> dict[str, int]:
    """Fill the house; the ids of what is in it."""

    async def made(app: Retoma) -> tuple[int, int]:
        batch = await app.batch(
            double,
            list(range(12)),
            name="Petições de março",
            key=str,
            labels={"cliente": "ana"},
            at_once=2,
            budget=Decimal(20),
        )
        await app.enqueue_many(wait, [f"carta {n}" for n in range(5)], lane="cartas")
        await app.queues.limit_lane("wait", "cartas", at_once=3)
        await app.schedules.put(double, 4, name="toda noite", cron="0 4 * * 1-5", zone="America/Sao_Paulo")
        ran = await app.schedules.run("toda noite")
        return int(batch.id), ran

    batch, ran = house.ask(made)
    house.work()
    more: list[int] = house.ask(_more)
    ids = [row[0] for row in psql.execute(EXECUTORS).fetchall()]
    _hand(psql, ids[0], more[0], "ler")
    _hand(psql, ids[0], more[1], None)
    psql.execute(LIMITS)
    psql.execute(
        "update retoma.jobs set reason = 'limited: openai/gpt', run_at = now() + interval '1 hour' where id = %s",
        [more[2]],
    )
    calls = psql.execute(CALLS, {"job": ran, "batch": batch}).fetchall()
    house.client.post("/api/v1/queues/stumble/pause", json={"reason": "manutenção do provedor"})
    return {"batch": batch, "ran": ran, "held": more[0], "sleeping": more[2], "worker": ids[0], "call": calls[1][0]}


async def _more(app: Retoma) -> list[int]:
    made: list[Any] = await app.enqueue_many(double, list(range(100, 106)), key=lambda n: f"arquivo-{n}.pdf")
    return [each.id for each in made]


def _hand(psql: psycopg.Connection, worker: int, job: int, step: str | None) -> None:
    """Let an executor hold a job, as after a claim and a heartbeat."""
    psql.execute(
        "update retoma.jobs set state = 'running', worker_id = %s, fence = 1, attempt = 1, claimed_at = now() "
        "where id = %s",
        [worker, job],
    )
    psql.execute(
        "update retoma.workers set doing = (coalesce(doing, '[]')::jsonb || jsonb_build_object("
        "'job', %s::bigint, 'fence', 1, 'step', %s::text))::json where id = %s",
        [job, step, worker],
    )

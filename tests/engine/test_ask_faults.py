"""A model asked while things go wrong: a connection cut inside a statement, a time-out, a provider that restarts."""

from __future__ import annotations

import asyncio
from collections import Counter
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from retoma import JobState, Retry, Run, pipeline, store
from retoma.postgres.database import Database
from retoma.providers import Answer, Chat, Prompt, ProviderDown, RateLimited, Usage
from retoma.store.query import Query
from retoma.testing import drain

LIMIT = "openai/gpt-4o-mini"
GOOD = '{"kind": "petition"}'


class Kind(BaseModel):
    kind: str


class Teller:
    """A provider that says what it was told to say, in turn, and counts what it was asked."""

    provider, model = LIMIT.split("/")

    def __init__(self, *says: Any) -> None:
        self.says = list(says)
        self.asked = 0
        self.gate: asyncio.Event | None = None

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002
        self.asked += 1
        said = self.says.pop(0) if self.says else GOOD
        if self.gate:
            await self.gate.wait()
        if isinstance(said, Exception):
            raise said
        return Answer(raw=said, text=said, model=self.model, usage=Usage(input_tokens=1000, output_tokens=100))


def down() -> ProviderDown:
    return ProviderDown("503", provider="openai", status=503, paid=False)


@pipeline("ask", retry=Retry(attempts=1))
async def ask(text: str, run: Run, *, chat: Chat) -> Kind:
    return await run.ask("classify", chat, f"What is {text}?", into=Kind, repairs=1)


@pipeline("ask-again", retry=Retry(attempts=3, wait=0.0))
async def ask_again(text: str, run: Run, *, chat: Chat) -> Kind:
    return await run.ask("classify", chat, f"What is {text}?", into=Kind)


def calls(psql: psycopg.Connection, columns: str = "kind, state") -> list[Any]:
    return psql.execute(f"select {columns} from retoma.calls order by id").fetchall()


# — a connection that is cut —

CUT = """
create sequence cuts;
create function cut() returns trigger language plpgsql as $$
begin
    if nextval('cuts') = 1 then  -- a sequence goes on, though the statement is lost
        perform pg_terminate_backend(pg_backend_pid());
        perform pg_sleep(1);
    end if;
    return coalesce(new, old);
end $$;
create trigger cut before {} for each row execute function cut();
"""


def cut(psql: psycopg.Connection, where: str) -> None:
    """The next statement that does *where* loses its connection."""
    psql.execute(CUT.format(where))


def was_cut(psql: psycopg.Connection) -> bool:
    return bool(psql.execute("select is_called from cuts").fetchone() == (True,))


@pytest.mark.parametrize(
    "where",
    [
        "insert on retoma.calls",
        "update on retoma.calls",
        "update on retoma.limits",
        "insert on retoma.permits",
        "delete on retoma.permits",
        "insert on retoma.prices",
    ],
)
async def test_a_connection_lost_inside_any_statement_costs_no_attempt_and_no_second_request(
    app_with: Any, psql: psycopg.Connection, where: str
) -> None:
    teller = Teller()
    app = await app_with(ask, providers={Chat: teller})
    await app.calls.set_limit(LIMIT, requests=6000, at_once=2)
    cut(psql, where)
    job = await app.enqueue(ask, "this")
    await drain(app)

    assert was_cut(psql)
    found = await app.jobs.get(job.id)
    assert (found.state, found.attempt, teller.asked) == (JobState.COMPLETED, 1, 1)
    assert calls(psql) == [("first", "answered")]
    assert psql.execute("select * from retoma.permits").fetchall() == [], "no seat is forgotten"


async def test_a_connection_lost_while_a_name_is_first_used_costs_no_attempt(
    app_with: Any, psql: psycopg.Connection
) -> None:
    app = await app_with(ask, providers={Chat: Teller()})
    cut(psql, "insert on retoma.limits")
    job = await app.enqueue(ask, "this")
    await drain(app)

    assert was_cut(psql)
    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED


@pytest.mark.parametrize("where", ["update of failures on retoma.limits", "delete on retoma.permits"])
async def test_what_the_provider_said_is_not_replaced_by_what_the_database_said(
    app_with: Any, psql: psycopg.Connection, where: str
) -> None:
    app = await app_with(ask, providers={Chat: Teller(down())})
    await app.calls.set_limit(LIMIT, at_once=1)
    cut(psql, where)
    job = await app.enqueue(ask, "this")
    await drain(app)

    assert was_cut(psql)
    found = await app.jobs.get(job.id)
    assert (found.state, found.reason) == (JobState.FAILED, "ProviderDown")
    assert psql.execute("select * from retoma.permits").fetchall() == []


@pytest.mark.parametrize("where", ["update of cooled_until on retoma.limits", "update on retoma.calls"])
async def test_a_limited_request_stays_one_when_the_connection_is_lost(
    app_with: Any, psql: psycopg.Connection, where: str
) -> None:
    limited = RateLimited("429", provider="openai", status=429, retry_after=60.0, paid=False)
    app = await app_with(ask, providers={Chat: Teller(limited)})
    await app.calls.set_limit(LIMIT, at_once=1)
    cut(psql, where)
    job = await app.enqueue(ask, "this")
    await drain(app)

    assert was_cut(psql)
    found = await app.jobs.get(job.id)
    assert (found.state, found.attempt, found.reason) == (JobState.QUEUED, 0, f"limited: {LIMIT}")


async def test_a_budget_that_is_used_up_pauses_the_batch_though_the_connection_is_lost(
    app_with: Any, psql: psycopg.Connection
) -> None:
    app = await app_with(ask, providers={Chat: Teller()})
    batch = await app.batch(ask, ["one"], name="x", budget=Decimal("0.0000001"))
    cut(psql, "update of reason on retoma.batches")
    await drain(app)

    assert was_cut(psql)
    now = await app.batches.progress(batch.id)
    assert (now.state, now.reason) == ("paused", "budget")
    assert {(each.state, each.attempt) for each in await app.jobs.find(pipeline="ask")} == {(JobState.QUEUED, 0)}


# — paid once, also without reuse —


@pytest.mark.parametrize("reuse", [True, False])
async def test_a_time_out_does_not_pay_again(app_with: Any, psql: psycopg.Connection, reuse: bool) -> None:
    @pipeline("hasty", retry=Retry(attempts=20, wait=0.0), timeout=0.5)
    async def hasty(_: int, run: Run, *, chat: Chat) -> str:
        return await run.ask("say", chat, "Say something.", reuse=reuse)

    teller = Teller("one", "two", "three", "four")
    teller.gate = asyncio.Event()
    app = await app_with(hasty, providers={Chat: teller})
    job = await app.enqueue(hasty, 1)
    working = asyncio.create_task(drain(app))
    while (
        await app.jobs.get(job.id)
    ).fence < 2:  # the first attempt ran out of time, and the next looks for its answer
        await asyncio.sleep(0.02)
    teller.gate.set()
    await working
    for _ in range(3):
        psql.execute("update retoma.jobs set run_at = now() where state = 'queued'")
        await drain(app)

    assert await app.jobs.output(hasty, job.id) == "one"
    assert teller.asked == 1
    assert calls(psql) == [("first", "answered")]


async def test_an_answer_without_reuse_is_found_after_a_crash_and_a_restart_asks_anew(
    app_with: Any, psql: psycopg.Connection
) -> None:
    @pipeline("fresh")
    async def fresh(_: int, run: Run, *, chat: Chat) -> str:
        return await run.ask("say", chat, "Say something.", reuse=False)

    teller = Teller("one", "two")
    app = await app_with(fresh, providers={Chat: teller})
    job = await app.enqueue(fresh, 1)
    await drain(app)
    # As if the executor had died between the answer and the checkpoint.
    psql.execute("delete from retoma.checkpoints")
    psql.execute("update retoma.jobs set state = 'queued', finished_at = null, output = null")
    await drain(app)
    assert (await app.jobs.output(fresh, job.id), teller.asked) == ("one", 1)

    await app.jobs.restart(job.id)
    await drain(app)
    assert (await app.jobs.output(fresh, job.id), teller.asked) == ("two", 2)
    (spend,) = await app.calls.spend("model")
    assert spend.useful == spend.again > 0, "what was paid a second time is told as such"


# — answers that do not fit —


async def test_a_person_s_retry_asks_the_model_again_and_no_other_job_gets_what_did_not_fit(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller("prose", "prose", GOOD, "prose", "prose")
    app = await app_with(ask, providers={Chat: teller})
    job = await app.enqueue(ask, "this")
    await drain(app)
    assert ((await app.jobs.get(job.id)).reason, teller.asked) == ("unfit", 2)
    assert [each for (each,) in calls(psql, "unfit_at is not null")] == [True, True]

    other = await app.enqueue(ask, "this")
    await drain(app)
    assert ((await app.jobs.get(other.id)).state, teller.asked) == (JobState.COMPLETED, 3), "it asks for itself"
    psql.execute("delete from retoma.calls where unfit_at is null")

    await app.jobs.retry(job.id)
    await drain(app)
    assert ((await app.jobs.get(job.id)).reason, teller.asked) == ("unfit", 5), "once for each retry"
    await app.jobs.retry(job.id)
    await drain(app)
    assert ((await app.jobs.get(job.id)).state, teller.asked) == (JobState.COMPLETED, 6)
    assert [kind for (kind,) in calls(psql, "kind")] == ["first", "repair", "again", "repair", "again"]


# — a provider that is away for a moment —


async def test_requests_that_fail_together_count_once_and_a_blip_puts_nobody_to_sleep(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller(*[down() for _ in range(20)])
    teller.gate = asyncio.Event()
    app = await app_with(ask_again, providers={Chat: teller})
    jobs = await app.enqueue_many(ask_again, [f"document {number}" for number in range(20)])
    working = asyncio.create_task(drain(app, at_once=20))
    while teller.asked < 20:
        await asyncio.sleep(0.01)
    teller.gate.set()
    await working

    assert Counter([(await app.jobs.get(job.id)).state for job in jobs]) == {JobState.COMPLETED: 20}
    assert teller.asked == 40
    assert psql.execute("select failures, opened_until from retoma.limits").fetchall() == [(0, None)]


SLEEPING = "update retoma.jobs set run_at = now() + interval '171 s', reason = %s where state = 'queued'"


async def test_a_good_answer_closes_the_breaker_and_wakes_who_sleeps_for_it(
    app_with: Any, psql: psycopg.Connection
) -> None:
    app = await app_with(ask, providers={Chat: Teller()})
    await app.calls.set_limit(LIMIT, at_once=100)
    psql.execute("update retoma.limits set failures = 6, opened_until = now() - interval '1 s'")
    jobs = await app.enqueue_many(ask, [f"document {number}" for number in range(15)])
    psql.execute(SLEEPING, [f"limited: {LIMIT}"])
    probe = await app.enqueue(ask, "probe")
    await drain(app)
    await drain(app)

    assert (await app.jobs.get(probe.id)).state is JobState.COMPLETED
    assert Counter([(await app.jobs.get(job.id)).state for job in jobs]) == {JobState.COMPLETED: 15}


async def test_whoever_sets_a_limit_wakes_who_sleeps_for_it(app_with: Any, psql: psycopg.Connection) -> None:
    app = await app_with(ask, providers={Chat: Teller()})
    job = await app.enqueue(ask, "this")
    psql.execute(SLEEPING, [f"limited: {LIMIT}"])
    await app.calls.set_limit(LIMIT, at_once=100)
    await drain(app)

    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED


# — together —


async def test_many_who_ask_at_once_share_their_statements(
    app_with: Any, monkeypatch: pytest.MonkeyPatch, psql: psycopg.Connection
) -> None:
    names = {sql: name for module in (store.calls, store.limits) for name, sql in module.SQL.items()}
    done: Counter[str] = Counter()
    plain = Database.all

    async def counted(self: Database, query: Query[Any]) -> Any:
        done[names.get(query.sql, "other")] += 1
        return await plain(self, query)

    monkeypatch.setattr(Database, "all", counted)
    teller = Teller()
    teller.gate = asyncio.Event()
    app = await app_with(ask, providers={Chat: teller})
    batch = await app.batch(ask, [f"document {number}" for number in range(60)], name="x", budget=Decimal(1))
    working = asyncio.create_task(drain(app, at_once=60))
    while teller.asked < 60:
        await asyncio.sleep(0.01)
    teller.gate.set()
    await working

    now = await app.batches.progress(batch.id)
    assert (now.completed, now.spent) == (60, 60 * Decimal("0.00021"))
    assert psql.execute("select reserved from retoma.batches").fetchall() == [(0,)]
    assert done["open"] + done["answer"] + done["take"] < 30, done
    assert not {"tell", "sit", "give_back"} & done.keys(), "where nothing is limited nothing is told of it"

"""A model asked: written down before, kept as it came, read afterwards, paid once."""

from __future__ import annotations

import asyncio
import json
from collections import Counter
from dataclasses import replace
from decimal import Decimal
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from retoma import JobState, Retry, Run, SyncRun, pipeline, store
from retoma.errors import ConfigurationError
from retoma.postgres.database import Database
from retoma.providers import (
    Allowance,
    Answer,
    Chat,
    Embedder,
    Prompt,
    ProviderDown,
    ProviderRefused,
    ProviderTimeout,
    RateLimited,
    RequestRejected,
    Usage,
    Vectors,
)
from retoma.store.query import Query
from retoma.testing import drain, rehearse


class Kind(BaseModel):
    kind: str
    score: float


GOOD = '{"kind": "petition", "score": 0.9}'


class Teller:
    """A provider that says what it was told to say, in turn, and remembers what it was asked."""

    provider = "openai"
    model = "gpt-4o-mini"

    def __init__(self, *says: Any, usage: Usage = Usage(input_tokens=1000, output_tokens=100)) -> None:
        self.says = list(says)
        self.asked: list[Prompt] = []
        self.usage = usage
        self.gate: asyncio.Event | None = None

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002
        self.asked.append(prompt)
        if self.gate:
            await self.gate.wait()
        said = self.says.pop(0) if self.says else GOOD
        if isinstance(said, Exception):
            raise said
        text, finish = said if isinstance(said, tuple) else (said, "stop")
        return Answer(raw=json.dumps({"said": text}), text=text, model=self.model, usage=self.usage, finish=finish)


@pipeline("ask", retry=Retry(attempts=3, wait=0.0))
async def ask(text: str, run: Run, *, chat: Chat) -> Kind:
    return await run.ask("classify", chat, f"What is {text}?", into=Kind)


def calls(psql: psycopg.Connection, columns: str = "kind, state") -> list[Any]:
    return psql.execute(f"select {columns} from retoma.calls order by id").fetchall()


def running(psql: psycopg.Connection) -> int:
    return len(psql.execute("select from retoma.jobs where state = 'running'").fetchall())


async def test_the_answer_is_kept_as_it_came_with_what_it_cost(app_with: Any, psql: psycopg.Connection) -> None:
    app = await app_with(ask, providers={Chat: Teller()})
    job = await app.enqueue(ask, "this")
    await drain(app)

    assert await app.jobs.output(ask, job.id) == Kind(kind="petition", score=0.9)
    [(state, raw, cost, tokens)] = calls(psql, "state, answer, cost, input_tokens")
    assert (state, json.loads(raw), tokens) == ("answered", {"said": GOOD}, 1000)
    assert cost == Decimal("0.00021"), "1,000 tokens at 0.15 and 100 at 0.60 dollars a million"


async def test_an_equal_request_is_answered_from_the_store_and_paid_once(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller()
    app = await app_with(ask, providers={Chat: teller})
    for _ in range(3):
        await app.enqueue(ask, "the same")
        await drain(app)

    assert len(teller.asked) == 1
    assert calls(psql, "state, reused") == [("answered", 2)]
    assert [job.state for job in await app.jobs.find()] == [JobState.COMPLETED] * 3


async def test_equal_requests_at_the_same_moment_are_paid_once(app_with: Any, psql: psycopg.Connection) -> None:
    teller = Teller()
    teller.gate = asyncio.Event()
    app = await app_with(ask, providers={Chat: teller})
    jobs = await app.enqueue_many(ask, ["the same"] * 8)
    working = asyncio.create_task(drain(app, at_once=8))
    while not teller.asked or running(psql) < 8:
        await asyncio.sleep(0.01)
    teller.gate.set()
    await working

    assert len(teller.asked) == 1
    assert calls(psql, "state, reused") == [("answered", 7)]
    assert [(await app.jobs.output(ask, job.id)).kind for job in jobs] == ["petition"] * 8


async def test_who_waits_long_for_another_s_answer_gives_up_its_place_and_no_attempt(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller()
    teller.gate = asyncio.Event()
    app = await app_with(ask, providers={Chat: teller})
    jobs = await app.enqueue_many(ask, ["the same"] * 2)
    working = asyncio.create_task(drain(app))
    states: dict[str | None, Any] = {}
    while "asked already: openai/gpt-4o-mini" not in states:
        await asyncio.sleep(0.05)
        states = {found.reason: found for found in [await app.jobs.get(job.id) for job in jobs]}
    waiting = states["asked already: openai/gpt-4o-mini"]
    assert (waiting.state, waiting.attempt) == (JobState.QUEUED, 0)
    teller.gate.set()
    await working
    psql.execute("update retoma.jobs set run_at = now() where state = 'queued'")
    await drain(app)

    assert [(await app.jobs.get(job.id)).state for job in jobs] == [JobState.COMPLETED] * 2
    assert len(teller.asked) == 1


async def test_when_the_first_of_equal_requests_fails_the_next_asks_itself(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller(RequestRejected("too long", provider="openai", status=400, paid=False))
    teller.gate = asyncio.Event()
    app = await app_with(ask, providers={Chat: teller})
    jobs = await app.enqueue_many(ask, ["the same"] * 2)
    working = asyncio.create_task(drain(app))
    while not teller.asked or running(psql) < 2:
        await asyncio.sleep(0.01)
    teller.gate.set()
    await working

    assert sorted([(await app.jobs.get(job.id)).state for job in jobs]) == [JobState.COMPLETED, JobState.FAILED]
    assert calls(psql) == [("first", "failed"), ("first", "answered")]


async def test_equal_requests_of_one_run_are_paid_once(app_with: Any, psql: psycopg.Connection) -> None:
    @pipeline("twice")
    async def twice(_: int, run: Run, *, chat: Chat) -> list[str]:
        return await asyncio.gather(*(run.ask(f"ask/{number}", chat, "the same") for number in range(3)))

    app = await app_with(twice, providers={Chat: Teller("one", "two")})
    job = await app.enqueue(twice, 1)
    await drain(app)

    assert await app.jobs.output(twice, job.id) == ["one"] * 3
    assert calls(psql, "state, reused") == [("answered", 2)]


async def test_an_intent_that_never_was_a_request_is_taken_back_by_who_asks_next(
    app_with: Any, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened = Database.all

    async def cut(self: Database, query: Query[Any]) -> Any:
        found = await opened(self, query)
        if query.sql == store.calls.SQL["open"]:
            monkeypatch.undo()
            raise psycopg.OperationalError("the connection was cut after the statement")
        return found

    monkeypatch.setattr(Database, "all", cut)
    app = await app_with(ask, providers={Chat: Teller()})
    job = await app.enqueue(ask, "this")
    await drain(app)

    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED
    assert calls(psql) == [("first", "answered")], "nothing is in doubt, for nothing was asked"


async def test_reuse_can_be_refused(app_with: Any) -> None:
    @pipeline("fresh")
    async def fresh(_: int, run: Run, *, chat: Chat) -> str:
        return await run.ask("say", chat, "Say something.", reuse=False)

    teller = Teller("one", "two")
    app = await app_with(fresh, providers={Chat: teller})
    jobs = await app.enqueue_many(fresh, range(2))
    await drain(app)

    assert {await app.jobs.output(fresh, job.id) for job in jobs} == {"one", "two"}


async def test_an_answer_that_does_not_fit_is_sent_back_and_each_try_has_its_cost(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller("I think it is a petition.", '{"kind": "petition"}', f"Here it is:\n```json\n{GOOD}\n```")
    app = await app_with(ask, providers={Chat: teller})
    job = await app.enqueue(ask, "this")
    await drain(app)

    assert (await app.jobs.output(ask, job.id)).score == 0.9
    assert calls(psql) == [("first", "answered"), ("repair", "answered"), ("repair", "answered")]
    assert "score" in teller.asked[2].messages[-1].content, "it is told what was wrong"


@pytest.mark.parametrize(
    "said",
    [
        '{"kind": "as in ```python\\nprint({1})\\n```", "score": 1}',
        'As [1] and {others} say:\n```json\n{"kind": "a", "score": 1}\n```',
        'As [1] says: {"kind": "a", "score": 1}',
        '```\n{"kind": "a", "score": 1}\n```',
    ],
)
async def test_json_is_found_wherever_it_stands_in_an_answer_and_a_fence_inside_it_is_text(
    app_with: Any, said: str
) -> None:
    teller = Teller(said)
    app = await app_with(ask, providers={Chat: teller})
    job = await app.enqueue(ask, "this")
    await drain(app)

    assert (await app.jobs.output(ask, job.id)).score == 1
    assert len(teller.asked) == 1


async def test_a_text_that_was_cut_short_is_asked_for_again_in_full_and_longer(app_with: Any) -> None:
    @pipeline("tell", retry=Retry(attempts=1))
    async def tell(_: int, run: Run, *, chat: Chat) -> str:
        return await run.ask("tell", chat, "Tell it.")

    teller = Teller(("Once upon", "length"), ("Once upon a time", "length"), "Once upon a time, and so on.")
    app = await app_with(tell, providers={Chat: teller})
    job = await app.enqueue(tell, 1)
    await drain(app)

    assert await app.jobs.output(tell, job.id) == "Once upon a time, and so on."
    assert [each.max_tokens for each in teller.asked] == [None, 2000, 4000]
    assert teller.asked[1].messages[-1].content.endswith("Answer again, in full.")


async def test_repairs_are_bounded_and_the_last_words_are_kept(app_with: Any, psql: psycopg.Connection) -> None:
    app = await app_with(ask, providers={Chat: Teller(*["no"] * 20)})
    job = await app.enqueue(ask, "this", attempts=1)
    await drain(app)

    found = await app.jobs.get(job.id)
    assert found.state is JobState.FAILED
    assert "does not fit" in (found.error or "")
    assert len(calls(psql)) == 3


async def test_an_answer_that_does_not_fit_is_not_paid_for_again_by_a_retry(
    app_with: Any, psql: psycopg.Connection
) -> None:
    app = await app_with(ask, providers={Chat: Teller(*["no"] * 20)})
    job = await app.enqueue(ask, "this")
    await drain(app)
    await drain(app)

    assert ((await app.jobs.get(job.id)).state, len(calls(psql))) == (JobState.FAILED, 3)


async def test_places_of_a_limit_are_free_when_nothing_is_under_way(app_with: Any, psql: psycopg.Connection) -> None:
    app = await app_with(ask, providers={Chat: Teller()})
    await app.calls.set_limit("openai/gpt-4o-mini", at_once=1)
    for text in ("one", "two"):
        await app.enqueue(ask, text)
        await drain(app)

    assert [each.state for each in await app.jobs.find(pipeline="ask")] == [JobState.COMPLETED] * 2
    assert psql.execute("select count(*) from retoma.permits").fetchone() == (0,)


async def test_an_answer_that_was_cut_short_is_never_taken_for_whole(app_with: Any) -> None:
    teller = Teller((GOOD, "length"), GOOD)
    app = await app_with(ask, providers={Chat: teller})
    job = await app.enqueue(ask, "this")
    await drain(app)

    assert len(teller.asked) == 2
    assert (await app.jobs.output(ask, job.id)).kind == "petition"


async def test_a_limited_request_waits_without_costing_an_attempt_and_everybody_waits_with_it(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller(RateLimited("slow down", provider="openai", status=429, retry_after=600, paid=False))
    app = await app_with(ask, providers={Chat: teller})
    jobs = await app.enqueue_many(ask, ["one"])
    await drain(app)
    other = await app.enqueue(ask, "two")
    await drain(app)

    first, second = await app.jobs.get(jobs[0].id), await app.jobs.get(other.id)
    assert (first.state, first.attempt, first.reason) == (JobState.QUEUED, 0, "limited: openai/gpt-4o-mini")
    assert (second.state, second.attempt) == (JobState.QUEUED, 0)
    assert len(teller.asked) == 1, "nobody asks a provider that cools"
    psql.execute("update retoma.limits set cooled_until = now()")
    psql.execute("update retoma.jobs set run_at = now()")
    await drain(app)
    assert [(await app.jobs.get(each)).state for each in (jobs[0].id, other.id)] == [JobState.COMPLETED] * 2
    assert [state for (state,) in calls(psql, "state")].count("answered") == 2


async def test_a_provider_that_says_nothing_is_left_is_left_alone_until_there_is(
    app_with: Any, psql: psycopg.Connection
) -> None:
    class Emptied(Teller):
        async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:
            said = await super().chat(prompt, timeout=timeout)
            return replace(said, allowance=Allowance(requests=0, tokens=500, resets_in=20.0))

    teller = Emptied()
    app = await app_with(ask, providers={Chat: teller})
    first = await app.enqueue(ask, "one")
    await drain(app)
    second = await app.enqueue(ask, "two")
    await drain(app)

    assert (await app.jobs.get(first.id)).state is JobState.COMPLETED
    waiting = await app.jobs.get(second.id)
    assert (waiting.state, waiting.attempt, waiting.reason) == (JobState.QUEUED, 0, "limited: openai/gpt-4o-mini")
    assert len(teller.asked) == 1
    ((seconds,),) = psql.execute("select extract(epoch from cooled_until - now()) from retoma.limits").fetchall()
    assert 0 < seconds <= 20


async def test_no_provider_is_left_alone_for_years_and_whoever_sets_its_limit_has_it_asked_again(
    app_with: Any, psql: psycopg.Connection
) -> None:
    silly = RateLimited("come back", provider="openai", status=429, retry_after=1e9, paid=False)
    app = await app_with(ask, providers={Chat: Teller(silly)})
    job = await app.enqueue(ask, "one")
    await drain(app)
    ((seconds,),) = psql.execute("select extract(epoch from cooled_until - now()) from retoma.limits").fetchall()
    assert seconds <= 3600

    await app.calls.set_limit("openai/gpt-4o-mini", requests=6000)
    psql.execute("update retoma.jobs set run_at = now()")
    await drain(app)

    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED


async def test_a_request_whose_answer_nobody_knows_is_in_doubt_and_asked_again_as_such(
    app_with: Any, psql: psycopg.Connection
) -> None:
    app = await app_with(ask, providers={Chat: Teller(ProviderTimeout("no answer", provider="openai"))})
    job = await app.enqueue(ask, "this")
    await drain(app)
    await drain(app)

    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED
    assert calls(psql) == [("first", "doubtful"), ("again", "answered")]


async def test_doubt_can_be_held_for_a_person(app_with: Any, psql: psycopg.Connection) -> None:
    @pipeline("careful", retry=Retry(attempts=3, wait=0.0))
    async def careful(_: int, run: Run, *, chat: Chat) -> str:
        return await run.ask("order", chat, "Order it.", in_doubt="hold")

    app = await app_with(careful, providers={Chat: Teller(ProviderTimeout("no answer", provider="openai"))})
    job = await app.enqueue(careful, 1)
    await drain(app)
    await drain(app)

    found = await app.jobs.get(job.id)
    assert (found.state, calls(psql)) == (JobState.REVIEW, [("first", "doubtful")])
    assert "in doubt" in (found.reason or "")


async def test_a_request_that_is_wrong_is_not_tried_again(app_with: Any, psql: psycopg.Connection) -> None:
    wrong = RequestRejected("too long", provider="openai", status=400, paid=False)
    app = await app_with(ask, providers={Chat: Teller(wrong)})
    job = await app.enqueue(ask, "this")
    await drain(app)

    assert ((await app.jobs.get(job.id)).state, calls(psql)) == (JobState.FAILED, [("first", "failed")])


async def test_a_key_that_is_refused_pauses_the_batch_instead_of_failing_every_document(app_with: Any) -> None:
    refused = [ProviderRefused("bad key", provider="openai", status=401, paid=False) for _ in range(20)]
    app = await app_with(ask, providers={Chat: Teller(*refused)})
    batch = await app.batch(ask, [f"document {n}" for n in range(20)], name="x")
    await drain(app, at_once=1)

    found = await app.batches.progress(batch.id)
    assert (found.state, found.reason, found.queued, found.failed) == ("paused", "refused by openai", 20, 0)


async def test_a_budget_pauses_the_batch_before_it_is_passed_and_raising_it_continues(
    app_with: Any, psql: psycopg.Connection
) -> None:
    app = await app_with(ask, providers={Chat: Teller()})
    batch = await app.batch(ask, [f"document {n}" for n in range(10)], name="x", budget=Decimal("0.0015"))
    await drain(app, at_once=1)

    paused = await app.batches.progress(batch.id)
    assert (paused.state, paused.reason) == ("paused", "budget")
    assert 0 < paused.spent <= Decimal("0.0015")
    assert psql.execute("select reserved from retoma.batches").fetchone() == (0,)
    await app.batches.change(batch.id, budget=Decimal(1))
    await drain(app)
    done = await app.batches.progress(batch.id)
    assert (done.state, done.completed, done.spent) == ("completed", 10, Decimal("0.0021"))


async def test_many_at_once_never_reserve_more_than_the_budget_and_use_all_of_it(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller()
    teller.gate = asyncio.Event()
    app = await app_with(ask, providers={Chat: teller})
    batch = await app.batch(ask, [f"document {n}" for n in range(30)], name="x", budget=Decimal("0.005"))
    working = asyncio.create_task(drain(app, at_once=30))
    waiting = "select from retoma.jobs where state = 'queued' and reason = 'budget: others are under way'"
    while psql.execute(waiting).rowcount < 22:
        await asyncio.sleep(0.02)
    held = psql.execute("select spent + reserved, budget from retoma.batches").fetchone()
    assert held is not None
    assert held[0] <= held[1]
    assert len(teller.asked) == 8, "0.0006 dollars are reserved for each, and 0.005 are there"

    teller.gate.set()
    await working
    while (await app.batches.get(batch.id)).state != "paused":
        psql.execute("update retoma.jobs set run_at = now() where state = 'queued'")
        await drain(app, at_once=30)

    done = await app.batches.progress(batch.id)
    assert done.reason == "budget"
    assert Decimal("0.0044") < done.spent <= Decimal("0.005"), "another 0.0006 would not fit"
    assert done.completed == len(teller.asked) == done.spent / Decimal("0.00021")


@pytest.mark.parametrize("budget", [float("nan"), Decimal("NaN"), Decimal("Infinity"), Decimal(-1), "5"])
async def test_a_budget_that_is_no_amount_is_refused(app_with: Any, budget: Any) -> None:
    app = await app_with(ask, providers={Chat: Teller()})

    with pytest.raises(ConfigurationError, match="budget must be an amount of US dollars"):
        await app.batch(ask, ["x"], name="x", budget=budget)


@pytest.mark.parametrize("price", [Decimal("NaN"), Decimal("Infinity"), Decimal("-0.1")])
async def test_a_price_that_is_no_amount_is_refused(app_with: Any, price: Decimal) -> None:
    app = await app_with(ask, providers={Chat: Teller()})

    with pytest.raises(ConfigurationError, match="price of output must be an amount"):
        await app.calls.set_price("openai", "gpt", output=price)


async def test_a_prompt_that_cannot_be_written_down_fails_once_and_nothing_is_asked(app_with: Any) -> None:
    teller = Teller()
    app = await app_with(ask, providers={Chat: teller})

    @pipeline("half", retry=Retry(attempts=3, wait=0.0))
    async def half(_: int, run: Run, *, chat: Chat) -> str:
        return await run.ask("say", chat, "half of a \ud83d")

    app = await app_with(half, providers={Chat: teller})
    job = await app.enqueue(half, 1)
    await drain(app)

    found = await app.jobs.get(job.id)
    assert (found.state, found.attempt, teller.asked) == (JobState.FAILED, 1, [])
    assert "cannot be written down" in str(found.error)


async def test_a_budget_on_a_model_whose_price_nobody_knows_is_refused_with_the_way_out(app_with: Any) -> None:
    teller = Teller()
    teller.model = "nobody-knows-1"
    app = await app_with(ask, providers={Chat: teller}, unknown_price="refuse")
    await app.batch(ask, ["x"], name="x", budget=Decimal(1))
    await drain(app)

    [job] = await app.jobs.find(pipeline="ask")
    assert "nobody knows what openai/nobody-knows-1 costs" in (job.error or "")
    assert teller.asked == []


async def test_a_provider_that_is_down_is_left_alone_and_then_probed_by_one(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller(*[ProviderDown("502", provider="openai", status=502, paid=False) for _ in range(5)])
    app = await app_with(ask, providers={Chat: teller})
    jobs = await app.enqueue_many(ask, [f"document {n}" for n in range(5)])
    await drain(app, at_once=1)
    asked = len(teller.asked)
    psql.execute("update retoma.jobs set run_at = now() where state = 'queued'")
    await drain(app)

    assert asked == len(teller.asked) == 5, "five failures in a row open the breaker"
    psql.execute("update retoma.limits set opened_until = now()")
    for _ in range(6):
        psql.execute("update retoma.jobs set run_at = now() where state = 'queued'")
        await drain(app)
    assert Counter([(await app.jobs.get(job.id)).state for job in jobs]) == {JobState.COMPLETED: 5}


async def test_what_was_answered_before_a_crash_is_not_asked_again(app_with: Any, psql: psycopg.Connection) -> None:
    teller = Teller()
    app = await app_with(ask, providers={Chat: teller})
    job = await app.enqueue(ask, "this")
    await drain(app)
    # As if the executor had died between the answer and the checkpoint.
    psql.execute("delete from retoma.checkpoints")
    psql.execute(
        "update retoma.jobs set state = 'queued', finished_at = null, output = null, fence = 7 where id = %s", [job.id]
    )
    await drain(app)

    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED
    assert len(teller.asked) == 1


async def test_the_answer_to_a_handler_that_was_stopped_is_kept_for_the_next(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller()
    teller.gate = asyncio.Event()
    app = await app_with(ask, providers={Chat: teller}, heartbeat_seconds=0.05, lease_seconds=5)
    job = await app.enqueue(ask, "this")
    working = asyncio.create_task(drain(app))
    while not teller.asked:
        await asyncio.sleep(0.01)
    await app.jobs.cancel(job.id)
    while (await app.jobs.get(job.id)).state is not JobState.CANCELLED:
        await asyncio.sleep(0.02)
    teller.gate.set()
    while calls(psql, "state") != [("answered",)]:
        await asyncio.sleep(0.02)
    await working

    await app.jobs.retry(job.id)
    await drain(app)
    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED
    assert len(teller.asked) == 1, "it was paid for once"


async def test_a_handler_that_is_stopped_before_it_could_ask_leaves_no_call(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller()
    teller.gate = asyncio.Event()
    app = await app_with(ask, providers={Chat: teller}, heartbeat_seconds=0.05, lease_seconds=5)
    await app.calls.set_limit("openai/gpt-4o-mini", at_once=1)
    batch = await app.batch(ask, ["one", "two"], name="x", budget=Decimal(1))
    working = asyncio.create_task(drain(app))
    while not teller.asked or running(psql) < 2:
        await asyncio.sleep(0.01)
    for job in await app.jobs.find(pipeline="ask"):
        await app.jobs.cancel(job.id)
    while running(psql):
        await asyncio.sleep(0.02)
    teller.gate.set()
    await working

    assert calls(psql, "state") == [("answered",)], "the one that was asked was paid"
    assert psql.execute("select reserved, spent > 0 from retoma.batches where id = %s", [batch.id]).fetchall() == [
        (0, True)
    ]


async def test_a_plain_handler_asks_in_the_same_words(app_with: Any) -> None:
    @pipeline("plain")
    def plain(text: str, run: SyncRun, *, chat: Chat) -> Kind:
        return run.ask("classify", chat, text, into=Kind)

    app = await app_with(plain, providers={Chat: Teller()})
    job = await app.enqueue(plain, "x")
    await drain(app)

    assert (await app.jobs.output(plain, job.id)).kind == "petition"


async def test_a_rehearsal_asks_without_a_database() -> None:
    found = await rehearse(ask, "this", chat=Teller("no", GOOD))

    assert found.output == Kind(kind="petition", score=0.9)


class Vectorer:
    provider = "openai"
    model = "text-embedding-3-small"
    dimensions = 2

    def __init__(self) -> None:
        self.asked: list[list[str]] = []

    async def embed(self, texts: Any, *, timeout: float) -> Vectors:  # noqa: ARG002
        self.asked.append(list(texts))
        vectors = [[float(len(text)), 1.0] for text in texts]
        return Vectors(vectors=vectors, model=self.model, usage=Usage(input_tokens=50))


@pipeline("embed", retry=Retry(attempts=2, wait=0.0))
async def embed(texts: list[str], run: Run, *, embedder: Embedder) -> list[list[float]]:
    return await run.embed("embed", embedder, texts)


async def test_vectors_are_paid_once_and_given_again(app_with: Any, psql: psycopg.Connection) -> None:
    vectorer = Vectorer()
    app = await app_with(embed, providers={Embedder: vectorer})
    jobs = [await app.enqueue(embed, ["a", "bb"]) for _ in range(2)]
    await drain(app, at_once=1)

    assert [await app.jobs.output(embed, job.id) for job in jobs] == [[[1.0, 1.0], [2.0, 1.0]]] * 2
    assert vectorer.asked == [["a", "bb"]]
    assert calls(psql, "state, cost, reused") == [("answered", Decimal("0.000001"), 1)]


async def test_what_this_machine_computes_is_not_a_call(app_with: Any, psql: psycopg.Connection) -> None:
    vectorer = Vectorer()
    vectorer.provider = "local"
    app = await app_with(embed, providers={Embedder: vectorer})
    await app.enqueue(embed, ["a"])
    await drain(app)

    assert len(vectorer.asked) == 1
    assert calls(psql) == []


@pytest.mark.parametrize("text", ["nul \0 in it", "half \ud800 of a pair"])
async def test_an_answer_that_postgresql_cannot_hold_is_kept_all_the_same(app_with: Any, text: str) -> None:
    @pipeline("odd", retry=Retry(attempts=1))
    async def odd(_: int, run: Run, *, chat: Chat) -> int:
        return len(await run.ask("say", chat, "x"))

    app = await app_with(odd, providers={Chat: Teller(text)})
    job = await app.enqueue(odd, 1)
    await drain(app)

    assert (await app.jobs.get(job.id)).state is JobState.COMPLETED

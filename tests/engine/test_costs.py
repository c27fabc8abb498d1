"""What calls cost: as the invoice says, or unknown; never nothing where nobody knows."""

from __future__ import annotations

import json
import sys
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retoma import JobState, Retry, Run, pipeline
from retoma.providers import Answer, Chat, Message, Prompt, RequestRejected, Usage
from retoma.providers.anthropic import AnthropicChat
from retoma.providers.openai import OpenAIChat
from retoma.testing import drain
from retoma.testing.wire import Fault, Served

PROVIDERS = Path(__file__).parents[1] / "providers"
sys.path.insert(0, str(PROVIDERS))

from test_invoice import SHAPES, judged  # noqa: E402 - the judge and what it judges are said once

SERVICES = PROVIDERS.parent / "servers" / "services.py"
SECRET = "sk-0123456789"


class Teller:
    """A model that nobody has a price for, unless it is told otherwise."""

    def __init__(self, provider: str = "acme", model: str = "large-1", usage: Usage | None = None) -> None:
        self.provider, self.model = provider, model
        self.usage = usage or Usage(input_tokens=1_000_000, output_tokens=500_000)
        self.asked = 0
        self.fails: list[Exception] = []

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002
        self.asked += 1
        if self.fails:
            raise self.fails.pop()
        return Answer(raw="{}", text="yes", model=self.model, usage=self.usage)


@pipeline("inquire", retry=Retry(attempts=1))
async def inquire(text: str, run: Run, *, chat: Chat) -> str:
    return await run.ask("inquire", chat, text)


def calls(psql: psycopg.Connection, columns: str) -> list[Any]:
    return psql.execute(f"select {columns} from retoma.calls order by id").fetchall()


def answered(shape: dict[str, Any]) -> str:
    """The body of *shape* as the whole answer that it was part of."""
    if shape["provider"] == "anthropic":
        rest: dict[str, Any] = {"id": "m1", "content": [{"type": "text", "text": "yes"}], "stop_reason": "end_turn"}
    else:
        choice = {"index": 0, "message": {"role": "assistant", "content": "yes"}, "finish_reason": "stop"}
        rest = {"id": "c1", "choices": [choice]}
    return json.dumps({**rest, **shape["body"]})


@pytest.mark.filterwarnings("ignore:The model:DeprecationWarning")
async def test_every_shape_of_usage_reaches_the_ledger_through_its_sdk_as_it_will_be_billed(
    app_with: Any, psql: psycopg.Connection
) -> None:
    app = await app_with()
    shapes = [each for each in SHAPES if "tier" not in each and each["flavor"] not in ("responses", "embeddings")]
    with Served(str(SERVICES)) as served:
        served.tell(*(Fault(kind="answer", body=answered(shape)) for shape in shapes))
        chats: dict[str, Any] = {"anthropic": AnthropicChat(key=SECRET, model="m", base_url=served.url)}
        for number, shape in enumerate(shapes):
            provider = shape["provider"]
            if provider not in chats:
                chats[provider] = OpenAIChat(key=SECRET, model="m", base_url=f"{served.url}/v1", provider=provider)
            said = Message(role="user", content=f"shape {number}")
            prompt = Prompt(messages=[said], model=shape.get("asked", shape["body"]["model"]))
            assert await app.ask("shape", chats[provider], prompt) == "yes"
        for chat in chats.values():
            await chat.aclose()

    rows = calls(psql, "cost, asked_at, cost_basis")
    expected = [
        Decimal(shape["said"]) if "said" in shape else judged(shape, asked_at)
        for shape, (_, asked_at, _) in zip(shapes, rows, strict=True)
    ]
    different = {
        shape["name"]: (cost, wanted)
        for shape, (cost, _, _), wanted in zip(shapes, rows, expected, strict=True)
        if cost != wanted
    }
    assert different == {}
    assert len(shapes) >= 60
    [(writes, hours, reads, reasoned, heard, spoken)] = psql.execute(
        "select sum(cache_write_tokens), sum(cache_write_1h_tokens), sum(cached_tokens), sum(reasoning_tokens),"
        " sum(audio_input_tokens), sum(audio_output_tokens) from retoma.calls"
    ).fetchall()
    assert min(writes, hours, reads, reasoned, heard, spoken) > 0
    tiers = {tier for (tier,) in calls(psql, "tier")}
    assert {"", "flex", "priority", "batch", "fast", "us"} <= tiers
    total = await app.calls.spend("pipeline")
    assert sum(each.unpriced for each in total) == len([cost for cost, _, _ in rows if cost is None])
    assert sum(each.useful for each in total) == sum(cost for cost, _, _ in rows if cost is not None)


async def test_a_cost_that_nobody_knows_is_unknown_and_counted_beside_what_is_known(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller()
    app = await app_with(inquire, providers={Chat: teller})
    batch = await app.batch(inquire, ["one", "two"], name="x")
    await drain(app)

    assert calls(psql, "state, cost, cost_basis, pipeline") == [("answered", None, "unpriced", "inquire")] * 2
    found, progress = await app.batches.get(batch.id), await app.batches.progress(batch.id)
    assert (found.spent, found.unpriced, progress.unpriced) == (0, 2, 2)
    [spend] = await app.calls.spend("model")
    assert (spend.useful, spend.unpriced, spend.answered) == (0, 2, 2)
    assert (await app.batches.plan(batch.id)).money_needed is None
    assert await app.system.verify() == []


async def test_what_this_machine_does_costs_nothing_and_that_is_known(app_with: Any, psql: psycopg.Connection) -> None:
    app = await app_with(inquire, providers={Chat: Teller("local", "small")})
    batch = await app.batch(inquire, ["one"], name="x", budget=Decimal(1))
    await drain(app)

    assert calls(psql, "cost, cost_basis") == [(0, "free")]
    assert (await app.batches.get(batch.id)).unpriced == 0


async def test_a_request_that_was_billed_in_vain_has_the_cost_that_was_reserved_or_an_unknown_one(
    app_with: Any, psql: psycopg.Connection
) -> None:
    for model in ("gpt-4o-mini", "nobody-knows-1"):
        teller = Teller("openai", model)
        teller.fails = [RequestRejected("no", provider="openai", status=400, paid=True)]
        app = await app_with(inquire, providers={Chat: teller})
        await app.batch(inquire, [model], name=model)
        await drain(app)

    known, unknown = calls(psql, "state, cost = reserved, cost_basis")
    assert known == ("failed", True, "reserved")
    assert unknown == ("failed", None, "unreported")
    [first, second] = await app.calls.spend("model")
    assert (first.unpriced, second.unpriced) == (0, 1)
    assert await app.system.verify() == []


async def test_a_batch_with_a_budget_asks_for_a_price_and_goes_on_when_it_is_set(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller()
    app = await app_with(inquire, providers={Chat: teller})
    batch = await app.batch(inquire, ["one", "two"], name="x", budget=Decimal(100))
    await drain(app)

    found = await app.batches.get(batch.id)
    assert (found.state, found.reason, teller.asked) == ("paused", "price_unknown: acme/large-1", 0)
    assert {job.attempt for job in await app.jobs.find()} == {0}
    told = await app.batches.explain(batch.id)
    assert told.verdict == "price_unknown"
    assert "acme/large-1" in told.sentence
    assert told.command == "retoma prices set acme large-1 --input … --output …"

    await app.calls.set_price("acme", "large-1", input=Decimal(2), output=Decimal(4))
    assert (await app.batches.get(batch.id)).state == "running"
    other = await app_with(inquire, providers={Chat: teller})  # prices that were read hold for a minute
    await drain(other)

    assert calls(psql, "cost, cost_basis") == [(4, "own")] * 2
    assert (await app.batches.get(batch.id)).spent == 8


@pytest.mark.parametrize(("choice", "ending", "asked"), [("refuse", JobState.FAILED, 0), ("allow", "completed", 1)])
async def test_a_setting_may_refuse_or_allow_what_nobody_knows_the_price_of(
    app_with: Any, choice: str, ending: str, asked: int
) -> None:
    teller = Teller()
    app = await app_with(inquire, providers={Chat: teller}, unknown_price=choice)
    batch = await app.batch(inquire, ["one"], name="x", budget=Decimal(1))
    await drain(app)

    [job] = await app.jobs.find()
    assert (job.state, teller.asked) == (ending, asked)
    assert (await app.batches.get(batch.id)).unpriced == asked
    if choice == "refuse":
        assert "retoma prices set acme large-1" in (job.error or job.reason or "")


async def test_a_price_that_comes_later_is_given_to_calls_that_had_none_and_only_to_them(
    app_with: Any, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("retoma.commands.prices.PIECE", 2)
    app = await app_with(inquire, providers={Chat: Teller()})
    batch = await app.batch(inquire, [str(number) for number in range(5)], name="x")
    await drain(app)
    other = await app_with(inquire, providers={Chat: Teller("acme", "other-1")})
    await other.enqueue(inquire, "no price for this one")
    await drain(other)
    psql.execute("update retoma.calls set asked_at = asked_at - interval '9 days'")

    await app.calls.set_price("acme", "large-1", input=Decimal(2), output=Decimal(4))
    done = await app.calls.reprice()
    again = await app.calls.reprice()

    assert (done.calls, done.cost, done.left) == (5, 20, 1)
    assert (again.calls, again.cost, again.left) == (0, 0, 1)
    found = await app.batches.get(batch.id)
    assert (found.spent, found.unpriced) == (20, 0)
    assert [cost for (cost,) in calls(psql, "cost")] == [4, 4, 4, 4, 4, None]
    assert await app.system.verify() == []


async def test_a_kind_and_a_tier_have_prices_of_their_own_when_a_person_says_so(
    app_with: Any, psql: psycopg.Connection
) -> None:
    million = 1_000_000
    mixed = Usage(
        input_tokens=10 * million,
        output_tokens=5 * million,
        cached_tokens=million,
        cache_write_tokens=3 * million,
        cache_write_1h_tokens=million,
        reasoning_tokens=2 * million,
        audio_input_tokens=million,
        audio_output_tokens=million,
        units=3,
    )
    app = await app_with()
    whole = {"input": 1, "cached": 2, "cache_write": 3, "cache_write_1h": 5, "output": 7, "reasoning": 11}
    whole |= {"audio_input": 13, "audio_output": 17, "unit": 19}
    await app.calls.set_price("acme", "large-1", **{kind: Decimal(price) for kind, price in whole.items()})
    await app.calls.set_price("acme", "large-1", tier="Batch", input=Decimal(1))
    await app.calls.set_price("acme", "plain-1", input=Decimal(1), output=Decimal(1))
    for model, tier in (("large-1", ""), ("large-1", "batch"), ("large-1", "flex"), ("plain-1", "")):
        usage = Usage(**{**{name: getattr(mixed, name) for name in Usage.__slots__}, "tier": tier})
        await app.ask("x", Teller("acme", model, usage), f"{model} {tier}")

    standard = 5 * 1 + 1 * 2 + 2 * 3 + 1 * 5 + 1 * 13 + 2 * 7 + 2 * 11 + 1 * 17 + 3 * 19
    assert calls(psql, "tier, cost, cost_basis") == [
        ("", standard, "own"),
        ("batch", 10, "own"),
        ("flex", standard, "own"),
        ("", 15, "own"),
    ]
    assert [(price.model, price.tier) for price in await app.calls.prices()] == [
        ("large-1", ""),
        ("large-1", "batch"),
        ("plain-1", ""),
    ]


async def test_what_was_spent_is_known_when_its_calls_were_pruned(app_with: Any, psql: psycopg.Connection) -> None:
    app = await app_with(inquire, providers={Chat: Teller("openai", "gpt-4o-mini")})
    for text in ("one", "two", "three"):
        await app.enqueue(inquire, text)
    await drain(app)
    other = await app_with(inquire, providers={Chat: Teller()})
    await other.enqueue(inquire, "four")
    await drain(other)
    psql.execute("update retoma.calls set asked_at = asked_at - interval '40 days'")
    psql.execute("update retoma.calls set kind = 'again' where id = (select min(id) from retoma.calls)")
    before = {by: await app.calls.spend(by) for by in ("provider", "model", "day", "pipeline")}
    assert sum(each.unpriced for each in before["model"]) == 1

    psql.execute("delete from retoma.jobs")
    await app.system.prune(timedelta(days=30))
    await app.system.prune(timedelta(days=30))

    assert calls(psql, "id") == []
    assert {by: await app.calls.spend(by) for by in before} == before
    [whole] = await app.calls.spend("batch")
    assert (whole.name, whole.calls) == ("", 4)
    assert psql.execute("select count(*), sum(calls) from retoma.spending").fetchone() == (3, 4)

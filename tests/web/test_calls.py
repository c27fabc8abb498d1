"""Calls, prices and limits over HTTP."""

from __future__ import annotations

import json
from typing import Any

import pytest

from retoma import Run, pipeline
from retoma.providers import Answer, Chat, Prompt, Usage


class Teller:
    provider = "openai"
    model = "gpt-4o-mini"

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002
        said = f"You said: {prompt.messages[-1].content}"
        usage = Usage(input_tokens=1000, output_tokens=100)
        return Answer(raw=json.dumps({"said": said}), text=said, model=self.model, usage=usage, finish="stop")


@pipeline("ask")
async def ask(text: str, run: Run, *, chat: Chat) -> str:
    return await run.ask("say", chat, text)


@pytest.fixture
def asked(open_house: Any, settings: Any) -> Any:
    return asked_in(open_house, settings)


def asked_in(open_house: Any, settings: Any) -> Any:
    """A house in which one question was asked."""
    import asyncio  # noqa: PLC0415

    from retoma import Retoma  # noqa: PLC0415
    from retoma.testing import drain  # noqa: PLC0415

    async def once() -> None:
        async with Retoma(settings=settings, pipelines=[ask], providers={Chat: Teller()}) as app:
            await app.batch(ask, ["hello"], name="x")
            await drain(app)

    asyncio.run(once())
    return open_house()


def test_a_call_is_listed_without_and_shown_with_its_content(asked: Any) -> None:
    [listed] = asked.get("/calls").json()["calls"]
    shown = asked.get(f"/calls/{listed['id']}").json()

    assert "answer" not in listed
    assert (listed["state"], listed["cost"]) == ("answered", "0.00021")
    assert json.loads(shown["answer"]) == {"said": "You said: hello"}
    assert shown["request"]["messages"][0]["content"] == "hello"
    reader = asked.key("read")
    assert "answer" not in asked.get(f"/calls/{listed['id']}", headers=reader).json()


def test_spend_is_told_by_what_is_asked_for(asked: Any) -> None:
    [spend] = asked.get("/spend?by=batch").json()["spend"]

    assert (spend["useful"], spend["again"], spend["doubtful"]) == ("0.00021", "0", "0")
    assert asked.get("/spend?by=colour").status_code == 422


def test_a_cost_that_nobody_knows_is_null_and_counted_until_a_price_is_set(
    open_house: Any, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Teller, "model", "nobody-knows-1")
    house = asked_in(open_house, settings)
    [call] = house.get("/calls").json()["calls"]
    [batch] = house.get("/batches").json()["batches"]

    assert (call["cost"], call["cost_basis"], call["tier"], call["pipeline"]) == (None, "unpriced", "", "ask")
    assert (batch["spent"], batch["unpriced"]) == ("0", 1)
    assert house.get(f"/batches/{batch['id']}/progress").json()["unpriced"] == 1
    [spend] = house.get("/spend?by=pipeline").json()["spend"]
    assert (spend["name"], spend["useful"], spend["unpriced"]) == ("ask", "0", 1)

    body = {"provider": "openai", "model": "nobody-knows-1", "input": "1", "output": "2", "cache_write_1h": "3"}
    assert house.post("/prices", body).json()["cache_write_1h"] == "3"
    assert house.post("/prices", {**body, "tier": "batch", "input": "0.5"}).json()["tier"] == "batch"
    assert house.post("/calls/reprice").json() == {"calls": 1, "cost": "0.0012", "left": 0, "after": None}
    assert house.post("/calls/reprice", {"after": -1}).status_code == 422
    [call] = house.get("/calls").json()["calls"]
    assert (call["cost"], call["cost_basis"]) == ("0.0012", "own")
    [batch] = house.get("/batches").json()["batches"]
    assert (batch["spent"], batch["unpriced"]) == ("0.0012", 0)
    assert house.post("/calls/reprice", headers=house.key("read")).status_code == 403


def test_a_price_that_was_set_is_the_price_of_today(asked: Any) -> None:
    known = {price["model"]: price["source"] for price in asked.get("/prices").json()["prices"]}
    assert known == {"gpt-4o-mini": "genai-prices"}

    body = {"provider": "openai", "model": "gpt-4o-mini", "input": "1.5", "output": "2"}
    assert asked.post("/prices", body).json()["source"] == "person"
    [price] = asked.get("/prices").json()["prices"]
    assert (price["input"], price["cached"]) == ("1.5", "1.5")
    assert asked.post("/prices", {**body, "input": "-1"}).status_code == 422


def test_a_limit_is_set_live_and_shown_with_how_it_stands(asked: Any) -> None:
    answer = asked.client.put("/api/v1/limits/openai/gpt-4o-mini", json={"requests": 60, "tokens": 10_000})
    assert answer.status_code == 200, answer.text

    [limit] = asked.get("/limits").json()["limits"]
    assert (limit["name"], limit["requests"], limit["tokens"]) == ("openai/gpt-4o-mini", 60, 10_000)
    assert asked.client.put("/api/v1/limits/x", json={"requests": 0}).status_code == 422


def test_a_call_that_is_not_there_is_a_problem(asked: Any) -> None:
    answer = asked.get("/calls/999")

    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")

"""A provider asked in no job: written down, limited and paid once all the same."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import psycopg
import pytest

from retoma import Run, pipeline
from retoma.providers import (
    Answer,
    Embedder,
    Prompt,
    ProviderDown,
    ProviderRefused,
    RateLimited,
    RequestRejected,
    Usage,
    Vectors,
)
from retoma.testing import drain

LIMIT = "openai/text-embedding-3-small"


class Vectorer:
    provider = "openai"
    model = "text-embedding-3-small"
    dimensions = 2

    def __init__(self, *fails: Exception) -> None:
        self.asked: list[Sequence[str]] = []
        self.fails = list(fails)
        self.gate: asyncio.Event | None = None

    async def embed(self, texts: Sequence[str], *, timeout: float) -> Vectors:  # noqa: ARG002
        self.asked.append(texts)
        if self.gate:
            await self.gate.wait()
        if self.fails:
            raise self.fails.pop()
        vectors = [[float(len(text)), 1.0] for text in texts]
        return Vectors(vectors=vectors, model=self.model, usage=Usage(input_tokens=50))


@pipeline("embed-in-a-job")
async def in_a_job(text: str, run: Run, *, embedder: Embedder) -> list[list[float]]:
    return await run.embed("embed", embedder, [text])


def calls(psql: psycopg.Connection, columns: str) -> list[Any]:
    return psql.execute(f"select {columns} from retoma.calls order by id").fetchall()


async def test_it_is_written_down_with_what_it_cost_and_given_again_for_nothing(
    app_with: Any, psql: psycopg.Connection
) -> None:
    vectorer = Vectorer()
    app = await app_with(in_a_job, providers={Embedder: vectorer}, reuse_within="ana")
    first = await app.embed("search", vectorer, ["aluguel"])
    again = await app.embed("search", vectorer, ["aluguel"])
    job = await app.enqueue(in_a_job, "aluguel")
    await drain(app)

    assert first == again == await app.jobs.output(in_a_job, job.id) == [[7.0, 1.0]]
    assert len(vectorer.asked) == 1
    columns = "tenant, step, job_id, batch_id, kind, state, reused, cost"
    assert calls(psql, columns) == [("ana", "search", None, None, "first", "answered", 2, Decimal("0.000001"))]
    [spend] = await app.calls.spend("step")
    assert (spend.name, spend.useful) == ("search", Decimal("0.000001"))


async def test_what_this_machine_computes_is_not_a_call(app_with: Any, psql: psycopg.Connection) -> None:
    vectorer = Vectorer()
    vectorer.provider = "local"
    app = await app_with(in_a_job, providers={Embedder: vectorer})

    assert await app.embed("search", vectorer, ["a"]) == [[1.0, 1.0]]
    assert calls(psql, "id") == []


async def test_equal_questions_at_the_same_moment_are_paid_once(app_with: Any, psql: psycopg.Connection) -> None:
    vectorer = Vectorer()
    vectorer.gate = asyncio.Event()
    one = await app_with(in_a_job, providers={Embedder: vectorer})
    other = await app_with(in_a_job, providers={Embedder: vectorer})
    asking = [asyncio.create_task(app.embed("search", vectorer, ["aluguel"])) for app in (one, other, one)]
    while not vectorer.asked:
        await asyncio.sleep(0.01)
    vectorer.gate.set()

    assert await asyncio.gather(*asking) == [[[7.0, 1.0]]] * 3
    assert len(vectorer.asked) == 1
    assert calls(psql, "state, reused") == [("answered", 2)]


async def test_who_would_have_to_wait_for_its_turn_is_told_so_and_nothing_is_asked(
    app_with: Any, psql: psycopg.Connection
) -> None:
    vectorer = Vectorer(RateLimited("slow down", provider="openai", status=429, retry_after=600, paid=False))
    app = await app_with(in_a_job, providers={Embedder: vectorer})
    with pytest.raises(RateLimited, match="slow down"):
        await app.embed("search", vectorer, ["one"])
    with pytest.raises(RateLimited, match=f"limited: {LIMIT}") as caught:
        await app.embed("search", vectorer, ["two"])

    assert (caught.value.retry_after or 0) > 500
    assert len(vectorer.asked) == 1, "nobody asks a provider that cools, in a job or in none"
    assert calls(psql, "state") == [("failed",)], "what was not asked is not in the list"


@pytest.mark.parametrize("kind", [ProviderDown, ProviderRefused, RequestRejected])
async def test_a_failure_is_told_as_it_is(app_with: Any, psql: psycopg.Connection, kind: type[Exception]) -> None:
    failure = kind("no", provider="openai", status=500)
    app = await app_with(in_a_job, providers={Embedder: Vectorer()})
    with pytest.raises(kind) as caught:
        await app.embed("search", Vectorer(failure), ["one"])

    assert caught.value is failure
    assert calls(psql, "state, status") == [("doubtful", 500)]
    assert [each.failures for each in await app.calls.limits()] == [1 if kind is ProviderDown else 0]


async def test_who_goes_away_meanwhile_does_not_lose_what_was_paid(app_with: Any, psql: psycopg.Connection) -> None:
    vectorer = Vectorer()
    vectorer.gate = asyncio.Event()
    app = await app_with(in_a_job, providers={Embedder: vectorer})
    asking = asyncio.create_task(app.embed("search", vectorer, ["aluguel"]))
    while not vectorer.asked:
        await asyncio.sleep(0.01)
    asking.cancel()
    await asyncio.gather(asking, return_exceptions=True)
    vectorer.gate.set()

    assert await app.embed("search", vectorer, ["aluguel"]) == [[7.0, 1.0]]
    assert len(vectorer.asked) == 1
    assert calls(psql, "kind, state") == [("first", "answered")]


class Teller:
    """A model that answers with what it was given to say, in turn."""

    provider, model = "openai", "gpt-4o-mini"

    def __init__(self, *says: str) -> None:
        self.says = list(says)

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002
        said = self.says.pop(0)
        return Answer(raw=said, text=said, model=self.model, usage=Usage(input_tokens=10, output_tokens=5))


async def test_a_model_is_asked_in_no_job_sent_back_what_does_not_fit_and_paid_once(
    app_with: Any, psql: psycopg.Connection
) -> None:
    teller = Teller("no list", "[1, 2]")
    app = await app_with(in_a_job, providers={Embedder: Vectorer()})

    first = await app.ask("guess", teller, "Two numbers?", into=list[int])
    again = await app.ask("guess", teller, "Two numbers?", into=list[int])

    assert first == again == [1, 2]
    assert teller.says == []
    assert calls(psql, "step, job_id, kind, state") == [
        ("guess", None, "first", "answered"),
        ("guess", None, "repair", "answered"),
    ]


async def test_who_asks_a_model_that_rests_is_told_when_to_come_back(app_with: Any) -> None:
    app = await app_with(in_a_job, providers={Embedder: Vectorer()})
    await app.calls.set_limit("openai/gpt-4o-mini", requests=1)
    teller = Teller("one")
    assert await app.ask("guess", teller, "One?") == "one"

    with pytest.raises(RateLimited, match="cannot be asked now") as told:
        await app.ask("guess", teller, "Two?")

    assert told.value.retry_after

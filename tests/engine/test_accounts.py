"""Who shares what: limits by key, by model or by provider, and answers among those who say so."""

from __future__ import annotations

import hashlib
from typing import Any

import psycopg
import pytest

from retoma import JobState, Retry, Run, pipeline
from retoma.providers import Answer, Chat, Prompt, RateLimited
from retoma.providers.anthropic import AnthropicChat
from retoma.providers.azure_documents import AzureExtractor
from retoma.providers.openai import OpenAIChat, OpenAIEmbedder
from retoma.providers.openrouter import OpenRouterChat
from retoma.providers.serpapi import SerpApi
from retoma.store import workers
from retoma.testing import drain

MODEL = "acme/small-1"


class Keyed:
    """A provider that is asked with one of several keys."""

    provider, model = MODEL.split("/")

    def __init__(self, account: str, *fails: Exception) -> None:
        self.account = account
        self.fails = list(fails)
        self.asked = 0

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002
        self.asked += 1
        if self.fails:
            raise self.fails.pop()
        return Answer(raw="{}", text="yes", model=self.model)


@pipeline("ask-with-a-key", retry=Retry(attempts=1))
async def ask(text: str, run: Run, *, chat: Chat) -> str:
    return await run.ask("ask", chat, text)


def limited() -> RateLimited:
    return RateLimited("slow down", provider="acme", status=429, retry_after=600, paid=False)


async def test_who_is_limited_by_one_key_may_still_ask_with_another(app_with: Any, psql: psycopg.Connection) -> None:
    ana, bruno = Keyed("aaaaaaaa", limited()), Keyed("bbbbbbbb")
    states = []
    for chat in (ana, ana, bruno):
        app = await app_with(ask, providers={Chat: chat})
        job = await app.enqueue(ask, f"question {len(states)}")
        await drain(app)
        states.append((await app.jobs.get(job.id)).state)
        psql.execute("update retoma.jobs set run_at = now() + interval '1 hour' where state = 'queued'")

    assert states == [JobState.QUEUED, JobState.QUEUED, JobState.COMPLETED]
    assert (ana.asked, bruno.asked) == (1, 1)
    assert psql.execute("select name from retoma.limits where cooled_until > now()").fetchall() == [
        (f"{MODEL}/aaaaaaaa",)
    ]


@pytest.mark.parametrize("name", ["acme", MODEL])
async def test_a_limit_that_is_set_for_all_keys_is_shared_by_them(
    app_with: Any, psql: psycopg.Connection, name: str
) -> None:
    ana, bruno = Keyed("aaaaaaaa"), Keyed("bbbbbbbb")
    for place, chat in enumerate((ana, bruno)):
        app = await app_with(ask, providers={Chat: chat})
        if not place:
            await app.enqueue(ask, "before anything is limited")
            await drain(app)
            await app.calls.set_limit(name, requests=1)
        await app.enqueue(ask, f"question {place}")
        await drain(app)

    assert (ana.asked, bruno.asked) == (2, 0), "one a minute, whoever asks"
    [(reason,)] = psql.execute("select reason from retoma.jobs where state = 'queued'").fetchall()
    assert reason == f"limited: {name}"


async def test_the_narrowest_limit_counts(app_with: Any) -> None:
    chat = Keyed("aaaaaaaa")
    app = await app_with(ask, providers={Chat: chat})
    await app.calls.set_limit("acme", requests=1)
    await app.calls.set_limit(f"{MODEL}/aaaaaaaa", requests=600, at_once=2)
    await app.enqueue_many(ask, [f"question {number}" for number in range(5)])
    await drain(app)

    assert chat.asked == 5


def test_a_key_is_told_by_its_fingerprint_alone() -> None:
    key = "sk-very-secret"
    account = hashlib.sha256(key.encode()).hexdigest()[:8]

    for provider in (
        OpenAIChat(key=key, model="m"),
        OpenAIEmbedder(key=key),
        OpenRouterChat(key=key, model="m"),
        AnthropicChat(key=key, model="m"),
        AzureExtractor(key=key, endpoint="https://x.example"),
        SerpApi(key=key),
    ):
        assert provider.account == account


async def test_answers_are_shared_among_those_who_say_the_same_only(app_with: Any, psql: psycopg.Connection) -> None:
    chat = Keyed("")
    for tenant in ("ana", "ana", "bruno"):
        app = await app_with(ask, providers={Chat: chat}, reuse_within=tenant)
        await app.enqueue(ask, "the same question")
        await drain(app)

    assert chat.asked == 2
    assert psql.execute("select tenant, reused from retoma.calls order by id").fetchall() == [("ana", 1), ("bruno", 0)]


async def test_why_a_batch_waits_is_read_from_the_limits_that_its_calls_used(
    app_with: Any, psql: psycopg.Connection
) -> None:
    chat = Keyed("aaaaaaaa", limited())
    app = await app_with(ask, providers={Chat: chat})
    batch = await app.batch(ask, ["one", "two"], name="limited")
    await app.calls.set_limit("other/model", requests=1)
    psql.execute("update retoma.limits set cooled_until = now() + interval '1 day'")
    await drain(app, at_once=1)
    serving = workers.hello(
        label="ana", host="here", pid=1, version="0", queues=[ask.queue], pipelines=[ask.name], at_once=1, lease=600.0
    )
    await app.fetch(serving)

    why = await app.batches.explain(batch.id)
    assert why.verdict == "waiting"
    assert f"Provider {MODEL}/aaaaaaaa limits requests until " in why.sentence
    psql.execute("update retoma.limits set cooled_until = null, opened_until = now() where name <> 'other/model'")
    assert (await app.batches.explain(batch.id)).evidence["shut_broken"]
    psql.execute("update retoma.limits set opened_until = null")
    assert "Provider" not in (await app.batches.explain(batch.id)).sentence

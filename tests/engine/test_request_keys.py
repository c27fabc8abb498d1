"""The key of each kind of request: answers that were paid for are found by it, so no release may change one. And the
statements that a request costs.
"""

from __future__ import annotations

from collections import Counter
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest
from pydantic import BaseModel

from retoma import Retry, Run, SyncRun, pipeline
from retoma.postgres.database import Database
from retoma.providers import (
    Answer,
    Chat,
    Embedder,
    Extraction,
    Extractor,
    Message,
    Offer,
    Offers,
    Page,
    PriceSearch,
    Prompt,
    Usage,
    Vectors,
)
from retoma.providers.deferred import Pending
from retoma.store import calls
from retoma.store.query import Query
from retoma.testing import drain

RECORDED = "select step, provider, model, kind, key from retoma.calls order by id"
ONCE = Retry(attempts=1)
READ = Extraction(pages=[Page(number=1, text="Contrato")], reader="layout", raw="{}", usage=Usage(units=1))
SOLD = Offers(offers=[Offer(title="Uno", price=Decimal(7), currency="BRL", source="shop")], raw="[]")


class Kind(BaseModel):
    kind: str


class Model:
    """A model whose first answer does not fit."""

    provider = "acme"
    model = "small-1"

    def __init__(self) -> None:
        self.answers = ['{"kind": 7}', '{"kind": "invoice"}', "hello"]

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002
        text = self.answers.pop(0)
        return Answer(raw=text, text=text, model=self.model, usage=Usage(input_tokens=3, output_tokens=2))


class Vectorer:
    provider = "acme"
    model = "vectors-1"
    dimensions = 2

    async def embed(self, texts: Any, *, timeout: float) -> Vectors:  # noqa: ARG002
        return Vectors(vectors=[[0.5, 1.0] for _ in texts], model=self.model, usage=Usage(input_tokens=2))


class Reader:
    provider = "acme"
    model = "layout"
    parameters = {"features": "tables"}  # noqa: RUF012

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:  # noqa: ARG002
        return READ


class SlowReader(Reader):
    """One that takes documents in and reads them later."""

    kept_seconds = 3600.0

    async def submit(self, file: Path, *, kind: str, timeout: float) -> str:  # noqa: ARG002
        return f"operation-{kind}"

    async def look(self, operation: str, *, timeout: float) -> Extraction | Pending:  # noqa: ARG002
        assert operation == "operation-pdf"
        return READ


class Shops:
    provider = "serpapi"

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:  # noqa: ARG002
        return SOLD


@pipeline("ask", retry=ONCE)
async def ask(_: str, run: Run, *, chat: Chat) -> str:
    kind = await run.ask("kind", chat, "Which kind?", into=Kind)
    said = Prompt(
        messages=[Message(role="system", content="Be brief."), Message(role="user", content="Olá")],
        model="large-1",
        max_tokens=7,
        temperature=0.5,
        parameters={"seed": 3},
    )
    return kind.kind + await run.ask("greet", chat, said)


@pipeline("ask-plainly", retry=ONCE)
def ask_plainly(_: str, run: SyncRun, *, chat: Chat) -> str:
    return run.ask("kind", chat, "Which kind?", into=Kind).kind


@pipeline("embed", retry=ONCE)
async def embed(_: str, run: Run, *, embedder: Embedder) -> int:
    return len(await run.embed("vectors", embedder, ["one", "dois"]))


@pipeline("read", retry=ONCE)
async def read(_: str, run: Run, *, extractor: Extractor) -> str:
    return (await run.extract("read", extractor, Path("a.pdf"), kind="pdf", sha256="abc")).text


@pipeline("price", retry=ONCE)
async def price(_: str, run: Run, *, prices: PriceSearch) -> int:
    return len((await run.search("search", prices, "uno", limit=9)).offers)


FIRST = ("kind", "acme", "small-1", "first", "6cd9f9a00f845d70d27eba60b233115f6cb420c15c4f4296de9439ab626f8a0c")
REPAIR = ("kind", "acme", "small-1", "repair", "5accaa9cbc2a1a53e9e1ed94d901695c22f9c44563d62577653b8f95ade5a87a")
GREETING = ("greet", "acme", "large-1", "first", "85cd3521edab07360bda31f2dd78317605b64a38fc77584ad03af29453e0a347")
VECTORS = ("vectors", "acme", "vectors-1", "first", "1b2765afe2c764862aa55992896ef47dd4f6aa51891833d7ae5a88886d43d228")
READING = ("read", "acme", "layout", "first", "fb5757a9fde98ff9d5532bcd2aaf83c0b0b34915aadd392d59433de58ff2b3f2")
SEARCH = ("search", "serpapi", "search", "first", "22138d781dbb776cc94daa98544a0cae2b00260f7d595e91f422bdef102487e7")


@pytest.mark.parametrize(
    ("asking", "kind", "provider", "wanted"),
    [
        pytest.param(ask, Chat, Model, [FIRST, REPAIR, GREETING], id="ask"),
        pytest.param(ask_plainly, Chat, Model, [FIRST, REPAIR], id="ask without await"),
        pytest.param(embed, Embedder, Vectorer, [VECTORS], id="embed"),
        pytest.param(read, Extractor, Reader, [READING], id="extract"),
        pytest.param(read, Extractor, SlowReader, [READING], id="extract later"),
        pytest.param(price, PriceSearch, Shops, [SEARCH], id="search"),
    ],
)
async def test_a_request_of_each_kind_has_the_key_that_it_always_had(
    app_with: Any, psql: psycopg.Connection, asking: Any, kind: type, provider: type, wanted: list[Any]
) -> None:
    app = await app_with(asking, providers={kind: provider()})
    job = await app.enqueue(asking, "x")

    await drain(app)

    assert (await app.jobs.get(job.id)).state == "completed"
    assert psql.execute(RECORDED).fetchall() == wanted


async def test_outside_of_a_job_the_keys_are_the_same(app_with: Any, psql: psycopg.Connection) -> None:
    app = await app_with(embed, providers={Embedder: Vectorer()})

    await app.ask("kind", Model(), "Which kind?", into=Kind)
    await app.embed("vectors", Vectorer(), ["one", "dois"])

    assert psql.execute(RECORDED).fetchall() == [FIRST, REPAIR, VECTORS]


PLAIN = {"price": 1, "open": 1, "answer": 1}


@pytest.mark.parametrize(
    ("asking", "kind", "provider", "wanted"),
    [
        pytest.param(ask, Chat, Model, {"price": 2, "open": 3, "answer": 3}, id="ask"),
        pytest.param(embed, Embedder, Vectorer, PLAIN, id="embed"),
        pytest.param(read, Extractor, Reader, PLAIN, id="extract"),
        pytest.param(read, Extractor, SlowReader, {**PLAIN, "accept": 1}, id="extract later"),
        pytest.param(price, PriceSearch, Shops, PLAIN, id="search"),
    ],
)
async def test_a_request_of_each_kind_costs_these_statements_and_no_other(
    app_with: Any, monkeypatch: pytest.MonkeyPatch, asking: Any, kind: type, provider: type, wanted: dict[str, int]
) -> None:
    names = {sql: name for name, sql in calls.SQL.items()}
    done: Counter[str] = Counter()
    plain = Database.all

    async def counted(self: Database, query: Query[Any]) -> Any:
        done[names.get(query.sql, "other")] += 1
        return await plain(self, query)

    monkeypatch.setattr(Database, "all", counted)
    app = await app_with(asking, providers={kind: provider()})
    await app.enqueue(asking, "x")
    await drain(app)

    del done["other"]
    assert done == wanted

"""The pipeline and the text side together: who writes when nobody is named, and that a model is paid once."""

from __future__ import annotations

import json
import re
from collections.abc import AsyncIterator
from decimal import Decimal
from pathlib import Path

import files
import psycopg
import pytest
from sample_books import TextExtractor

from retoma import Retoma
from retoma.pipelines import BOOKS
from retoma.pipelines.books.library import Books
from retoma.pipelines.books.text import plan
from retoma.pipelines.books.text.prompts import Draft, Reading
from retoma.pipelines.books.text.summary import Source, write
from retoma.providers import Answer, BlobStore, Chat, Extraction, Extractor, Page, Prompt, ProviderDown, Usage
from retoma.providers.folder import FolderBlobs
from retoma.providers.local.encoder import best_encoder
from retoma.testing import drain

TEXT = files.as_text(files.chapters()).decode()


class Model:
    """A model that reads and writes well, and bills."""

    provider, model = "acme", "writer-1"

    def __init__(self) -> None:
        self.asked: list[str] = []
        self.stumbles = False
        self.stumbled: list[Prompt] = []
        found = plan.detect(Extraction(pages=[Page(number=1, text=TEXT)], reader="test"))
        self._drafts = {each.number: _good(Source.of(each, best_encoder())) for each in found.chapters}

    async def chat(self, prompt: Prompt, *, timeout: float) -> Answer:  # noqa: ARG002
        said = re.match(r"Chapter (\w+):", prompt.messages[-1].content)
        assert said is not None
        if self.stumbles and prompt not in self.stumbled:
            self.stumbled.append(prompt)
            raise ProviderDown("It is down.", provider=self.provider, paid=False)
        self.asked.append(said[1])
        reads = "ideas" in (prompt.schema or {})["properties"]
        answer = Reading(ideas=["Helena guardou a carta."]) if reads else self._drafts[said[1]]
        text = answer.model_dump_json()
        given = sum(len(each.content) for each in prompt.messages) + len(json.dumps(prompt.schema))
        usage = Usage(input_tokens=given // 4, output_tokens=len(text) // 4)
        return Answer(raw=text, text=text, model=self.model, usage=usage)


def _good(source: Source) -> Draft:
    told = write(source)
    return Draft(
        summary=told.marked,
        key_points=list(told.summary.key_points),
        quotations=[each.text for each in told.summary.quotations],
        examples=list(told.summary.examples),
    )


@pytest.fixture
def model() -> Model:
    return Model()


@pytest.fixture
async def app(database_url: str, tmp_path: Path, extractor: TextExtractor, model: Model) -> AsyncIterator[Retoma]:
    providers = {BlobStore: FolderBlobs(tmp_path / "blobs"), Extractor: extractor, Chat: model}
    async with Retoma(database_url, extensions=[BOOKS], providers=providers) as app:
        yield app


async def pieces() -> AsyncIterator[bytes]:
    yield TEXT.encode()


async def test_a_model_writes_where_there_is_one_and_no_chapter_is_paid_twice(
    books: Books, app: Retoma, model: Model, psql: psycopg.Connection
) -> None:
    id = (await books.summarise("livro.txt", pieces())).session.id
    assert (books.editor.provider, books.editor.model, books.editor.bills) == ("acme", "writer-1", True)
    await drain(app)
    session = await books.get(id)
    assert (session.state, session.done, session.passed) == ("done", 3, 3), session.reason
    paid = list(model.asked)
    recorded = psql.execute("select count(*) from retoma.calls where job_id = %s", [session.job_id]).fetchone()
    assert recorded == (len(paid) + 1,), "and one for reading the file"

    psql.execute("update books.checkpoints set body = ''::bytea where chapter_number = '2'")
    psql.execute("update books.sessions set finished_at = null")
    await books.check(id)
    await books.resume(id)
    await drain(app)

    assert (await books.get(id)).state == "done"
    assert model.asked == paid, "its answers are known, and nobody asks again"


async def test_a_plan_says_before_anybody_paid_about_what_a_model_costs_and_later_what_it_cost(
    books: Books, app: Retoma, psql: psycopg.Connection
) -> None:
    await app.calls.set_price("acme", "writer-1", input=Decimal(2), output=Decimal(8))
    first = (await books.summarise("livro.txt", pieces(), title="Um")).session.id
    await drain(app)
    ((spent,),) = psql.execute("select sum(cost) from retoma.calls").fetchall()
    psql.execute("update books.checkpoints set verdict = 'invalid', reason = 'not_json' where true")

    after = await books.plan(first)
    psql.execute("update books.sessions set finished_at = null")
    before = await books.plan(first)

    assert after.cost == pytest.approx(spent), "what words have cost"
    assert before.cost is not None, "by the price of the model"
    assert spent / 3 < before.cost < spent * 3


async def test_what_nobody_can_price_costs_an_unknown_sum_and_not_nothing(
    books: Books, app: Retoma, psql: psycopg.Connection
) -> None:
    id = (await books.summarise("livro.txt", pieces())).session.id
    await drain(app)
    psql.execute("update books.checkpoints set verdict = 'invalid', reason = 'not_json' where true")

    assert (await books.plan(id)).redone_words > 0
    assert (await books.plan(id)).cost is None


async def test_a_book_that_is_interrupted_before_every_request_asks_each_of_them_once(
    books: Books, app: Retoma, model: Model, psql: psycopg.Connection
) -> None:
    model.stumbles = True
    id = (await books.summarise("livro.txt", pieces())).session.id
    for _ in range(20):
        await drain(app)
        if (session := await books.get(id)).state == "failed":
            await books.resume(id)
        psql.execute("update retoma.jobs set run_at = now() where state = 'queued'")

    assert (session.state, session.passed) == ("done", 3), session.reason
    assert len(model.stumbled) == len(model.asked) == 3 * 2, "each chapter is read once and written once"

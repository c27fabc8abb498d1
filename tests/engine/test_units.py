"""Documents read and prices searched for: done once, written down, and paid by the unit, once."""

from __future__ import annotations

import json
from dataclasses import replace
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retoma import JobState, Retry, Run, SyncRun, pipeline
from retoma.providers import Extraction, Extractor, Field, Offer, Offers, Page, PriceSearch, Table, Usage
from retoma.testing import drain, rehearse

SAID = Extraction(
    pages=[Page(number=1, text="Contrato\nnº 7"), Page(number=2, text="Fim", source="ocr")],
    tables=[Table(rows=[["a", "b"], ["1", ""]], page=2)],
    fields=[Field(name="Valor", value="R$ 7", confidence=0.5, page=1)],
    outline=[("Contrato", 1)],
    headings=[(1, "Contrato", 0)],
    reader="prebuilt-layout",
    raw='{"status": "succeeded"}',
    usage=Usage(units=2),
)
SOLD = Offers(
    offers=[Offer(title="Uno", price=Decimal("19990.10"), currency="BRL", source="shop")],
    raw='{"shopping_results": []}',
    usage=Usage(units=1),
)


class Reader:
    """A service that reads for money, and remembers what it was asked."""

    provider = "azure-documents"
    model = "prebuilt-layout"

    def __init__(self, said: Extraction = SAID, *, features: str = "") -> None:
        self.parameters = {"features": features}
        self.said = said
        self.asked: list[str] = []

    async def extract(self, file: Path, *, kind: str, timeout: float) -> Extraction:  # noqa: ARG002
        self.asked.append(f"{file.name} as {kind}")
        return self.said


class Shops:
    provider = "serpapi"

    def __init__(self) -> None:
        self.asked: list[str] = []

    async def search(self, query: str, *, limit: int = 40, timeout: float) -> Offers:  # noqa: ARG002
        self.asked.append(query)
        return SOLD


@pipeline("read", retry=Retry(attempts=1))
async def read(name: str, run: Run, *, extractor: Extractor) -> Extraction:
    return await run.extract("read", extractor, Path(name), kind="pdf", sha256=name.partition(".")[0])


@pipeline("read-plainly", retry=Retry(attempts=1))
def read_plainly(name: str, run: SyncRun, *, extractor: Extractor, prices: PriceSearch) -> str:
    found = run.extract("read", extractor, Path(name), kind="pdf", sha256=name)
    offers = run.search("search", prices, found.pages[0].text)
    return f"{found.text} {offers.offers[0].price}"


@pipeline("price", retry=Retry(attempts=1))
async def price(query: str, run: Run, *, prices: PriceSearch) -> Offers:
    return await run.search("search", prices, query, reuse=query.startswith("old"))


def calls(psql: psycopg.Connection, columns: str) -> list[Any]:
    return psql.execute(f"select {columns} from retoma.calls order by id").fetchall()


async def test_an_equal_file_is_read_once_and_comes_back_whole(app_with: Any, psql: psycopg.Connection) -> None:
    reader = Reader()
    app = await app_with(read, providers={Extractor: reader})
    await app.calls.set_price("azure-documents", "prebuilt-layout", unit=Decimal("0.01"))
    jobs = [await app.enqueue(read, name) for name in ("abc.pdf", "abc.copy")]
    await drain(app, at_once=1)

    first, again = [await app.jobs.output(read, job.id) for job in jobs]
    assert reader.asked == ["abc.pdf as pdf"]
    assert first == replace(SAID, raw=None), "pages, tables, fields, outline, and what it took"
    assert again == replace(first, usage=Usage(cost=Decimal(0))), "the store asks for nothing"
    [(raw, request, *paid)] = calls(psql, "answer, request, units, reserved, cost, reused")
    assert raw == SAID.raw, "the answer is kept as it came"
    assert paid == [2, Decimal("0.01"), Decimal("0.02"), 1], "one page is guessed, and two were read"
    assert request == {"sha256": "abc", "kind": "pdf", "parameters": {"features": ""}}


async def test_another_model_or_feature_is_another_request(app_with: Any, psql: psycopg.Connection) -> None:
    for reader in (Reader(), Reader(features="keyValuePairs")):
        app = await app_with(read, providers={Extractor: reader})
        await app.enqueue(read, "abc.pdf")
        await drain(app)
        assert len(reader.asked) == 1
    assert len(calls(psql, "id")) == 2


async def test_what_this_machine_reads_is_a_step_and_not_a_call(app_with: Any, psql: psycopg.Connection) -> None:
    reader = Reader()
    reader.provider = "local"
    app = await app_with(read, providers={Extractor: reader})
    job = await app.enqueue(read, "abc.pdf")
    await drain(app)

    assert (await app.jobs.output(read, job.id)).text == "Contrato\nnº 7\fFim"
    assert psql.execute("select step from retoma.checkpoints").fetchall() == [("read",)]
    assert calls(psql, "id") == []


@pytest.mark.parametrize(
    "page", [pytest.param("nul \0 in it", id="nul"), pytest.param("half \ud800 of a pair", id="half")]
)
async def test_a_paid_page_that_postgresql_cannot_hold_is_kept_all_the_same(
    app_with: Any, psql: psycopg.Connection, page: str
) -> None:
    app = await app_with(read, providers={Extractor: Reader(replace(SAID, pages=[Page(number=1, text=page)]))})
    job = await app.enqueue(read, "abc.pdf")
    await drain(app)

    assert calls(psql, "state") == [("answered",)]
    assert len((await app.jobs.output(read, job.id)).text) == len(page)


async def test_a_price_survives_to_the_cent_and_a_search_is_made_anew_unless_told_otherwise(
    app_with: Any, psql: psycopg.Connection
) -> None:
    shops = Shops()
    app = await app_with(price, providers={PriceSearch: shops})
    jobs = [await app.enqueue(price, query) for query in ("uno", "uno", "old uno", "old uno")]
    await drain(app, at_once=1)

    found = [await app.jobs.output(price, job.id) for job in jobs]
    assert shops.asked == ["uno", "uno", "old uno"]
    assert {offers.offers[0].price for offers in found} == {Decimal("19990.10")}
    assert {offers.raw for offers in found} == {SOLD.raw}
    assert calls(psql, "model, units, reused") == [("search", 1, 0), ("search", 1, 0), ("search", 1, 1)]


async def test_a_budget_asks_for_the_price_of_a_unit_but_not_of_what_is_free(app_with: Any) -> None:
    for bills, ending in ((True, JobState.FAILED), (False, JobState.COMPLETED)):
        shops: Any = Shops()
        shops.bills = bills
        app = await app_with(price, providers={PriceSearch: shops}, unknown_price="refuse")
        await app.batch(price, ["uno"], name=f"bills {bills}", budget=Decimal(1))
        await drain(app)
        [job] = await app.jobs.find(pipeline="price", state=ending)
        assert job.state is ending
        assert bills == ("nobody knows what serpapi/search costs" in (job.error or ""))


async def test_a_plain_handler_and_a_rehearsal_use_the_same_words(app_with: Any) -> None:
    reader, shops = Reader(), Shops()
    app = await app_with(read_plainly, providers={Extractor: reader, PriceSearch: shops})
    job = await app.enqueue(read_plainly, "abc.pdf")
    await drain(app)
    rehearsed = await rehearse(read_plainly, "abc.pdf", extractor=reader, prices=shops)

    assert rehearsed.output == await app.jobs.output(read_plainly, job.id) == "Contrato\nnº 7\fFim 19990.10"
    assert json.dumps(rehearsed.checkpoints["search"]["offers"][0]["price"]) == '"19990.10"'
    assert (len(reader.asked), len(shops.asked)) == (2, 2)

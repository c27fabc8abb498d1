"""Reports of batches that workers write: the same as those that are written at once, whoever is killed half-way."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest

from retoma import Retoma, Settings
from retoma.errors import Conflict
from retoma.model.ids import BatchId
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes import report_pipeline
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.markets import market_from
from retoma.pipelines.quotes.ports import Market
from retoma.pipelines.quotes.pricing.verify import read
from retoma.pipelines.quotes.reports import Reports
from retoma.providers.factory import providers_from
from retoma.testing import drain

pytestmark = pytest.mark.timeout(300)

LIST = "codigo;descricao\n1;Estante de aço 6 prateleiras\n2;Nobreak 1500 VA bivolt\n3;Estante de aço 6 prateleiras\n"
COLUMNS = """
project_id, config_version_id, status, input_type, input_text, codigo_item, search_query_final, valor_medio,
valor_minimo, valor_maximo, variacao_percentual, progress_percentage, attempt_number, requote_number, batch_job_id,
processing_checkpoint, last_heartbeat, started_at, completed_at, created_by"""


def copy_many(psql: psycopg.Connection, batch: int, count: int) -> None:
    """So many more quotes of the batch, each as its first; their jobs are gone, as after a year."""
    psql.execute(
        f"insert into quotes.quote_requests (job_id, batch_index, {COLUMNS}) select 1000000 + n, 1000 + n, {COLUMNS} "
        "from quotes.quote_requests, generate_series(1, %s) as n where batch_job_id = %s and batch_index = 0",
        [count, batch],
    )
    psql.execute(
        "insert into quotes.quote_sources (quote_id, key, position, kind, provider, title, price_value, is_valid, "
        "is_accepted, extraction_method) select quote.id, 'manual/' || source.key, source.position, source.kind, "
        "'person', source.title, source.price_value, source.is_valid, source.is_accepted, 'MANUAL' from "
        "quotes.quote_requests as quote, quotes.quote_sources as source where quote.batch_job_id = %s "
        "and quote.batch_index >= 1000 and source.quote_id = 1 and source.is_valid",
        [batch],
    )


@pytest.fixture
async def app(settings: Settings, tmp_path: Path) -> AsyncIterator[Retoma]:
    given = {"RETOMA_HOME": str(tmp_path), "RETOMA_BROWSER": "none"}
    providers = providers_from(given)
    market = market_from(given, providers)
    async with Retoma(settings=settings, extensions=[QUOTES], providers={**providers, Market: market}) as app:
        yield app
    await market.aclose()


@pytest.fixture
async def batch(app: Retoma) -> BatchId:
    id, _ = await Quotes(app).create_batch(LIST.encode(), name="Lote", researcher="Ana")
    await drain(app)
    for each in await Quotes(app).quotes(batch_id=id, statuses=["AWAITING_REVIEW"]):
        await Quotes(app).accept(each.id, reason="Bastam.", by="ana")
    return id


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each quote is a part."""
    monkeypatch.setattr(report_pipeline, "PART", 1)


async def test_a_report_that_a_worker_closes_is_verified_and_tells_what_one_written_at_once_does(
    app: Retoma, batch: BatchId
) -> None:
    reports = Reports(app)
    draft = await reports.document(batch_id=batch)
    made = await reports.order(batch, closing=True, by="ana")
    again = await reports.order(batch, closing=True, by="bia")
    await drain(app)
    (ready,) = await reports.ordered(batch)
    closed = await reports.library.closed_report(batch_id=batch)
    pdf, xlsx = (await reports.blob(closed.pdf_blob or ""), await reports.blob(closed.xlsx_blob or ""))

    assert (made.state, again.job_id, ready.state, ready.percent) == ("QUEUED", made.job_id, "READY", 100)
    assert (closed.id, closed.sha256, closed.closed_by) == (ready.report_id, ready.sha256, "ana")
    assert [await reports.verify(each) for each in (pdf or b"", xlsx or b"")] == [[], []]
    assert [each.research for each in read(pdf or b"").reports] == [each.research for each in draft.reports]
    with pytest.raises(Conflict):
        await reports.order(batch, closing=True, by="ana")


async def test_while_a_report_is_being_closed_nobody_decides_about_its_quotes(
    app: Retoma, batch: BatchId, psql: psycopg.Connection
) -> None:
    reports, library = Reports(app), Quotes(app)
    made = await reports.order(batch, closing=True, by="ana")
    psql.execute("update quotes.report_jobs set parts = 5 where job_id = %s", [made.job_id])  # a worker has begun it
    (source, *_) = await library.sources(1)

    with pytest.raises(Conflict):
        await library.drop_source(1, source.id, reason="Outro modelo", by="bia")
    with pytest.raises(Conflict):
        await library.resume_batch(batch, reset_errors=True)
    await drain(app)
    assert (await reports.ordered(batch))[0].state == "READY"


async def test_a_quote_that_waits_for_a_person_stops_the_closing_and_the_job_says_which(
    app: Retoma, batch: BatchId, psql: psycopg.Connection
) -> None:
    psql.execute("update quotes.quote_requests set status = 'AWAITING_REVIEW' where id = 2")
    made = await Reports(app).order(batch, closing=True, by="ana")
    await drain(app)
    (failed,) = await Reports(app).ordered(batch)

    assert failed.state == "FAILED"
    assert ((await app.jobs.get(made.job_id)).error or "").startswith("report_too_early: Quote 2 is AWAITING_REVIEW")
    psql.execute("update quotes.quote_requests set status = 'DONE' where id = 2")
    await Reports(app).order(batch, closing=True, by="ana")
    await drain(app)
    assert (await Reports(app).ordered(batch))[0].state == "READY"


async def test_a_thousand_quotes_are_one_report(
    app: Retoma, batch: BatchId, psql: psycopg.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(report_pipeline, "PART", 250)
    copy_many(psql, batch, 1000)

    await Reports(app).order(batch, closing=True, by="ana")
    await drain(app)
    closed = await Quotes(app).closed_report(batch_id=batch)

    assert len(read(await Reports(app).blob(closed.xlsx_blob or "") or b"").reports) == 1003
    assert len(closed.content["reports"]) == 1003

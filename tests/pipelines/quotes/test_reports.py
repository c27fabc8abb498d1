"""Reports of what was really quoted: closed once, never changed, and refused for one cent."""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path

import psycopg
import pytest
from pictures import png

from retoma import Retoma, Settings
from retoma.errors import ConfigurationError, Conflict, NotFound
from retoma.model.ids import BatchId
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.markets import market_from
from retoma.pipelines.quotes.ports import Market
from retoma.pipelines.quotes.pricing.verify import ReportUnreadable
from retoma.pipelines.quotes.reports import Kind, Reports, of_row
from retoma.providers.factory import providers_from
from retoma.testing import drain

pytestmark = pytest.mark.timeout(600)

LIST = "codigo;descricao;quantidade\n1;Estante de aço 6 prateleiras;3\n2;Nobreak 1500 VA bivolt;1\n".encode()
KINDS: tuple[Kind, ...] = ("pdf", "xlsx", "json")


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
    id, _ = await Quotes(app).create_batch(LIST, name="Lote", researcher="Ana")
    await drain(app)
    return id


@pytest.mark.usefixtures("batch")
async def test_a_closed_report_of_a_quote_is_verified_as_every_kind_of_file(app: Retoma) -> None:
    reports, library = Reports(app), Quotes(app)
    first = (await library.sources(1))[0]
    await library.drop_source(1, first.id, reason="Another model.", by="bia")
    await library.accept(1, reason="Two are enough here.", by="bia")
    closed = await reports.close(quote_id=1, by="ana")
    files = {kind: await reports.file(kind, quote_id=1) for kind in KINDS}
    (told,) = of_row(closed).reports

    assert [await reports.verify(each) for each in files.values()] == [[], [], []]
    assert (told.research.researcher, told.research.code, told.research.quantity) == ("Ana", "1", 3)
    assert told.result is not None
    assert told.total == told.result * 3
    assert (told.lines[0].counts, told.lines[0].refused) == (False, "BY_PERSON"), "it is struck out"
    assert [each.what for each in told.research.decisions] == ["Fonte excluída", "Preços aceitos"]
    assert files["pdf"] == await reports.file("pdf", quote_id=1)
    with pytest.raises(Conflict):
        await reports.close(quote_id=1, by="bia")


async def test_one_cent_in_a_report_is_found(app: Retoma, batch: BatchId) -> None:
    reports = Reports(app)
    await reports.close(batch_id=batch, by="ana")
    content = json.loads(await reports.file("json", batch_id=batch))
    first = content["reports"][0]
    first["result"] = str(round(float(first["result"]) + 0.01, 2))

    assert await reports.verify(await reports.file("xlsx", batch_id=batch)) == []
    problems = await reports.verify(json.dumps(content).encode())
    assert ("reports[1].result" in {where for where, _ in problems}) is True


@pytest.mark.usefixtures("batch")
async def test_a_consistent_report_that_nobody_closed_is_told_apart(app: Retoma) -> None:
    reports = Reports(app)

    draft = await reports.file("pdf", quote_id=1)

    assert await reports.verify(draft) == [("report", "no report with these figures was closed here")]
    assert "(minuta)" in (await reports.document(quote_id=1)).title
    with pytest.raises(ReportUnreadable):
        await reports.verify(b"%PDF-1.4 nothing")


@pytest.mark.usefixtures("batch")
async def test_changed_evidence_breaks_the_report(app: Retoma, tmp_path: Path) -> None:
    reports = Reports(app)
    await reports.close(quote_id=1, by="ana")
    content = await reports.file("pdf", quote_id=1)
    kept = next(each.evidence_blob for each in await Quotes(app).sources(1) if each.is_accepted and each.evidence_blob)
    (tmp_path / "blobs" / kept).write_bytes(b"<html>another page</html>")

    problems = await reports.verify(content)

    assert any("its evidence is missing or is another one" in what for _, what in problems)


async def test_the_photograph_of_an_item_is_in_its_report_by_its_hash_and_a_changed_one_breaks_it(
    app: Retoma, tmp_path: Path
) -> None:
    reports, library = Reports(app), Quotes(app)
    kept = await library.keep_image(png())
    id = await library.create("Estante de aço 6 prateleiras", image=kept)
    await drain(app)
    (told,) = of_row(await reports.close(quote_id=id, by="ana")).reports
    files = [await reports.file(kind, quote_id=id) for kind in KINDS]
    holds = [await reports.verify(each) for each in files]
    (tmp_path / "blobs" / kept.blob).write_bytes(png(shade=1))
    breaks = await reports.verify(files[0])

    assert told.research.picture is not None
    assert told.research.picture.sha256 == hashlib.sha256(png()).hexdigest()
    assert holds == [[], [], []]
    assert (f"item {id}", "its photograph is missing or is another one") in breaks


async def test_a_closed_batch_holds_its_quotes_and_stays(app: Retoma, batch: BatchId, psql: psycopg.Connection) -> None:
    reports, library = Reports(app), Quotes(app)
    await reports.close(batch_id=batch, by="ana")
    first = (await library.sources(1))[0]

    with pytest.raises(Conflict, match="closed"):
        await library.drop_source(1, first.id, reason="Too late.", by="ana")
    with pytest.raises(psycopg.errors.IntegrityConstraintViolation):
        psql.execute("delete from quotes.closed_reports")


async def test_what_has_not_ended_or_does_not_exist_is_not_closed(app: Retoma) -> None:
    reports, library = Reports(app), Quotes(app)
    id = await library.create("Mesa")

    with pytest.raises(Conflict, match="PENDING"):
        await reports.close(quote_id=id, by="ana")
    with pytest.raises(NotFound):
        await reports.close(quote_id=99, by="ana")
    with pytest.raises(NotFound):
        await reports.file("pdf", batch_id=99)


async def test_the_rules_of_the_project_are_those_of_its_reports(app: Retoma) -> None:
    library = Quotes(app)
    rules = {"rules": {"central": "LOWEST", "excessive_percent": None}, "legal_basis": "Regra da casa"}
    project = await library.create_project("P", report=rules)
    id = await library.create("Estante de aço 6 prateleiras", project_id=project.id)
    await drain(app)
    (told,) = (await Reports(app).document(quote_id=id)).reports

    assert told.figures is not None
    assert told.result == told.figures.lowest
    assert told.research.legal_basis == "Regra da casa"
    for wrong in ({"x": 1}, {"rules": {"central": "HIGHEST"}}, {"index_table": "nonsense"}):
        with pytest.raises(ConfigurationError):
            await library.create_project("Q", report=wrong)

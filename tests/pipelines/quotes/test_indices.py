"""The tables of price indices: each statement does what its comment says, and reports are corrected by them.

Every table here is a made-up example and says so: no figure of it was ever published.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import AsyncIterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path

import psycopg
import pytest

from retoma import Retoma, Settings
from retoma.errors import ConfigurationError
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes import indices
from retoma.pipelines.quotes.bank_values import UpdateMode
from retoma.pipelines.quotes.banking import PriceBank
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.markets import market_from
from retoma.pipelines.quotes.ports import Market
from retoma.pipelines.quotes.pricing.correction import load
from retoma.pipelines.quotes.pricing.report import Report
from retoma.pipelines.quotes.reports import Kind, Reports
from retoma.postgres.database import Database
from retoma.providers.factory import providers_from
from retoma.testing import drain

SOURCE = "a made-up example, published by nobody"
VEHICLE = "Ipuã Capivara 1.0 2021"
KINDS: tuple[Kind, ...] = ("pdf", "xlsx", "json")


def months_back(count: int) -> list[str]:
    """The last *count* whole months, the oldest first."""
    month = datetime.now(UTC).date().replace(day=1)
    found = []
    for _ in range(count):
        month = (month - timedelta(days=1)).replace(day=1)
        found.append(f"{month:%Y-%m}")
    return found[::-1]


def table(months: list[str], *, index: str = "IPCA", dated: str = "2026-10-09", percent: str = "1.00") -> str:
    rows = "".join(f"{month},{percent}\n" for month in months)
    return f"# index: {index}\n# source: {SOURCE}\n# dated: {dated}\nmonth,percent\n{rows}"


# — statements —


class TestPut:
    async def test_the_same_file_makes_no_second_row(self, database: Database) -> None:
        text = table(["2026-08", "2026-09"])

        first = await database.all(indices.put(load(text), text, by="ana"))
        second = await database.all(indices.put(load(text), text, by="bia"))
        (kept,) = await database.all(indices.page())

        assert (len(first), second) == (1, [])
        assert (kept.index, kept.source, kept.dated) == ("IPCA", SOURCE, date(2026, 10, 9))
        assert (kept.first_month, kept.last_month, kept.loaded_by) == ("2026-08", "2026-09", "ana")
        assert kept.sha256 == hashlib.sha256(text.encode()).hexdigest()
        assert kept.content == text


class TestPage:
    async def test_the_newest_comes_first_and_those_of_another_index_do_not_come(self, database: Database) -> None:
        texts = [table(["2026-09"], dated=each) for each in ("2026-10-09", "2026-11-10", "2026-10-20")]
        for text in (*texts, table(["2026-09"], index="IGP-M")):
            await database.all(indices.put(load(text), text, by="ana"))

        found = await database.all(indices.page(index="IPCA"))
        (one,) = await database.all(indices.page(sha256=load(texts[0]).sha256))

        assert [str(each.dated) for each in found] == ["2026-11-10", "2026-10-20", "2026-10-09"]
        assert one.content == texts[0]
        assert len(await database.all(indices.page())) == 4
        assert len(await database.all(indices.page(limit=1))) == 1


# — loading —


@pytest.fixture
async def app(settings: Settings, tmp_path: Path) -> AsyncIterator[Retoma]:
    given = {"RETOMA_HOME": str(tmp_path), "RETOMA_BROWSER": "none"}
    providers = providers_from(given)
    market = market_from(given, providers)
    async with Retoma(settings=settings, extensions=[QUOTES], providers={**providers, Market: market}) as app:
        yield app
    await market.aclose()


async def test_a_file_is_loaded_once_with_the_hash_of_its_bytes(app: Retoma) -> None:
    library = Quotes(app)
    content = b"\xef\xbb\xbf" + table(["2026-09"]).replace("\n", "\r\n").encode()

    first, new = await library.load_index(content, by="ana")
    again, second = await library.load_index(content, by="bia")

    assert (new, second, again) == (True, False, first)
    assert first.sha256 == hashlib.sha256(content).hexdigest()
    assert [each.id for each in await library.indices()] == [first.id]


@pytest.mark.parametrize(
    "content",
    [b"", b"\xff\xfe\x00", b"nothing\0", b"month,percent\n2026-09,0.31\n", table(["2026-07", "2026-09"]).encode()],
    ids=["empty", "no UTF-8", "no text", "no source", "a month is missing"],
)
async def test_a_file_that_is_no_table_is_refused_and_leaves_nothing(app: Retoma, content: bytes) -> None:
    with pytest.raises(ConfigurationError):
        await Quotes(app).load_index(content)

    assert await Quotes(app).indices() == []


# — correcting —


async def vehicle(app: Retoma, psql: psycopg.Connection, *, index: str | None = "IPCA") -> int:
    """A quote whose price is one of the price bank, looked up 100 days ago."""
    library = Quotes(app)
    project = await library.create_project("Correção", report={"index": index, "rules": {"least": 1}})
    await library.create(VEHICLE, project_id=project.id)
    await drain(app)
    psql.execute("update quotes.price_bank set updated_at = now() - interval '100 days'")
    id = await library.create(VEHICLE, project_id=project.id)
    await drain(app)
    (source,) = await library.sources(id)
    assert (source.kind, source.price_value) == ("BANK", (await library.bank())[0].price)
    return id


async def price(app: Retoma) -> Decimal:
    return (await Quotes(app).bank())[0].price


async def told(app: Retoma, id: int) -> Report:
    (report,) = (await Reports(app).document(quote_id=id)).reports
    return report


async def test_an_older_price_of_the_bank_is_corrected_by_the_newest_table_and_verified(
    app: Retoma, psql: psycopg.Connection
) -> None:
    library, reports = Quotes(app), Reports(app)
    await library.load_index(table(months_back(12), dated="2026-01-01", percent="9.00").encode())
    newest, _ = await library.load_index(table(months_back(12), dated="2026-10-10").encode())
    id = await vehicle(app, psql)
    await reports.close(quote_id=id, by="ana")
    later, _ = await library.load_index(table(months_back(12), dated="2026-11-10", percent="5.00").encode())
    report = await told(app, id)
    (line,) = report.lines
    files = [await reports.file(kind, quote_id=id) for kind in KINDS]

    assert line.correction is not None
    months = line.correction.months
    assert months in (2, 3)
    assert line.correction.factor == (Decimal("1.01") ** months).quantize(Decimal("0.00000001"))
    assert line.price == (await price(app) * line.correction.factor).quantize(Decimal("0.01"))
    assert report.result == line.price
    assert report.research.index is not None
    assert report.research.index.sha256 == newest.sha256 != later.sha256, "a closed report keeps its table"
    assert [await reports.verify(each) for each in files] == [[], [], []]


async def test_one_cent_in_a_corrected_price_and_one_month_of_another_table_are_found(
    app: Retoma, psql: psycopg.Connection
) -> None:
    library, reports = Quotes(app), Reports(app)
    await library.load_index(table(months_back(12)).encode())
    id = await vehicle(app, psql)
    await reports.close(quote_id=id, by="ana")
    whole = await reports.file("json", quote_id=id)
    cent, month = json.loads(whole), json.loads(whole)
    corrected = cent["reports"][0]["lines"][0]["correction"]
    corrected["corrected"] = str(Decimal(corrected["corrected"]) + Decimal("0.01"))
    month["reports"][0]["research"]["index"]["percents"][months_back(1)[0]] = "1.01"

    of_cent = {where for where, _ in await reports.verify(json.dumps(cent).encode())}
    of_month = {what for _, what in await reports.verify(json.dumps(month).encode())}

    assert "reports[1].lines[1].correction.corrected" in of_cent
    assert "its months are not those of the loaded file" in of_month


@pytest.mark.parametrize("loaded", [False, True], ids=["no table", "a table that ends too early"])
async def test_a_price_that_no_table_covers_stays_nominal_and_the_report_says_so_plainly(
    app: Retoma, psql: psycopg.Connection, loaded: bool
) -> None:
    library, reports = Quotes(app), Reports(app)
    if loaded:
        await library.load_index(table(months_back(12)[:-1]).encode())
    id = await vehicle(app, psql)
    await reports.close(quote_id=id, by="ana")
    report = await told(app, id)
    (line,) = report.lines

    assert (line.price, line.counts, line.correction) == (await price(app), True, None)
    assert line.uncorrected is not None
    said = " ".join((*report.alerts, *report.memory))
    assert "Sem correção monetária: fonte(s) 1, preço nominal." in said
    wanted = "A tabela do IPCA" if loaded else "Nenhuma tabela do IPCA foi carregada."
    assert wanted in said
    assert await reports.verify(await reports.file("pdf", quote_id=id)) == []


async def test_a_project_that_asks_for_no_index_corrects_nothing_and_says_nothing(
    app: Retoma, psql: psycopg.Connection
) -> None:
    await Quotes(app).load_index(table(months_back(12)).encode())
    report = await told(app, await vehicle(app, psql, index=None))

    assert (report.lines[0].correction, report.lines[0].uncorrected) == (None, None)
    assert not any("correção" in each for each in (*report.alerts, *report.memory))


async def test_an_index_by_name_and_a_table_of_its_own_at_once_are_refused(app: Retoma) -> None:
    with pytest.raises(ConfigurationError, match="index_table"):
        await Quotes(app).create_project("P", report={"index": "IPCA", "index_table": table(["2026-09"])})
    with pytest.raises(ConfigurationError, match="index"):
        await Quotes(app).create_project("P", report={"index": "INPC"})


async def from_bank(app: Retoma, psql: psycopg.Connection, *, by_quote: bool) -> int:
    """The quote of a vehicle whose price in the bank was corrected by the index: by the quote itself, or before it."""
    library = PriceBank(app)
    await library.load_index(table(months_back(12)).encode())
    plain = await library.create_project("Frota", bank_update="IPCA")
    first = await library.create(VEHICLE, project_id=plain.id)
    await drain(app)
    psql.execute("update quotes.price_bank set updated_at = now() - interval '7 months'")
    if not by_quote:
        await library.update(mode=UpdateMode.IPCA, by="ana")
        await drain(app)
    id = await library.create(VEHICLE, project_id=plain.id)
    await drain(app)
    (before,), (after,) = await library.sources(first), await library.sources(id)
    assert before.price_value is not None
    assert after.price_value is not None
    assert after.price_value > before.price_value
    return id


@pytest.mark.parametrize("by_quote", [True, False], ids=["by the quote", "before the quote"])
class TestCorrectedInTheBank:
    async def test_a_price_that_the_index_corrected_in_the_bank_is_derived_again(
        self, app: Retoma, psql: psycopg.Connection, *, by_quote: bool
    ) -> None:
        reports = Reports(app)
        id = await from_bank(app, psql, by_quote=by_quote)
        await reports.close(quote_id=id, by="ana")

        assert [await reports.verify(await reports.file(kind, quote_id=id)) for kind in KINDS] == [[], [], []]

    @pytest.mark.parametrize(
        ("change", "said"),
        [
            ("price_value = price_value + 0.01", "follows from"),
            ("""detail = (detail::jsonb || '{"preco_nominal": "1.00"}')::json""", "follows from"),
            ("""detail = (detail::jsonb || '{"fator": "1.00000001"}')::json""", "its calculation says fator"),
            ("""detail = (detail::jsonb || '{"indice_sha256": "0"}')::json""", "was loaded here"),
            ("""detail = (detail::jsonb || '{"desde": "yesterday"}')::json""", "cannot be read"),
        ],
    )
    async def test_one_cent_of_it_or_another_calculation_is_found_also_when_it_was_closed_so(
        self, app: Retoma, psql: psycopg.Connection, change: str, said: str, *, by_quote: bool
    ) -> None:
        reports = Reports(app)
        id = await from_bank(app, psql, by_quote=by_quote)
        psql.execute(f"update quotes.quote_sources set {change} where quote_id = {id}".encode())
        await reports.close(quote_id=id, by="ana")

        problems = await reports.verify(await reports.file("json", quote_id=id))

        assert {where for where, _ in problems} == {f"item {id}, source 1"}
        assert any(said in what for _, what in problems), problems

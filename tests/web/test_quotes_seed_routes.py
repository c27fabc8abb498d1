"""Every report of a batch in one ZIP, the template of lists, the PDF of one quote on demand, a picture taken again."""

from __future__ import annotations

import asyncio
import io
import sys
import zipfile
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import psycopg
import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, Product, a_market

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes import archives
from retoma.pipelines.quotes.library import Quotes
from retoma.pipelines.quotes.lists import NAMES, read_list
from retoma.pipelines.quotes.markets import market_from
from retoma.pipelines.quotes.ports import Market
from retoma.pipelines.quotes.pricing import screenshots, verify
from retoma.pipelines.quotes.reports import Reports
from retoma.providers import BlobStore
from retoma.providers.factory import providers_from
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain

from .conftest import House, Open, code

QUOTE, BATCH = "/api/quotes", "/api/batch-quotes"
HTML = {"Accept": "text/html", "Accept-Language": "pt-BR"}
OFFERS = [Product("a", "100"), Product("b", "104"), Product("c", "110")]
LIST = "codigo;descricao\n1;Mesa\n2;\n3;Cadeira\n4;Armário\n".encode()


@pytest.fixture
def given(tmp_path: Path) -> dict[type, Any]:
    return {Market: a_market(Bill(tmp_path / "bill.log"), OFFERS), BlobStore: FolderBlobs(tmp_path / "blobs")}


@pytest.fixture
def house(open_house: Open, given: dict[type, Any]) -> House:
    made = open_house(extensions=[QUOTES], providers=given)
    made.client.post(f"{BATCH}/file", files={"file": ("lista.csv", LIST)})
    return made


def work(house: House, given: dict[type, Any]) -> None:
    asyncio.run(drain(Retoma(settings=house.settings, extensions=[QUOTES], providers=given)))


def unpacked(content: bytes) -> dict[str, bytes]:
    with zipfile.ZipFile(io.BytesIO(content)) as file:
        assert file.testzip() is None
        return {name: file.read(name) for name in file.namelist()}


class TestZip:
    def test_it_has_every_row_and_the_report_of_each_quote_that_ended(
        self, house: House, given: dict[type, Any]
    ) -> None:
        early = house.client.get(f"{BATCH}/1/download/zip")
        button_early = 'id="zip"' in house.client.get("/cotacoes/listas/1", headers=HTML).text
        work(house, given)
        house.client.post(f"{QUOTE}/2/generate-pdf", json={"close": True})
        answer = house.client.get(f"{BATCH}/1/download/zip")
        found = unpacked(answer.content)

        assert code(early) == (409, "conflict")
        assert not button_early
        assert answer.headers["content-type"] == "application/zip"
        assert answer.headers["content-disposition"] == 'attachment; filename="lote-1.zip"'
        assert set(found) == {"lote-1.csv", "cotacao-1.pdf", "cotacao-2.pdf", "cotacao-3.pdf"}
        assert found["lote-1.csv"] == house.client.get(f"{BATCH}/1/download/csv").content
        assert "NÃO ACEITA" in found["lote-1.csv"].decode()
        assert found["cotacao-2.pdf"] == house.client.get(f"{QUOTE}/2/pdf").content
        assert [verify.read(found[f"cotacao-{id}.pdf"]).reports[0].research.number for id in (1, 2, 3)] == [
            "1",
            "2",
            "3",
        ]
        assert "minuta" in verify.read(found["cotacao-1.pdf"]).title
        assert 'href="/api/batch-quotes/1/download/zip"' in house.client.get("/cotacoes/listas/1", headers=HTML).text

    def test_of_a_closed_batch_it_has_the_closed_files_and_what_they_say_of_each_item(
        self, house: House, given: dict[type, Any], psql: psycopg.Connection
    ) -> None:
        work(house, given)
        house.client.post(f"{BATCH}/1/generate-results", json={"close": True})
        work(house, given)
        psql.execute("update quotes.quote_sources set title = 'Outra coisa'")  # a draft of today would say so
        found = unpacked(house.client.get(f"{BATCH}/1/download/zip").content)
        whole = verify.read(found["lote-1.pdf"])
        items = [verify.read(found[f"cotacao-{id}.pdf"]) for id in (1, 2, 3)]

        assert found["lote-1.pdf"] == house.client.get(f"{BATCH}/1/download/pdf").content
        assert found["lote-1.xlsx"] == house.client.get(f"{BATCH}/1/download/excel").content
        assert tuple(each.reports[0] for each in items) == whole.reports
        assert {each.title for each in items} == {
            f"Pesquisa de preços {id} (do relatório fechado do lote 1)" for id in (1, 2, 3)
        }

    def test_it_is_written_while_it_is_sent(
        self, house: House, given: dict[type, Any], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        work(house, given)
        monkeypatch.setattr(archives, "_PAGE", 1)
        made: list[int] = []
        plain = Reports.file

        async def counted(self: Reports, kind: Any, **what: Any) -> bytes:
            made.append(what["quote_id"])
            return await plain(self, kind, **what)

        monkeypatch.setattr(Reports, "file", counted)

        async def taken() -> list[int]:
            async with Retoma(settings=house.settings, extensions=[QUOTES], providers=given) as app:
                pieces = await archives.archive(Reports(app), 1)
                return [len(made) async for piece in pieces if b"cotacao-" in piece]

        # The last piece is the table of contents.
        assert asyncio.run(taken()) == [1, 2, 3, 3]

    def test_whoever_may_not_see_content_gets_none(self, house: House, given: dict[type, Any]) -> None:
        work(house, given)

        assert code(house.client.get(f"{BATCH}/1/download/zip", headers=house.key("read")))[0] == 403
        assert 'id="zip"' not in house.client.get("/cotacoes/listas/1", headers=HTML | house.key("read")).text


class TestTemplate:
    @pytest.mark.parametrize(
        ("how", "name", "header"),
        [
            ({}, "modelo-de-lista.csv", "Código;Descrição;"),
            ({"params": {"lang": "pt"}}, "modelo-de-lista.csv", "Código;Descrição;"),
            ({"params": {"lang": "en"}}, "list-template.csv", "Code;Description;"),
            ({"headers": {"Accept-Language": "en-GB"}}, "list-template.csv", "Code;Description;"),
        ],
    )
    def test_every_column_of_it_is_recognised_by_an_upload(
        self, house: House, how: dict[str, Any], name: str, header: str
    ) -> None:
        answer = house.client.get(f"{BATCH}/template", **how)
        text = answer.content.decode("utf-8-sig")
        row = "77;Mesa;Sala 2;un;3;REGULAR;4;6;1.200,50\n"
        read = read_list(answer.content + row.encode(), filename=name)

        assert answer.headers["content-disposition"] == f'attachment; filename="{name}"'
        assert text.startswith(header)
        assert read.columns.keys() == NAMES.keys()
        assert (len(read.items), read.problems) == (1, [])
        assert read.items[0].condition is not None

    def test_sent_back_empty_it_is_refused_with_a_word_and_nothing_begins(self, house: House) -> None:
        empty = house.client.get(f"{BATCH}/template").content
        answer = house.client.post(f"{BATCH}/file", files={"file": ("modelo.csv", empty)})

        assert answer.status_code == 422
        assert house.client.get(BATCH).json()["batches"][0]["id"] == 1

    def test_the_page_offers_it_in_its_language(self, house: House) -> None:
        pt = house.client.get("/cotacoes/", headers=HTML).text
        en = house.client.get("/cotacoes/", headers=HTML | {"Accept-Language": "en"}).text

        assert "/api/batch-quotes/template?lang=pt" in pt
        assert "/api/batch-quotes/template?lang=en" in en
        assert code(house.client.get(f"{BATCH}/template", params={"lang": "xx"})) == (422, "validation_failed")


class TestGeneratePdf:
    def test_a_draft_is_written_when_the_quote_has_ended_and_closed_when_that_is_wanted(
        self, house: House, given: dict[type, Any]
    ) -> None:
        early = house.client.post(f"{QUOTE}/1/generate-pdf")
        work(house, given)
        draft = house.client.post(f"{QUOTE}/1/generate-pdf").json()
        closed = house.client.post(f"{QUOTE}/1/generate-pdf", json={"close": True}).json()
        later = house.client.post(f"{QUOTE}/1/generate-pdf").json()
        again = house.client.post(f"{QUOTE}/1/generate-pdf", json={"close": True})

        assert code(early) == (409, "conflict")
        assert draft == {"quote_id": 1, "closed": False, "sha256": None, "pdf_url": f"{QUOTE}/1/pdf"}
        assert (closed["closed"], len(closed["sha256"])) == (True, 64)
        assert later == closed
        assert code(again) == (409, "conflict")
        assert "minuta" not in verify.read(house.client.get(closed["pdf_url"]).content).title
        assert code(house.client.post(f"{QUOTE}/99/generate-pdf"))[0] == 404


class TestRetryScreenshot:
    def test_it_is_refused_where_there_is_nothing_to_take_it_of_or_the_report_is_closed(
        self, house: House, given: dict[type, Any], psql: psycopg.Connection
    ) -> None:
        work(house, given)
        taken, official, closed = (
            f"{QUOTE}/{quote}/screenshots/{source}/retry" for quote, source in psql.execute(
                "select quote_id, min(id) from quotes.quote_sources group by quote_id order by quote_id"
            )
        )  # fmt: skip
        psql.execute("update quotes.quote_sources set screenshot_file_id = 'x' where quote_id = 1")
        psql.execute("update quotes.quote_sources set evidence_kind = 'application/json' where quote_id = 2")
        house.client.post(f"{QUOTE}/3/generate-pdf", json={"close": True})

        for place, why in ((taken, "picture already"), (official, "no page"), (closed, "closed")):
            answer = house.client.post(place)
            assert code(answer) == (409, "conflict"), place
            assert why in answer.text
        assert code(house.client.post(f"{QUOTE}/1/screenshots/99999/retry"))[0] == 404
        assert code(house.client.post(f"{QUOTE}/99999/screenshots/1/retry"))[0] == 404
        assert psql.execute("select count(*) from retoma.jobs where pipeline like 'retake%'").fetchone() == (0,)

    def test_a_worker_without_a_camera_says_so_and_changes_nothing(
        self, house: House, given: dict[type, Any], psql: psycopg.Connection
    ) -> None:
        work(house, given)
        [[source]] = psql.execute("select min(id) from quotes.quote_sources where quote_id = 1").fetchall()
        job = house.client.post(f"{QUOTE}/1/screenshots/{source}/retry").json()["job_id"]
        work(house, given)

        found = house.get(f"/jobs/{job}").json()
        assert (found["state"], "no_pictures" in found["error"]) == ("failed", True)


@pytest.mark.skipif(screenshots.find_browser() is None, reason="there is no Chromium on this machine")
@pytest.mark.parametrize("by_page", [True, False])
def test_the_picture_of_a_kept_page_is_taken_later_and_the_report_is_verified(
    open_house: Open, tmp_path: Path, psql: psycopg.Connection, *, by_page: bool
) -> None:
    providers = providers_from({"RETOMA_HOME": str(tmp_path)})

    def worked(what: Callable[[Retoma], Awaitable[Any]], **environment: str) -> Any:
        """What a worker with these settings has done; its market is closed where it was opened."""

        async def within() -> Any:
            market = market_from({"RETOMA_HOME": str(tmp_path), **environment}, providers)
            given = {**providers, Market: market}
            try:
                async with Retoma(settings=house.settings, extensions=[QUOTES], providers=given) as app:
                    return await what(app)
            finally:
                await market.aclose()

        return asyncio.run(within())

    async def quoted(app: Retoma) -> None:
        project = await Quotes(app).create_project("P", quotes_wanted=20)  # so that shops are asked, too
        id = await Quotes(app).create("Mesa de escritório 120 cm com gavetas", project_id=project.id)
        await drain(app)
        await Quotes(app).accept(id, reason="Bastam.", by="ana")

    async def closed(app: Retoma) -> list[tuple[str, str]]:
        await Reports(app).close(quote_id=1, by="ana")
        return await Reports(app).verify(await Reports(app).file("pdf", quote_id=1))

    house = open_house(extensions=[QUOTES], providers=providers)
    worked(quoted, RETOMA_BROWSER="none")
    shop = "select min(id) from quotes.quote_sources where evidence_kind = 'text/html'"
    [[source]] = psql.execute(shop).fetchall()
    place = f"{QUOTE}/1/screenshots/{source}"
    before = house.client.get(place)

    if by_page:
        asked = house.client.post(f"/cotacoes/itens/1/fontes/{source}/captura", headers=HTML, follow_redirects=True)
        assert "A captura foi pedida" in asked.text
    else:
        assert house.client.post(f"{place}/retry").status_code == 202
    worked(drain)

    shown = house.client.get("/cotacoes/itens/1", headers=HTML).text
    assert before.status_code == 404
    assert house.client.get(place).content.startswith(b"\x89PNG")
    assert f"/fontes/{source}/captura" in shown
    assert f'data-retake="{source}"' not in shown
    assert code(house.client.post(f"{place}/retry")) == (409, "conflict")

    assert worked(closed) == []

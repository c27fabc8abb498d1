"""A list of items from the file to a decision, as a person does it; and every screen of quotes for everybody."""

from __future__ import annotations

import sys
import zipfile
from pathlib import Path
from typing import Any

import psycopg
import pytest
from playwright.sync_api import Page, expect

from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.ports import Market, Refusal
from retoma.providers import BlobStore
from retoma.providers.folder import FolderBlobs

from ..web.conftest import House, Open  # noqa: TID252 - the house is that of the API's own tests
from .conftest import Visit, working
from .test_accessibility import PHONE, Check, axe, check

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))
from market import Bill, Product, a_market  # isort: skip - the market is that of the pipeline's own tests
from pictures import drawn  # isort: skip

__all__ = ["axe", "check"]

LIST = "Tombo;Bem;Qtd\n101;Mesa de escritório;2\n102;;1\n103;Cadeira;muitas\n104;Armário de aço;1\n".encode()
FEW = [Product("a", "100"), Product("b", "101"), Product("c", "102", refused=Refusal.SOLD_OUT), Product("d", "990")]


@pytest.fixture
def given(tmp_path: Path) -> dict[type, Any]:
    return {Market: a_market(Bill(tmp_path / "bill.log"), FEW), BlobStore: FolderBlobs(tmp_path / "blobs")}


@pytest.fixture
def house(open_house: Open, given: dict[type, Any]) -> House:
    return open_house(extensions=[QUOTES], providers=given)


def preview(page: Page, house: House, content: bytes = LIST) -> None:
    page.goto(f"{house.url}/cotacoes/")
    page.set_input_files("#file", {"name": "bens.csv", "mimeType": "text/csv", "buffer": content})
    page.get_by_role("button", name="Ver prévia").click()


def started(page: Page, house: House) -> str:
    """The address of a batch that was begun."""
    preview(page, house)
    page.get_by_role("button", name="Cotar 2 itens").click()
    expect(page.locator("#standing")).to_be_visible()
    return page.url


@pytest.mark.parametrize("scripted", [True, False])
def test_a_list_is_looked_at_begun_followed_and_its_quote_accepted(
    house: House, given: dict[type, Any], visit: Visit, *, scripted: bool
) -> None:
    page = visit(f"{house.url}/cotacoes/", java_script_enabled=scripted)
    preview(page, house)
    expect(page.get_by_label("Descrição")).to_have_value("Bem")
    expect(page.locator("#problems")).to_contain_text("Linha 3: falta a descrição")
    expect(page.locator("#problems")).to_contain_text("Linha 4: a quantidade não é um número")
    page.get_by_label("Quantidade").select_option("(nenhuma)")
    page.get_by_role("button", name="Atualizar prévia").click()
    expect(page.locator("#taken")).to_have_text("3 itens serão cotados")
    page.get_by_label("Nome do lote").fill("Reavaliação da sede")
    page.get_by_role("button", name="Cotar 3 itens").click()

    expect(page.get_by_role("heading", level=1)).to_have_text("Reavaliação da sede")
    expect(page.locator("#standing")).to_have_attribute("data-state", "PENDING")
    with working(house.settings, given, [QUOTES]):
        # With a script it comes by itself; without one the browser asks again.
        expect(page.locator("#standing")).to_have_attribute("data-state", "COMPLETED")
    page.reload()
    expect(page.locator("[data-rung=ended] .funnel-count")).to_have_text("3")
    expect(page.locator("[data-provider=shopping]")).to_be_visible()
    expect(page.locator("[data-no-rate]")).to_be_visible()

    page.locator("#quotes").get_by_role("link", name="Mesa de escritório").click()
    expect(page.locator("#life")).to_have_attribute("data-state", "AWAITING_REVIEW")
    expect(page.locator("#mean")).to_have_text("R$ 100,50")
    expect(page.locator("#counting .source")).to_have_count(2)
    expect(page.locator("#struck .source s").first).to_be_visible()
    expect(page.locator("#struck")).to_contain_text("Produto esgotado")
    expect(page.get_by_role("link", name="Relatório em PDF")).to_have_attribute("href", "/api/quotes/1/pdf")
    page.locator("#accept").click()
    expect(page.locator("#review")).to_be_visible()  # the browser asks for the reason
    page.locator("#review").get_by_label("Motivo").fill("Dois preços bastam para um bem de baixo valor.")
    page.locator("#accept").click()

    expect(page.locator("#said")).to_contain_text("Cotação aceita")
    expect(page.locator("#life")).to_have_attribute("data-state", "DONE")
    expect(page.locator("#reviews")).to_contain_text("Dois preços bastam para um bem de baixo valor.")


def test_a_stuck_quote_is_recovered_by_its_button(house: House, visit: Visit, psql: psycopg.Connection) -> None:
    page = visit(f"{house.url}/cotacoes/")
    started(page, house)
    psql.execute(
        "update quotes.quote_requests set status = 'PROCESSING', worker_id = 'ana#1', started_at = now(),"
        " last_heartbeat = now() - interval '11 minutes', processing_checkpoint = 'SHOPPING_SEARCH_DONE'"
        " where codigo_item = '101'"
    )
    page.reload()
    expect(page.locator("#stuck")).to_contain_text("Ofertas encontradas")

    page.get_by_role("button", name="Recuperar Mesa de escritório").click()

    expect(page.locator("#said")).to_contain_text("A cotação voltou à fila")
    expect(page.locator("#stuck")).to_have_count(0)


def test_the_screens_of_quotes_are_for_everybody(
    house: House, given: dict[type, Any], visit: Visit, check: Check, psql: psycopg.Connection
) -> None:
    page = visit(f"{house.url}/cotacoes/")
    for path in ("/", "/itens", "/listas"):
        page.goto(f"{house.url}/cotacoes{path}")
        check(page, f"{path} before there is anything")
    preview(page, house, b"X1;X2\nmesa;3\n")
    check(page, "a list whose columns nobody knows")
    preview(page, house, b"  ")
    check(page, "a list that was refused")
    preview(page, house)
    check(page, "the preview of a list")
    batch = started(page, house)
    check(page, "a batch that waits")
    with working(house.settings, given, [QUOTES]):
        expect(page.locator("#standing")).to_have_attribute("data-state", "COMPLETED")
    page.goto(f"{house.url}/cotacoes/")
    page.get_by_label("Descrição do item").fill("Monitor")
    page.get_by_role("button", name="Cotar", exact=True).click()
    expect(page.locator("#life")).to_have_attribute("data-state", "PENDING")
    check(page, "a quote that waits")
    psql.execute(
        "update quotes.quote_requests set status = 'PROCESSING', worker_id = 'ana#1', started_at = now(),"
        " last_heartbeat = now() - interval '11 minutes' where input_text = 'Monitor'"
    )
    places = ["/", "/itens", "/itens?busca=nada", "/listas", batch.partition("/cotacoes")[2], "/itens/1", "/itens/3"]
    for place in places:
        page.goto(f"{house.url}/cotacoes{place}")
        check(page, place)
    page.goto(f"{house.url}/cotacoes/itens/1")
    for fold in page.locator("details.fold summary").all():
        fold.click()
    check(page, "a quote with everything unfolded")
    page.set_viewport_size(PHONE)
    for place in places:
        page.goto(f"{house.url}/cotacoes{place}{'&' if '?' in place else '?'}lang=en")
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], place
        check(page, f"{place} on a phone, in English")


def test_the_bank_photographs_and_reports_are_walked_in_both_languages_and_on_a_phone(
    house: House, given: dict[type, Any], visit: Visit, check: Check, psql: psycopg.Connection
) -> None:
    page = visit(f"{house.url}/cotacoes/banco")
    check(page, "a bank without vehicles")
    batch = started(page, house)
    ask_with_photographs(page, house)
    for _ in range(2):
        page.goto(f"{house.url}/cotacoes/")
        page.get_by_label("Descrição do item").fill("Fiat Uno Mille 2012")
        page.get_by_role("button", name="Cotar", exact=True).click()
        with working(house.settings, given, [QUOTES]):
            expect(page.locator("#life[data-state=DONE], #life[data-state=AWAITING_REVIEW]")).to_be_visible()
        # The next quote finds another price than the bank has, and a person decides.
        psql.execute("update quotes.price_bank set price = 1000, updated_at = now() - interval '7 months'")
    vehicle = page.url
    page.goto(batch)
    page.locator("#make-report").click()
    expect(page.locator("#said")).to_contain_text("O relatório foi pedido")
    check(page, "a report that waits")
    with working(house.settings, given, [QUOTES]):
        expect(page.locator("[data-report=READY]")).to_be_visible()
    places = [
        "/", "/banco", "/banco/1", vehicle.partition("/cotacoes")[2], "/itens/3", batch.partition("/cotacoes")[2]
    ]  # fmt: skip

    for size in ({"width": 1280, "height": 900}, PHONE):
        page.set_viewport_size(size)
        for place in places:
            for language in ("pt", "en"):
                page.goto(f"{house.url}/cotacoes{place.partition('?')[0]}?lang={language}")
                page.evaluate("for (const fold of document.querySelectorAll('details.fold')) fold.open = true")
                assert page.evaluate("document.documentElement.scrollWidth") <= size["width"], (place, size)
                check(page, f"{place} in {language}, {size['width']} wide")


def ask_with_photographs(page: Page, house: House) -> None:
    """An item with a description and two photographs."""
    page.goto(f"{house.url}/cotacoes/")
    page.get_by_label("Descrição do item").fill("Mesa de reunião")
    images = [{"name": f"{n}.png", "mimeType": "image/png", "buffer": drawn("PNG", (40 + n, 30))} for n in (1, 2)]
    page.set_input_files("#image", images)
    page.get_by_role("button", name="Cotar", exact=True).click()
    expect(page.locator("#image")).to_be_visible()


def test_every_report_of_a_batch_and_a_list_to_fill_in_are_downloaded(
    house: House, given: dict[type, Any], visit: Visit
) -> None:
    page = visit(f"{house.url}/cotacoes/?lang=en")
    with page.expect_download() as template:
        page.get_by_role("link", name="Download a CSV template").click()
    batch = started(visit(f"{house.url}/cotacoes/"), house)
    page.goto(batch)
    expect(page.locator("#zip")).to_have_count(0)  # nothing has ended
    with working(house.settings, given, [QUOTES]):
        expect(page.locator("#zip")).to_be_visible()
    with page.expect_download() as archive:
        page.locator("#zip").click()

    assert template.value.suggested_filename == "list-template.csv"
    with zipfile.ZipFile(archive.value.path()) as file:
        assert {"lote-1.csv", "cotacao-1.pdf"} <= set(file.namelist())

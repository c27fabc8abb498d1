"""Pages under a prefix: whatever a person does there, nothing is asked for outside it."""

import os
from pathlib import Path

import pytest
from playwright.sync_api import expect

from retoma import Settings

from ..web.archive import LEASE  # noqa: TID252 - the house is that of the API's own tests
from ..web.prefixed import EXTENSIONS, KEY, PREFIX, prefixed  # noqa: TID252
from .conftest import Visit, working

WAYS = [("mounted", PREFIX), ("forwarded", PREFIX)]
if os.environ.get("EXPLORE"):  # a name of ours in it, and none: the others' tests are on pages without one
    WAYS += [("mounted", "/retoma"), ("root", "")]


@pytest.mark.parametrize(("way", "prefix"), WAYS)
def test_a_person_who_does_everything_is_never_led_out_of_the_prefix(
    settings: Settings, tmp_path: Path, visit: Visit, way: str, prefix: str
) -> None:
    (tmp_path / "contrato.txt").write_text(LEASE)
    with (
        prefixed(way, settings, tmp_path / "blobs", prefix=prefix) as house,
        working(house.settings, house.given, EXTENSIONS),
    ):
        page = visit(f"{house.url}/")
        page.get_by_label("Chave de API").fill(KEY)
        page.get_by_role("button", name="Entrar").click()
        page.wait_for_url(f"{house.url}/console/")
        page.get_by_role("navigation", name="Páginas").get_by_role("link", name="Documentos").click()
        page.wait_for_url(f"{house.url}/documents")
        page.set_input_files("#files", tmp_path / "contrato.txt")
        row = page.locator("tr[data-document]", has_text="contrato.txt")
        expect(row.locator(".badge")).to_have_text("Concluído")
        row.locator("[data-expand]").click()
        expect(page.locator(".unsure", has_text="Locador")).to_contain_text("Maria da Silva")
        with page.expect_download():
            page.get_by_role("link", name="Baixar").click()
        page.get_by_role("button", name="Reprocessar").click()
        expect(row.locator(".badge")).to_have_text("Concluído")
        page.get_by_label("Buscar pelo sentido").fill("aviso de rescisão")
        page.get_by_label("Buscar pelo sentido").press("Enter")
        page.locator("#found li a").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("contrato.txt")

        page.get_by_role("button", name="Alternar entre claro e escuro").click()
        page.get_by_role("link", name="English").click()
        expect(page.locator("html")).to_have_attribute("data-theme", "light")
        page.get_by_role("link", name="Português").click()

        page.get_by_role("navigation").get_by_role("link", name="Classificação").click()
        page.set_input_files("#files", tmp_path / "contrato.txt")
        page.click("#start")
        page.wait_for_url(f"{house.url}/classificador/execucoes/*")
        expect(page.locator("#state-words")).to_have_text("Concluída sem erros")
        page.locator("#results tbody a").first.click()
        expect(page.get_by_role("heading", level=1)).to_have_text("contrato.txt")
        with page.expect_download():
            page.go_back()
            page.locator("#export-csv").click()

        assert {(each["name"], each["path"]) for each in page.context.cookies()} == {
            (name, prefix or "/") for name in ("retoma_session", "retoma_lang", "retoma_theme")
        }
        page.get_by_role("button", name="Sair").click()
        expect(page.get_by_role("heading", level=1)).to_have_text("Entrar")
        assert page.url == f"{house.url}/login"
        page.context.close()

    # A browser asks for this one wherever it is, and not because a page said so.
    assert [each for each in house.strays if each != "GET /favicon.ico"] == []

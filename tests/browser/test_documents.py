"""The grid of documents: files are dropped, their badges change by themselves, and nothing is asked in vain."""

import base64
import re
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, expect

from ..web.archive import LEASE, apart, sent, work  # noqa: TID252 - the house is that of the API's own tests
from ..web.conftest import House  # noqa: TID252
from .conftest import Visit, choose_before, working

import bad_files  # isort: skip - on the path since archive was imported

BROKEN = b"%PDF-1.7\n" + b"this is no pdf " * 40 + b"\n%%EOF\n"  # with an end, so that it is taken


def drop(page: Page, **files: bytes) -> None:
    """Let files fall onto the page, as from a folder."""
    page.evaluate(
        """files => {
            const carried = new DataTransfer();
            for (const [name, text] of files) {
                const bytes = Uint8Array.from(atob(text), each => each.charCodeAt(0));
                carried.items.add(new File([bytes], name));
            }
            const target = document.getElementById("drop");
            for (const kind of ["dragenter", "dragover", "drop"])
                target.dispatchEvent(new DragEvent(kind, {bubbles: true, cancelable: true, dataTransfer: carried}));
        }""",
        [[name.replace("__", "."), base64.b64encode(content).decode()] for name, content in files.items()],
    )


def row(page: Page, name: str) -> Any:
    return page.locator("tr[data-document]", has_text=name)


def asked(page: Page) -> list[str]:
    """The questions after the status of rows, from now on."""
    found: list[str] = []
    page.on("request", lambda request: found.append(request.url) if "/documents/status" in request.url else None)
    return found


def test_dropped_files_change_from_sent_to_done_or_failed_by_themselves(
    house: House, given: dict[type, object], visit: Visit
) -> None:
    page = visit(f"{house.url}/documents")
    expect(page.get_by_text("Ainda não há documentos")).to_be_visible()

    drop(page, contrato__txt=LEASE.encode(), quebrado__pdf=BROKEN, vazio__txt=b"")
    expect(row(page, "contrato.txt").locator(".badge")).to_have_text("Enviado")
    expect(row(page, "quebrado.pdf").locator(".badge")).to_have_text("Enviado")
    refused = page.locator(".upload", has_text="vazio.txt")
    expect(refused).to_contain_text("Não há nada dentro dele")
    expect(refused.get_by_role("button", name="Tentar de novo")).to_be_visible()
    with working(house.settings, given):
        expect(row(page, "contrato.txt").locator(".badge")).to_have_text("Concluído")
        expect(row(page, "quebrado.pdf").locator(".badge")).to_have_text("Falhou")

    expect(row(page, "quebrado.pdf")).to_contain_text("O arquivo está danificado")
    expect(row(page, "quebrado.pdf").get_by_role("button", name="Reprocessar")).to_be_visible()
    expect(page.locator("#announcer")).to_have_text(re.compile(r"(contrato\.txt: Concluído|quebrado\.pdf: Falhou)"))
    expect(page.locator(".upload")).to_have_count(1)
    refused.get_by_role("button", name="Tentar de novo").click()
    expect(refused).to_contain_text("Não há nada dentro dele")


COUNT_WAITS = """
window.waits = [];
const plain = window.setTimeout;
window.setTimeout = (call, delay, ...rest) => {
    if ([3000, 5000, 10000].includes(delay)) window.waits.push(delay);
    return plain(call, delay, ...rest);
};
"""


def until(page: Page, count: int) -> None:
    """Wait until the page has begun to wait *count* times."""
    while page.evaluate("waits.length") < count:
        page.wait_for_load_state()  # lets the page have its turn


def test_files_that_were_chosen_before_the_script_had_come_are_sent(house: House, visit: Visit, tmp_path: Path) -> None:
    file = tmp_path / "contrato.txt"
    file.write_text(LEASE)
    page = visit("about:blank")

    choose_before(page, "documents.js", f"{house.url}/documents", [file])

    expect(page.locator("tr[data-document]", has_text="contrato.txt")).to_have_count(1)


def test_only_rows_in_progress_are_asked_about_and_more_rarely_when_nothing_moves(
    house: House, given: dict[type, object], visit: Visit
) -> None:
    done = sent(house)
    work(house, given)
    moving = sent(house, "outro.txt", "outro texto")
    page = visit("about:blank")
    page.clock.install(time=0)
    page.add_init_script(COUNT_WAITS)
    page.clock.pause_at(60_000)  # from here on time passes when the test says so
    questions = asked(page)
    page.goto(f"{house.url}/documents")

    waits = [3000, 5000, 10_000, 10_000]
    for count, wait in enumerate(waits, start=1):
        until(page, count)
        assert len(questions) == count - 1
        page.clock.run_for(wait)
    until(page, 5)
    assert page.evaluate("waits") == [*waits, 10_000]
    assert {urlsplit(each).query for each in questions} == {f"ids={moving}"}
    assert done not in str(questions)
    work(house, given)
    page.clock.run_for(10_000)
    expect(row(page, "outro.txt").locator(".badge")).to_have_text("Concluído")
    page.clock.run_for(120_000)

    assert len(questions) == 5, "nothing is in progress, so nothing is asked"
    assert page.evaluate("waits.length") == 5


def test_a_failed_document_is_processed_again_at_the_press_of_a_button(
    house: House, given: dict[type, object], visit: Visit
) -> None:
    sent(house, "quebrado.pdf", BROKEN)
    work(house, given)
    page = visit(f"{house.url}/documents")

    row(page, "quebrado.pdf").get_by_role("button", name="Reprocessar").click()

    expect(row(page, "quebrado.pdf").locator(".badge")).to_have_text("Enviado")
    with working(house.settings, given):
        expect(row(page, "quebrado.pdf").locator(".badge")).to_have_text("Falhou")


def test_a_document_that_is_done_again_between_two_looks_is_shown_as_done(
    house: House, given: dict[type, object], visit: Visit
) -> None:
    sent(house)
    page = visit(f"{house.url}/documents")
    badge = row(page, "contrato.txt").locator(".badge")
    expect(badge).to_have_text("Enviado")
    work(house, given)
    expect(badge).to_have_text("Concluído")
    row(page, "contrato.txt").locator("[data-expand]").click()

    page.get_by_role("button", name="Reprocessar").click()
    expect(badge).to_have_text("Enviado")
    work(house, given)

    expect(badge).to_have_text("Concluído")


def test_a_row_unfolds_to_preview_fields_and_what_may_be_done(
    house: House, given: dict[type, object], visit: Visit
) -> None:
    sent(house)
    sent(house, "relatório.pdf", bad_files.whole_pdf())
    work(house, given)
    page = visit(f"{house.url}/documents")

    row(page, "contrato.txt").locator("[data-expand]").click()
    unsure = page.locator(".unsure", has_text="Locador")
    expect(unsure).to_contain_text("Maria da Silva")
    expect(unsure.locator(".badge.tone-warn")).to_have_text("60% de certeza")
    row(page, "relatório.pdf").locator("[data-expand]").click()
    frame = page.locator("iframe.preview")
    expect(frame).to_have_attribute("title", "Prévia de relatório.pdf")
    shown = page.request.get(house.url + str(frame.get_attribute("src")))
    assert (shown.headers["content-type"], shown.body()[:5]) == ("application/pdf", b"%PDF-")
    expect(row(page, "contrato.txt").locator("[data-expand]")).to_have_attribute("aria-expanded", "true")
    with page.expect_download() as download:
        page.locator(".more", has_text="Maria").get_by_role("link", name="Baixar").click()
    assert download.value.suggested_filename == "contrato.txt"


def test_a_document_is_removed_after_a_question(house: House, visit: Visit) -> None:
    sent(house)
    page = visit(f"{house.url}/documents")
    row(page, "contrato.txt").locator("[data-expand]").click()

    page.get_by_role("button", name="Remover").click()
    page.get_by_role("button", name="Não, voltar").click()
    expect(row(page, "contrato.txt")).to_be_visible()
    page.get_by_role("button", name="Remover").click()
    expect(page.locator("#ask-text")).to_contain_text("Remover “contrato.txt” de vez?")
    page.get_by_role("button", name="Sim, continuar").click()

    expect(page.get_by_text("Ainda não há documentos")).to_be_visible()
    assert house.client.get("/documents").json()["documents"] == []


def test_search_by_name_and_by_meaning(house: House, given: dict[type, object], visit: Visit) -> None:
    sent(house)
    sent(house, "bolo.txt", "Bolo de cenoura\n\nBata três cenouras com quatro ovos e leve ao forno.")
    work(house, given)
    page = visit(f"{house.url}/documents")

    page.get_by_label("Buscar pelo nome").fill("bolo")
    expect(row(page, "contrato.txt")).to_have_count(0)
    expect(row(page, "bolo.txt")).to_be_visible()
    assert "search=bolo" in page.url
    page.get_by_label("Buscar pelo sentido").fill("aviso de rescisão")
    page.get_by_label("Buscar pelo sentido").press("Enter")
    first = page.locator("#found li").first
    expect(first).to_contain_text("contrato.txt")
    expect(first).to_contain_text("página 1")
    expect(first).to_contain_text("aviso de trinta dias")


def test_the_page_speaks_both_languages_and_remembers_which(house: House, visit: Visit) -> None:
    sent(house)
    page = visit(f"{house.url}/documents?search=contrato")

    expect(page.locator("html")).to_have_attribute("lang", "pt-BR")
    page.get_by_role("link", name="English").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Documents")
    expect(row(page, "contrato.txt").locator(".badge")).to_have_text("Sent")
    assert "search=contrato" in page.url
    page.goto(f"{house.url}/documents")
    expect(page.get_by_role("heading", level=1)).to_have_text("Documents")
    page.get_by_role("link", name="Português").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Documentos")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_a_phone_shows_everything_without_scrolling_sideways(
    house: House, given: dict[type, object], visit: Visit, scheme: Any
) -> None:
    sent(house, "um nome de arquivo bastante comprido que não cabe em uma linha só de um telefone.txt", LEASE)
    sent(house, "quebrado.pdf", BROKEN)
    work(house, given)
    page = visit(f"{house.url}/documents", viewport={"width": 360, "height": 740}, color_scheme=scheme, has_touch=True)

    row(page, "comprido").locator("[data-expand]").tap()
    expect(page.locator(".fields")).to_be_visible()

    assert page.evaluate("document.documentElement.scrollWidth") <= 360
    small = page.evaluate(
        """() => [...document.querySelectorAll("main button, main a, main select, header a, header button")]
            .filter(each => each.offsetParent && each.getBoundingClientRect().height < 44)
            .map(each => each.outerHTML.slice(0, 80))"""
    )
    assert small == []


def test_without_javascript_files_are_sent_and_read_all_the_same(
    house: House, given: dict[type, object], visit: Visit
) -> None:
    page = visit(f"{house.url}/documents", java_script_enabled=False)

    page.set_input_files(
        "#files",
        [
            {"name": "contrato.txt", "mimeType": "text/plain", "buffer": LEASE.encode()},
            {"name": "vazio.txt", "mimeType": "text/plain", "buffer": b""},
        ],
    )
    page.get_by_role("button", name="Enviar").click()
    expect(page.get_by_text("Recebido. O processamento começa sozinho.")).to_be_visible()
    expect(page.get_by_text("Não há nada dentro dele")).to_be_visible()
    work(house, given)
    page.get_by_role("link", name="Ir para os documentos").click()
    expect(row(page, "contrato.txt").locator(".badge")).to_have_text("Concluído")
    page.get_by_label("Buscar pelo nome").fill("contr")
    page.get_by_role("button", name="Filtrar").click()
    page.get_by_role("link", name="contrato.txt").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("contrato.txt")
    expect(page.get_by_text("Maria da Silva").first).to_be_visible()
    page.get_by_role("button", name="Reprocessar").click()
    expect(page.locator(".badge").first).to_have_text("Enviado")


def test_whoever_has_a_key_signs_in_and_sees_what_it_allows(house: House, visit: Visit) -> None:
    sent(house)
    key = apart(lambda: house.key("read"))["Authorization"].removeprefix("Bearer ")
    page = visit(f"{house.url}/documents?search=contrato")

    expect(page.get_by_role("heading", level=1)).to_have_text("Entrar")
    page.get_by_label("Chave de API").fill("rtm_wrong")
    page.get_by_role("button", name="Entrar").click()
    expect(page.get_by_role("alert")).to_contain_text("Esta chave não abre nada aqui")
    page.get_by_label("Chave de API").fill(key)
    page.get_by_role("button", name="Entrar").click()

    expect(row(page, "contrato.txt")).to_be_visible()
    assert page.url.endswith("/documents?search=contrato")
    expect(page.locator("#drop")).to_have_count(0)
    (cookie,) = [each for each in page.context.cookies() if each["name"] == "retoma_session"]
    assert (cookie["httpOnly"], cookie["sameSite"]) == (True, "Strict")
    page.get_by_role("button", name="Sair").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Entrar")
    assert page.goto(f"{house.url}/documents").url.endswith("/login?next=%2Fdocuments")  # type: ignore[union-attr]


def test_the_theme_is_changed_and_stays(house: House, visit: Visit) -> None:
    page = visit(f"{house.url}/documents")
    switch = page.get_by_role("button", name="Alternar entre claro e escuro")

    switch.click()
    switch.click()
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.reload()

    expect(page.locator("html")).to_have_attribute("data-theme", "dark")

"""Books as a reader meets them: sent, followed, paused and resumed, looked at chapter by chapter, put right by hand."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, expect

from retoma import Retoma
from retoma.pipelines import BOOKS
from retoma.testing import drain

from ..web.archive import apart  # noqa: TID252 - the house is that of the API's own tests
from ..web.conftest import House, Open  # noqa: TID252
from .book_stage import SECOND_HALF, StumblingEditor, as_pdf, doubtful, providers, text
from .conftest import Visit, working

PHONE = {"width": 360, "height": 740}


@pytest.fixture
def editor() -> StumblingEditor:
    return StumblingEditor()


@pytest.fixture
def given(tmp_path: Path, editor: StumblingEditor) -> dict[type, object]:
    return providers(tmp_path / "blobs", editor)


@pytest.fixture
def house(open_house: Open, given: dict[type, object]) -> House:
    return open_house(extensions=[BOOKS], providers=given)


@pytest.fixture
def work(house: House, given: dict[type, object]) -> Callable[[], None]:
    """Runs what is ready."""

    def worked() -> None:
        apart(lambda: asyncio.run(drain(Retoma(settings=house.settings, extensions=[BOOKS], providers=given))))

    return worked


def paste(page: Page, house: House, title: str, said: str) -> str:
    """The address of a book that was pasted."""
    page.goto(f"{house.url}/books")
    page.fill("#text-name", title)
    page.fill("#text", said)
    page.get_by_role("button", name="Enviar o texto").click()
    expect(page.get_by_role("heading", level=1)).to_have_text(title)
    return page.url.partition("?")[0]


def state(page: Page) -> Any:
    return page.locator("#standing .badge").first


def test_a_text_is_sent_followed_by_itself_and_read_chapter_by_chapter(
    house: House, given: dict[type, object], visit: Visit
) -> None:
    page = visit(f"{house.url}/books")
    expect(page.get_by_text("Ainda não há livros")).to_be_visible()
    paste(page, house, "A salina", text())
    expect(state(page)).to_have_text("Em andamento")
    expect(page.locator("#resume-point")).to_have_text("O livro está sendo lido e seus capítulos, procurados.")

    with working(house.settings, given, (BOOKS,)):
        expect(state(page)).to_have_text("Concluído")
    expect(page.locator("#chapters tbody tr")).to_have_count(4)
    expect(page.locator("#chapters svg.cells")).to_have_count(4)
    expect(page.locator(".book-map")).to_have_attribute(
        "aria-label", "4 de 4 capítulos prontos, 4 aprovados; o livro tem 2.894 palavras"
    )
    expect(page.locator("#announcer")).to_contain_text("A salina: Concluído")
    for length in ("Em um minuto", "Completo", "Em uma página"):
        page.get_by_role("link", name=length).click()
        expect(page.locator(".lengths [aria-current]")).to_have_text(length)
        expect(page.locator("#reading .prose a")).to_have_count(4)
    exports = page.locator(".exports a")
    begins = {"epub": b"PK", "pdf": b"%PDF-", "markdown": b"# A salina", "json": b"{"}
    assert exports.count() == len(begins)
    for link, (format, first) in zip(exports.all(), begins.items(), strict=True):
        had = page.request.get(f"{house.url}{link.get_attribute('href')}")
        assert (had.status, had.body()[: len(first)]) == (200, first), format

    page.locator("#chapters").get_by_role("link", name="O que Helena viu").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("2 · O que Helena viu")
    quotation = page.locator(".quotation").nth(1)
    said = str(quotation.locator("blockquote").text_content()).strip()
    quotation.get_by_role("link", name="Abrir o texto do capítulo").click()
    expect(page.locator("mark:target")).to_have_text(said)
    page.goto(f"{house.url}/books")
    expect(page.locator("tr[data-book] .badge")).to_have_text("Concluído")


def test_a_paused_book_goes_on_where_it_stopped_and_no_finished_chapter_is_done_again(
    house: House, given: dict[type, object], editor: StumblingEditor, work: Callable[[], None], visit: Visit
) -> None:
    editor.refused = {"3"}
    page = visit(f"{house.url}/books")
    place = paste(page, house, "A salina", text())
    work()
    page.goto(place)
    expect(state(page)).to_have_text("Falhou")
    expect(page.locator("#standing")).to_contain_text("Alguns capítulos não puderam ser resumidos")
    page.get_by_role("button", name="Continuar de onde parou").click()
    expect(state(page)).to_have_text("Em andamento")
    page.get_by_role("button", name="Pausar").click()

    expect(state(page)).to_have_text("Pausado")
    expect(page.locator("#resume-point")).to_have_text(
        "Continua no capítulo 3. Os 3 que estão prontos ficam como estão."
    )
    expect(page.locator(".figures")).to_contain_text("3 de 4")
    expect(page.locator("#chapters tr[data-state='open']")).to_have_count(1)
    page.goto(f"{house.url}/books")
    expect(page.locator("tr[data-book] .badge")).to_have_text("Pausado")
    page.goto(place)
    editor.refused.clear()
    editor.asked.clear()
    page.get_by_role("button", name="Continuar de onde parou").click()
    with working(house.settings, given, (BOOKS,)):
        expect(state(page)).to_have_text("Concluído")

    assert editor.asked == ["3"]
    expect(page.locator("#chapters tr[data-state='PASS']")).to_have_count(4)


def test_a_list_of_chapters_in_doubt_is_put_right_before_anything_is_summed_up(
    house: House, editor: StumblingEditor, work: Callable[[], None], visit: Visit
) -> None:
    page = visit(f"{house.url}/books")
    place = paste(page, house, "Em dúvida", doubtful())
    work()
    page.goto(place)
    page.get_by_role("link", name="Conferir os capítulos").click()
    expect(page.get_by_role("status")).to_contain_text("% das palavras")

    def change(chapter: str) -> Any:
        card = page.locator(f"li[data-chapter='{chapter}']")
        card.locator("summary").click()
        return card

    card = change("2")
    card.get_by_label("O novo capítulo começa na linha").fill("isto não está no livro")
    card.get_by_role("button", name="Dividir aqui").click()
    expect(page.get_by_role("alert")).to_contain_text("Nenhuma linha do capítulo começa assim")
    card = change("2")
    card.get_by_label("O novo capítulo começa na linha").fill(SECOND_HALF[:30])
    card.get_by_role("button", name="Dividir aqui").click()
    expect(page.locator("li[data-chapter]")).to_have_count(4)
    card = change("2b")
    card.get_by_label("Título").fill("Depois da chuva")
    card.get_by_role("button", name="Renomear").click()
    expect(page.locator("li[data-chapter='2b'] h2")).to_have_text("2b · Depois da chuva")
    change("3").get_by_role("button", name="Juntar ao anterior").click()
    expect(page.locator("li[data-chapter]")).to_have_count(3)
    change("1").get_by_role("button", name="Deixar de fora").click()
    expect(page.locator("li[data-chapter]")).to_have_count(2)
    assert editor.asked == []
    page.get_by_role("button", name="Aceitar 2 capítulos e continuar").click()
    expect(state(page)).to_have_text("Em andamento")
    work()
    page.reload()

    expect(state(page)).to_have_text("Concluído")
    assert editor.asked == ["2", "2b"]
    page.get_by_text("1 parte ficou de fora").click()
    expect(page.locator(".left-out")).to_contain_text("Deixado de fora por você")


def test_quotations_of_a_pdf_open_its_page_and_the_pages_that_were_read_are_counted(
    house: House, work: Callable[[], None], visit: Visit
) -> None:
    page = visit(f"{house.url}/books")
    page.set_input_files("#file", {"name": "salina.pdf", "mimeType": "application/pdf", "buffer": as_pdf()})
    page.get_by_role("button", name="Enviar o livro").click()
    expect(page.locator("#standing")).to_be_visible()
    place = page.url.partition("?")[0]
    work()
    page.goto(place)

    expect(page.locator("#pages-read")).to_have_text("8 de 8 páginas lidas")
    page.locator("#chapters").get_by_role("link", name="O que Helena viu").click()
    quotation = page.locator(".quotation").first
    link = quotation.get_by_role("link", name="Página 3 no PDF")
    expect(link).to_have_attribute("href", f"{place.removeprefix(house.url)}/source#page=3")
    shown = page.request.get(f"{place}/source")
    assert (shown.headers["content-type"], shown.body()[:5]) == ("application/pdf", b"%PDF-")
    exported = page.request.get(f"{house.url}/api/v1{place.removeprefix(house.url)}/export/json").json()
    (told, *_) = exported["chapters"][1]["citacoes"]
    page.goto(told["link"])
    expect(page.locator(f"#page-{told['page']}")).to_be_visible()
    page.go_back()
    quotation.get_by_role("link", name="Abrir a página 3").click()
    expect(page.locator("#page-3")).to_be_visible()
    expect(page.locator("mark:target")).to_have_count(1)


def test_without_javascript_a_book_is_sent_looked_at_and_commented_on(
    house: House, work: Callable[[], None], visit: Visit
) -> None:
    page = visit(f"{house.url}/books", java_script_enabled=False)
    page.fill("#text", "   ")
    page.get_by_role("button", name="Enviar o texto").click()
    expect(page.get_by_role("alert")).to_be_visible()
    paste(page, house, "A salina", text())
    work()
    page.get_by_role("link", name="Ver de novo").click()
    expect(state(page)).to_have_text("Concluído")

    page.get_by_label("O que é").select_option("Elogio")
    page.get_by_label("Mensagem").fill("Ótimo resumo!")
    page.get_by_role("button", name="Enviar comentário").click()

    expect(page.get_by_text("Obrigado! Seu comentário foi guardado.")).to_be_visible()
    expect(page.locator(".voices")).to_contain_text("Ótimo resumo!")


@pytest.mark.parametrize("lang", ["pt", "en"])
def test_a_phone_shows_every_page_without_scrolling_sideways(
    house: House, work: Callable[[], None], editor: StumblingEditor, visit: Visit, lang: str
) -> None:
    editor.refused = {"3"}
    page = visit(f"{house.url}/books")
    place = paste(page, house, "Um título bastante comprido que não cabe em uma linha só de um telefone", text())
    doubt = paste(page, house, "Em dúvida", doubtful())
    work()
    page.set_viewport_size(PHONE)

    for each in (
        f"{house.url}/books",
        place,
        f"{place}/chapters/1",
        f"{place}/chapters/3",
        f"{place}/text/1",
        doubt,
        f"{doubt}/review",
    ):
        page.goto(f"{each}?lang={lang}")
        for fold in page.locator("main summary").all():
            fold.click()
        assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"], each
        small = page.evaluate(
            """() => [...document.querySelectorAll("main button, main a, main select, main summary")]
                .filter(each => each.offsetParent && each.getBoundingClientRect().height < 44)
                .map(each => each.outerHTML.slice(0, 80))"""
        )
        assert small == [], each

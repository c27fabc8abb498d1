"""Pages for everybody: looked at by axe-core in a real browser, light and dark, in every state people meet them in."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from playwright.sync_api import Page, expect

from retoma import Retoma
from retoma.pipelines import BOOKS, CLASSIFICATION
from retoma.testing import drain

from ..web.archive import LEASE, apart, sent, work  # noqa: TID252 - the house is that of the API's own tests
from ..web.conftest import House, Open  # noqa: TID252
from . import book_stage
from .classifier_app import providers as classifying
from .classifier_stage import Stage, documents, until, working
from .conftest import Visit

import bad_files  # isort: skip - on the path since archive was imported

TOOL = Path(__file__).parents[2] / "tools" / "axe"
BROKEN = b"%PDF-1.7\n" + b"this is no pdf " * 40 + b"\n%%EOF\n"
SCHEMES: tuple[Literal["light", "dark"], ...] = ("light", "dark")
PHONE = {"width": 360, "height": 740}

Check = Callable[[Page, str], None]

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture(scope="session")
def axe() -> str:
    """The checker; without it the test is skipped, with the reason."""
    found = subprocess.run([TOOL], capture_output=True, text=True, check=False)
    if found.returncode:
        pytest.skip(f"Accessibility was not looked at: {found.stderr.strip().splitlines()[-1]}")
    return Path(found.stdout.strip()).read_text(encoding="utf-8")


@pytest.fixture
def check(axe: str) -> Check:
    """Looks at a page as it is now, in both schemes; whatever is found fails the test."""

    def look(page: Page, what: str) -> None:
        assert [f"{what}, {told}" for told in found_in(page, axe)] == []

    return look


# Only what was found: all that was looked at would take longer to hand over than to look at.
EVERYTHING = "axe.run(document, {iframes: false}).then((seen) => seen.violations)"
# The other scheme has the same elements in other colours. AAA is not what axe looks for by itself.
COLOURS = """axe.run(document, {
    iframes: false,
    runOnly: axe.getRules(["cat.color"]).filter((rule) => !rule.tags.includes("wcag2aaa")).map((rule) => rule.ruleId),
}).then((seen) => seen.violations)"""


def found_in(page: Page, axe: str) -> list[str]:
    """What shuts somebody out, in either scheme, be it ever so little."""
    found = []
    for scheme, look in zip(SCHEMES, (EVERYTHING, COLOURS), strict=True):
        page.emulate_media(color_scheme=scheme, reduced_motion="reduce")  # no colour is half-way to another
        if not page.evaluate("typeof axe === 'object'"):
            page.evaluate(axe)  # past the page's own policy, which lets nobody else's script in
        found += [f"{scheme}: {told}" for each in page.evaluate(look) for told in _told(each)]
    return found


def _told(violation: dict[str, Any]) -> list[str]:
    return [
        f"{violation['id']} ({violation['impact']}) {node['target']} {node['html'][:200]} {node['failureSummary']}"
        for node in violation["nodes"]
    ]


def unfolded(page: Page, name: str) -> None:
    page.locator("tr[data-document]", has_text=name).locator("[data-expand]").click()
    expect(page.locator(".more .detail-actions").first).to_be_visible()


def test_axe_finds_what_is_wrong_with_a_page_that_shuts_people_out(house: House, visit: Visit, axe: str) -> None:
    page = visit(f"{house.url}/documents")
    page.evaluate(
        """() => {
            const shut = document.createElement("button");
            document.querySelector("main").append(shut);
            document.querySelector("h1").style.color = "light-dark(#ddd, #333)";
        }"""
    )

    found = found_in(page, axe)

    assert [each.partition(")")[0] for each in found] == [
        "light: button-name (critical",
        "light: color-contrast (serious",
        "dark: color-contrast (serious",
    ]


def test_the_documents_are_for_everybody(house: House, given: dict[type, object], visit: Visit, check: Check) -> None:
    page = visit(f"{house.url}/documents")
    check(page, "no documents")
    page.set_input_files("#files", {"name": "vazio.txt", "mimeType": "text/plain", "buffer": b""})
    expect(page.locator(".upload.bad")).to_be_visible()
    check(page, "a file that was refused")

    whole, broken = sent(house), sent(house, "quebrado.pdf", BROKEN)
    pdf = sent(house, "relatório.pdf", bad_files.whole_pdf())
    sent(house, "planilha.csv", "produto;preço\ncaderno;10\nlápis;2\n" * 3)
    work(house, given)
    sent(house, "espera.txt", "um texto que espera")
    page.goto(f"{house.url}/documents")
    expect(page.locator("tr[data-document]")).to_have_count(5)
    check(page, "documents, one failed and one waiting")
    for name in ("contrato.txt", "quebrado.pdf", "planilha.csv"):
        unfolded(page, name)
    expect(page.locator(".unsure").first).to_be_visible()
    for fold in page.locator("details.fold summary").all():
        fold.click()
    check(page, "documents unfolded")
    page.get_by_label("Buscar pelo sentido").fill("aviso de rescisão")
    page.get_by_label("Buscar pelo sentido").press("Enter")
    expect(page.locator("#found li").first).to_be_visible()
    check(page, "found by meaning")
    page.locator(".more", has_text="Maria").get_by_role("button", name="Remover").click()
    expect(page.locator("#ask")).to_be_visible()
    check(page, "the question before a removal")

    for path, what in (
        (f"/{whole}", "a document"),
        (f"/{broken}", "a document that failed"),
        (f"/{pdf}", "a document with its preview"),
        ("/search?q=aviso", "what was found"),
        ("/search?q=zzzz", "nothing found by meaning"),
        ("?search=nada", "nothing found by name"),
        ("?limit=2", "a page of several"),
        ("/nowhere", "a problem"),
    ):
        page.goto(f"{house.url}/documents{path}")
        check(page, what)
    page.set_viewport_size(PHONE)
    page.goto(f"{house.url}/documents?lang=en")
    unfolded(page, "contrato.txt")
    check(page, "documents on a phone, in English")


def test_the_documents_are_for_everybody_without_javascript_too(house: House, visit: Visit, axe: str) -> None:
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
    text = page.content()

    shown = visit(f"{house.url}/login")
    shown.set_content(text)  # the checker itself needs the language that the page did without
    shown.evaluate(axe)
    look = "axe.run(document, {rules: {'color-contrast': {enabled: false}}}).then((seen) => seen.violations)"
    assert [told for each in shown.evaluate(look) for told in _told(each)] == []


def test_signing_in_is_for_everybody(house: House, visit: Visit, check: Check) -> None:
    apart(lambda: house.key("read"))
    page = visit(f"{house.url}/documents")
    expect(page.get_by_role("heading", level=1)).to_have_text("Entrar")
    check(page, "signing in")

    page.get_by_label("Chave de API").fill("rtm_wrong")
    page.get_by_role("button", name="Entrar").click()
    expect(page.get_by_role("alert")).to_be_visible()

    check(page, "a key that was refused")


@pytest.fixture
def stage(open_house: Open, database_url: str, tmp_path: Path) -> Stage:
    return Stage(open_house(extensions=[CLASSIFICATION], providers=classifying(tmp_path)), database_url, tmp_path)


def test_the_tabs_of_the_classifier_are_for_everybody(stage: Stage, visit: Visit, check: Check) -> None:
    page = visit(f"{stage.url}/lotes")
    check(page, "no lots")
    page.goto(f"{stage.url}/")
    check(page, "a new lot")
    page.get_by_text("Mais opções").click()
    (empty := stage.folder / "vazio.txt").touch()
    files = documents(stage.folder / "docs", 3)
    page.set_input_files("#files", [*files, empty])
    expect(page.locator("#unfit")).to_be_visible()
    check(page, "a new lot with its files")
    stage.lot(files)

    for path, what in (
        ("/lotes", "the lots, one under way"),
        ("/lotes?busca=nada", "no lot of that name"),
        ("/lotes/1", "a lot"),
        ("/prompts", "the prompts"),
        ("/prompts/novo", "a new prompt"),
        ("/prompts/1", "a prompt"),
        ("/teste", "the quick test"),
    ):
        page.goto(f"{stage.url}{path}")
        check(page, what)
    page.set_input_files("#file", files[2])
    expect(page.locator("#preview pre")).to_be_visible()
    page.get_by_role("button", name="Classificar").click()
    expect(page.locator("#trial-category")).to_be_visible()
    check(page, "the quick test with its result")
    page.goto(f"{stage.url}/prompts/novo")
    page.fill("#name", "Vazio")
    page.fill("#content", "um texto que não diz tipo nenhum")
    page.get_by_role("button", name="Salvar").click()
    expect(page.locator("main .notice").first).to_be_visible()
    check(page, "a prompt that was answered")
    page.set_viewport_size(PHONE)
    for path in ("/", "/lotes", "/teste"):
        page.goto(f"{stage.url}{path}?lang=en")
        check(page, f"{path} on a phone, in English")


def test_an_execution_is_for_everybody_whatever_becomes_of_it(stage: Stage, visit: Visit, check: Check) -> None:
    files = documents(stage.folder / "docs", 12, unreadable=2)
    page = visit(f"{stage.url}/execucoes/{stage.lot(files)}")
    check(page, "an execution that waits")
    with working(stage.database_url, stage.folder):
        expect(page.locator("#state-words")).to_have_text("Concluída com 2 erros")
        until(lambda: page.locator("#results tbody tr").count() == 12)
    for fold in page.locator("details.fold summary").all():
        fold.click()
    page.locator("canvas.mosaic").focus()
    page.keyboard.press("ArrowRight")
    check(page, "an execution with errors")
    page.get_by_label("Somente erros").check()
    page.get_by_role("button", name="Filtrar").click()
    check(page, "its errors alone")
    for place in (0, 5):
        page.goto(f"{stage.url}/execucoes/1/documentos?posicao={place}")
        check(page, f"document {place} of an execution")

    id = stage.lot(files[2:5])
    long_ago = "now() - interval '6 minutes 5 seconds'"
    for state, was, more in (
        ("running", "queued", f"started_at = {long_ago}, last_progress_at = {long_ago}"),
        ("stalled", "running", "reason = 'no_workers', stalled_at = now(), cause = '{\"queue\": \"classification\"}'"),
    ):
        stage.run(f"update retoma.batches set state = '{state}', was = '{was}', {more} where id = %s", id)
        page.goto(f"{stage.url}/execucoes/{id}")
        check(page, f"an execution that is {state}")
    page.get_by_role("button", name="Cancelar execução").first.click()
    expect(page.locator("#ask")).to_be_visible()
    check(page, "the question before it is cancelled")
    page.get_by_role("button", name="Não, voltar").click()
    page.set_viewport_size(PHONE)
    check(page, "a stalled execution on a phone")
    ended = "state = 'failed', was = 'stalled', reason = 'resumes', stalled_at = null, finished_at = now()"
    stage.run(f"update retoma.batches set {ended} where id = %s", id)
    page.goto(f"{stage.url}/execucoes/{id}?lang=en")
    check(page, "an execution that failed, in English")


def test_the_books_are_for_everybody(open_house: Open, tmp_path: Path, visit: Visit, check: Check) -> None:
    editor = book_stage.StumblingEditor()
    given = book_stage.providers(tmp_path / "blobs", editor)
    house = open_house(extensions=[BOOKS], providers=given)

    def read(title: str, text: str) -> str:
        page.goto(f"{house.url}/books")
        page.fill("#text-name", title)
        page.fill("#text", text)
        page.get_by_role("button", name="Enviar o texto").click()
        expect(page.locator("#standing")).to_be_visible()
        check(page, f"{title}, just sent")
        place = page.url.partition("?")[0]
        apart(lambda: asyncio.run(drain(Retoma(settings=house.settings, extensions=[BOOKS], providers=given))))
        return place

    page = visit(f"{house.url}/books")
    check(page, "no books")
    done = read("Pronto", book_stage.text())
    editor.refused = {"3"}
    failed = read("Com falha", book_stage.text(8))
    doubtful = read("Em dúvida", book_stage.doubtful())

    for address, what in (
        (f"{house.url}/books", "the books"),
        (done, "a book that is done"),
        (f"{done}?length=long", "a book in full"),
        (f"{done}/chapters/2", "a chapter"),
        (f"{done}/text/2#q1", "the text of a chapter"),
        (failed, "a book that failed"),
        (f"{failed}/chapters/3", "a chapter that is not done"),
        (doubtful, "a book in doubt"),
        (f"{doubtful}/review", "the review of a list"),
    ):
        page.goto(address)
        for fold in page.locator("main summary").all():
            fold.click()
        check(page, what)
    page.set_viewport_size(PHONE)
    for address in (f"{house.url}/books", done, f"{done}/chapters/2", f"{doubtful}/review"):
        page.goto(f"{address}?lang=en")
        check(page, f"{address} on a phone, in English")

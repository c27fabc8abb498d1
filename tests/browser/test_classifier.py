"""The screen of the classifier, in a real browser: started, stalled, resumed once, cut off, understood, exported."""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import openpyxl
import pytest
from playwright.sync_api import BrowserContext, Page, expect

from retoma.pipelines import CLASSIFICATION
from retoma.web.http import stream
from retoma.web.words import phrases

from ..web.conftest import Open  # noqa: TID252 - the house is that of the API's own tests
from .classifier_app import providers
from .classifier_stage import Stage, Wire, documents, until, working
from .conftest import PATIENCE, Visit, choose_before

PHONE = {"width": 360, "height": 740}
WHOLE = "document.documentElement.scrollWidth <= document.documentElement.clientWidth"


@pytest.fixture
def stage(open_house: Open, database_url: str, tmp_path: Path) -> Stage:
    house = open_house(extensions=[CLASSIFICATION], providers=providers(tmp_path))
    return Stage(house, database_url, tmp_path)


@pytest.fixture
def worker(stage: Stage) -> Iterator[None]:
    with working(stage.database_url, stage.folder):
        yield


def narrow(page: Page) -> None:
    """On a phone nothing sticks out."""
    before = page.viewport_size
    page.set_viewport_size(PHONE)
    assert page.evaluate(WHOLE), page.url
    page.set_viewport_size(before or {"width": 1280, "height": 720})


def tab(context: BrowserContext, url: str) -> Page:
    page = context.new_page()
    page.goto(url)
    return page


def test_files_that_were_chosen_before_the_script_had_come_are_not_lost(stage: Stage, visit: Visit) -> None:
    page = visit("about:blank")

    choose_before(page, "classifier.js", f"{stage.url}/", documents(stage.folder / "docs", 3))

    expect(page.locator("#chosen")).to_contain_text("3 arquivos escolhidos")
    expect(page.locator("#start")).to_be_enabled()


def pictures(page: Page) -> None:
    """The panel as it is now, in both languages, for the README: make pictures."""
    folder = os.environ.get("PICTURES")
    if not folder:
        return
    for language in ("en", "pt"):
        shown = tab(page.context, f"{page.url}?lang={language}")
        shown.set_viewport_size({"width": 1040, "height": 760})
        expect(shown.locator("#stalled")).to_be_visible()
        shown.screenshot(path=Path(folder) / f"stalled-{language}.png")
        shown.close()


@pytest.mark.usefixtures("worker")
def test_when_the_provider_dies_the_lot_is_told_stalled_and_two_tabs_resume_it_once(stage: Stage, visit: Visit) -> None:
    page = visit(f"{stage.url}/")
    expect(page.locator("#start")).to_be_disabled()
    page.set_input_files("#files", documents(stage.folder / "docs", 40))
    expect(page.locator("#chosen")).to_contain_text("40 arquivos escolhidos")
    page.fill("#name", "Petições de março")
    page.get_by_text("Mais opções").click()
    page.fill("#max_retries", "50")
    page.click("#start")
    page.wait_for_url("**/execucoes/*")
    id = stage.begins(page.url)
    other = tab(page.context, page.url)
    until(lambda: len(stage.diary()) >= 10)

    (stage.folder / "down").touch()

    for each in (page, other):
        told = each.locator("#stalled")
        expect(told).to_contain_text("Execução travada")
        expect(told).to_contain_text("Nada do que já foi feito se perdeu.")
        expect(told).to_contain_text("Causa provável: o provedor não responde")
        expect(told).to_contain_text("Rota afetada: /classificador/")
        expect(told).to_contain_text("Retomada 0 de 3")
        expect(each.locator("#summary .badge")).to_have_text("Travado")
        expect(each.locator("#eta")).to_have_count(0)
    last = stage.rows("select last_key from retoma.batches where id = %s", id)[0][0]
    expect(page.locator("#stalled")).to_contain_text(f"último documento concluído: {last}")
    assert stage.rows("select reason from retoma.batches where id = %s", id) == [("provider_down",)]
    narrow(page)
    pictures(page)
    done = stage.diary()

    other.evaluate("document.getElementById('resume').click()")
    page.evaluate("for (const _ of [1, 2]) document.getElementById('resume').click()")
    until(lambda: stage.state(id) == "running")
    (stage.folder / "down").unlink()
    # The waits between attempts are over.
    stage.run("update retoma.jobs set run_at = now() where batch_id = %s and state = 'queued'", id)

    expect(page.locator("#state-words")).to_have_text("Concluída sem erros", timeout=2 * PATIENCE)
    expect(other.locator("#state-words")).to_have_text("Concluída sem erros")
    resumed = "select count(*) from retoma.events where batch_id = %s and data->>'why' = 'resumed'"
    assert stage.rows(resumed, id) == [(1,)]
    assert stage.rows("select state, resumes from retoma.batches where id = %s", id) == [("completed", 1)]
    diary = stage.diary()
    assert diary[: len(done)] == done
    assert len(diary) == len(set(diary)) == 40, "no document was judged twice"
    expect(page.locator("#summary [data-count=completed]")).to_have_text("40 concluídos")
    expect(page.locator("#mosaic")).to_have_attribute("data-letters", "c" * 40)


@pytest.mark.usefixtures("worker")
def test_a_cut_wire_is_told_as_silence_of_the_server_and_no_event_is_lost(
    stage: Stage, visit: Visit, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(stream, "HEARTBEAT", 0.5)
    id = stage.lot(documents(stage.folder / "docs", 40), max_concurrent=2)
    with Wire(stage.house.url).opened() as wire:
        page = visit("about:blank")
        page.add_init_script(
            """document.addEventListener("readystatechange", () => {
                const home = document.querySelector("[data-live]");
                if (home) Object.assign(home.dataset, {liveSilence: "3", livePoll: "1"});
            });
            window.heard = [];
            document.addEventListener("retoma:event", ({detail}) => {
                if (["items", "state"].includes(detail.name)) heard.push(Number(detail.id));
            });"""
        )
        page.goto(f"{wire.url}/classificador/execucoes/{id}")
        first = int(page.locator("#run").get_attribute("data-live-cursor") or 0)
        until(lambda: len(stage.diary()) >= 5)

        wire.cut()

        notice = page.locator("#live-notice")
        expect(notice).to_contain_text(re.compile(r"Sem notícias do servidor há \d+ s\. O processamento continua"))
        expect(notice).to_contain_text("Atualizando a cada 1 s enquanto a conexão ao vivo não volta.")
        assert not re.search(r"trava", page.locator("main").inner_text(), re.IGNORECASE)
        expect(page.locator("#quiet")).to_be_hidden()
        before = len(stage.diary())
        until(lambda: len(stage.diary()) >= min(before + 10, 40), what="the work goes on")
        expect(page.get_by_role("button", name="Reconectar agora")).to_be_visible()
        wire.mend()
        expect(notice).to_be_hidden()

        expect(page.locator("#state-words")).to_have_text("Concluída sem erros")
        happened = [seq for (seq,) in stage.rows("select seq from retoma.events where batch_id = %s order by 1", id)]
        page.wait_for_function(
            "last => heard.at(-1) >= last", arg=happened[-1]
        )  # a look may tell the end before the stream
        assert page.evaluate("heard") == [seq for seq in happened if seq > first]
        logged = "new Set([...document.querySelectorAll('#log [data-seq]')].map(each => each.dataset.seq)).size"
        until(lambda: page.evaluate(logged) == len(happened), what="the log has every event")
        assert len(stage.diary()) == len(set(stage.diary())) == 40


@pytest.mark.usefixtures("worker")
def test_bad_files_are_told_apart_errors_are_tried_again_and_exports_open(stage: Stage, visit: Visit) -> None:
    page = visit(f"{stage.url}/")
    files = documents(stage.folder / "docs", 12, unreadable=2)
    copy, liar, empty = (stage.folder / name for name in ("cópia.txt", "mentira.pdf", "vazio.txt"))
    copy.write_bytes(files[5].read_bytes())
    liar.write_text("isto não é um PDF, e sim um texto qualquer, longo o bastante para ser lido")
    empty.touch()
    page.set_input_files("#files", [*files, copy, liar, empty])
    expect(page.locator("#unfit")).to_contain_text("vazio.txt: o arquivo está vazio")
    page.click("#start")
    expect(page.locator("#sent-refused")).to_contain_text("mentira.pdf: o conteúdo não é o que a extensão diz")
    expect(page.locator("#sent-known")).to_contain_text("cópia.txt: mesmo conteúdo de doc-005.txt")
    page.get_by_role("button", name="Continuar sem eles").click()
    page.wait_for_url("**/execucoes/*")
    id = stage.begins(page.url)

    expect(page.locator("#state-words")).to_have_text("Concluída com 2 erros")
    expect(page.locator("#errors .card")).to_contain_text("2 documentos: o texto não pôde ser classificado")
    expect(page.locator("#mosaic")).to_have_attribute("data-letters", "ffcccccccccc")
    page.get_by_label("Somente erros").check()
    page.get_by_role("button", name="Filtrar").click()
    expect(page.locator("#results tbody tr")).to_have_count(2)
    (stage.folder / "mended").touch()
    page.get_by_role("button", name="Reprocessar apenas erros (2)").click()
    expect(page.locator("#state-words")).to_have_text("Concluída sem erros")
    assert len(stage.diary()) == len(set(stage.diary())) == 12

    tables: dict[str, Any] = {}
    for format in ("excel", "csv", "json"):
        with page.expect_download() as saved:
            page.click(f"#export-{format}")
        path = stage.folder / saved.value.suggested_filename
        saved.value.save_as(path)
        tables[format] = path
    book = openpyxl.load_workbook(tables["excel"], read_only=True)
    assert len(list(book["Resultados"].iter_rows())) == 13
    book.close()
    with tables["csv"].open(encoding="utf-8-sig") as text:
        assert {row["Status"] for row in csv.DictReader(text, delimiter=";")} == {"CONCLUIDO"}
    assert len(json.loads(tables["json"].read_text())["resultados"]) == 12

    box = page.locator("canvas.mosaic").bounding_box()
    assert box
    page.locator("canvas.mosaic").click(position={"x": 18 * 3 + 9, "y": 9})
    expect(page.locator("h1")).to_have_text("doc-003.txt")
    expect(page.locator("main")).to_contain_text("nota fiscal")
    assert stage.rows("select count(*) from retoma.classifications where batch_id = %s", id) == [(12,)]


def test_without_javascript_everything_can_be_done(stage: Stage, visit: Visit) -> None:
    page = visit(f"{stage.url}/", java_script_enabled=False)
    page.fill("#name", "À mão")
    page.get_by_role("button", name="Criar lote e escolher arquivos").click()
    page.set_input_files("#files", [*documents(stage.folder / "docs", 3), Path(__file__)])
    page.get_by_role("button", name="Enviar arquivos").click()
    expect(page.locator("main")).to_contain_text("4 documentos adicionados")
    page.get_by_role("button", name="Iniciar classificação").click()
    page.wait_for_url("**/execucoes/*")
    assert 'http-equiv="refresh"' in page.content()
    expect(page.locator("#state-words")).to_contain_text("Na fila")
    expect(page.locator("#situation")).to_contain_text("Nenhum worker ativo atende a fila classification")

    page.get_by_role("button", name="Pausar").click()
    expect(page.locator("#summary .badge")).to_have_text("Pausado")
    page.get_by_role("button", name="Continuar de onde parou").click()
    expect(page.locator("#summary .badge")).to_have_text("Pendente")
    page.get_by_role("button", name="Cancelar execução").click()
    expect(page.locator("h1")).to_have_text("Cancelar a execução")
    page.get_by_role("button", name="Cancelar execução").click()

    expect(page.locator("#summary .badge")).to_have_text("Cancelado")
    expect(page.locator("#summary [data-count=cancelled]")).to_have_text("4 cancelados")


def said_in(page: Page) -> set[str]:
    return {line.strip() for line in page.locator("body").inner_text().splitlines() if len(line.strip()) > 3}


def test_every_page_is_whole_in_both_languages_and_on_a_phone(stage: Stage, visit: Visit) -> None:
    id = stage.lot(documents(stage.folder / "docs", 3))
    long_ago = "now() - interval '6 minutes 5 seconds'"
    for state, was, more in (
        ("running", "queued", f"started_at = {long_ago}, last_progress_at = {long_ago}"),
        ("stalled", "running", "reason = 'no_workers', stalled_at = now(), cause = '{\"queue\": \"classification\"}'"),
    ):
        stage.run(f"update retoma.batches set state = '{state}', was = '{was}', {more} where id = %s", id)
    own = {
        name: {
            text
            for key, text in phrases(name).items()
            if key.startswith(("classifier.", "exec.", "btn.", "cause", "state.", "base.")) and "{" not in text
        }
        for name in ("pt", "en")
    }
    page = visit(f"{stage.url}/", viewport=PHONE)
    paths = ("/", "/lotes", "/lotes/1", "/prompts", "/prompts/novo", "/prompts/1", "/teste", f"/execucoes/{id}")
    for path in (*paths, f"/execucoes/{id}/documentos?posicao=1"):
        for name, other in (("pt", "en"), ("en", "pt")):
            page.goto(f"{stage.url}{path}{'&' if '?' in path else '?'}lang={name}")
            lines = said_in(page)
            assert not [line for line in lines if re.match(r"(classifier|exec|btn|cause|state)\.\w+", line)], path
            assert not lines & (own[other] - own[name] - {"English", "Português"}), path
            assert page.evaluate(WHOLE), path
    expect(page.locator("h1")).to_have_text("doc-001.txt")
    page.goto(f"{stage.url}/execucoes/{id}?lang=pt")
    expect(page.locator("#stalled")).to_contain_text("Sem avanço há 6 min. Parou em 0 de 3")
    expect(page.locator("#stalled")).to_contain_text("Causa provável: nenhum worker ativo atende a fila classification")


def test_a_prompt_has_versions_and_the_quick_test_keeps_nothing(stage: Stage, visit: Visit) -> None:
    page = visit(f"{stage.url}/prompts/novo")
    text = (
        "Diga de que tipo é o documento.\n\n- contrato: acordo entre partes; cláusula\n- outro: qualquer outro tipo\n"
    )
    page.fill("#name", "Contratos")
    page.fill("#content", text)
    page.get_by_role("button", name="Salvar").click()
    first = page.locator("h1 + p code").get_attribute("title")
    page.fill("#content", text.replace("cláusula", "cláusula, foro"))
    page.get_by_role("button", name="Salvar").click()
    expect(page.get_by_text("Prompt salvo na versão")).to_be_visible()
    expect(page.locator(".groups code")).to_have_count(2)
    assert page.locator("h1 + p code").get_attribute("title") != first

    page.goto(f"{stage.url}/teste")
    page.set_input_files("#file", documents(stage.folder / "docs", 3)[2])
    expect(page.locator("#preview pre")).to_contain_text("Contrato de prestação de serviços")
    own = page.locator("#prompt_id option", has_text="Contratos").get_attribute("value")
    page.select_option("#prompt_id", own)
    page.get_by_role("button", name="Classificar").click()
    expect(page.locator("#trial-category")).to_have_text("contrato")
    expect(page.locator("#preview pre")).to_contain_text("Contrato de prestação de serviços")
    for table in ("project_documents", "classifications", "jobs where pipeline = 'classification'"):
        assert stage.rows(f"select count(*) from retoma.{table}") == [(0,)]

    page.goto(f"{stage.url}/prompts")
    page.get_by_role("link", name="Contratos").click()
    page.get_by_role("button", name="Desativar").click()
    page.get_by_role("button", name="Não, voltar").click()
    page.get_by_role("button", name="Desativar").click()
    page.get_by_role("button", name="Sim, continuar").click()
    expect(page.get_by_text("Prompt desativado")).to_be_visible()
    expect(page.get_by_role("link", name="Contratos")).to_have_count(0)

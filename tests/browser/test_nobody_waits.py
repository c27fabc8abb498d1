"""Nobody waits without end: each cause of a stall, with real processes, watched in a browser until the page says so,
and why, and what to do; then the cause is fixed, and the button makes it end.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from .classifier_stage import until
from .conftest import PATIENCE, Visit
from .nobody_stage import GOOD_KEY, Grounds, Provider

ENDED = "Concluída sem erros"
LONG = 150.0  # seconds: a busy machine takes its time to start a worker

pytestmark = pytest.mark.timeout(1200)


@pytest.fixture
def grounds(database_url: str, tmp_path: Path) -> Iterator[Grounds]:
    with Provider().opened() as provider:
        grounds = Grounds(database_url, tmp_path, provider)
        try:
            grounds.serve()
            yield grounds
        finally:
            grounds.end()


def stalled(page: Page, *words: str) -> None:
    """The page says that it is stalled, and these words; nothing on it moves or promises an end."""
    told = page.locator("#stalled")
    expect(told).to_be_visible(timeout=2 * PATIENCE)
    for each in words:
        expect(told).to_contain_text(each)
    expect(page.locator("#summary .badge").first).to_have_text("Travado")
    expect(page.locator("#summary .icon-spinner")).to_have_count(0)
    expect(page.locator("#eta")).to_have_count(0)


def ends(page: Page, words: str = ENDED) -> None:
    expect(page.locator("#state-words")).to_have_text(words, timeout=2 * PATIENCE)


def test_the_only_worker_is_killed(grounds: Grounds, visit: Visit) -> None:
    worker = grounds.work()
    id = grounds.lot(16, max_concurrent=2)
    page = visit(grounds.page(id))
    until(lambda: grounds.done(id) >= 3, seconds=LONG)

    grounds.kill(worker)

    stalled(
        page,
        "nenhum worker ativo atende a fila classification",
        "inicie um worker",
        "Nada do que já foi feito",
    )
    expect(page.locator("#chips")).to_contain_text("Nenhum worker ativo")
    seen = grounds.detail(id)
    assert (seen["status"], seen["esta_travada"]) == ("TRAVADO", True)
    assert seen["erro_mensagem"] == "Nenhum worker ativo atende a fila classification."
    assert "No live worker serves queue classification" in grounds.command("batch", "explain", str(id))
    page.click("#resume")
    expect(page.locator("main")).to_contain_text("Nenhuma retomada foi gasta")
    assert grounds.rows("select resumes from retoma.batches where id = %s", id) == [(0,)]

    grounds.work()

    ends(page)
    expect(page.locator("#chips")).not_to_contain_text("Nenhum worker ativo")
    assert grounds.rows("select resumes from retoma.batches where id = %s", id) == [(0,)]


@pytest.mark.parametrize(
    ("mode", "told", "detail"),
    [
        ("overloaded", "o provedor não responde", "overloaded"),
        ("hanging", "o provedor não responde", "ProviderTimeout"),
        ("limiting", "o provedor recusa as chamadas por excesso de uso (429)", "429"),
    ],
)
def test_the_provider_does_not_answer(grounds: Grounds, visit: Visit, mode: str, told: str, detail: str) -> None:
    grounds.work()
    id = grounds.lot(12, max_concurrent=2)
    page = visit(grounds.page(id))
    until(lambda: grounds.done(id) >= 2, seconds=LONG)

    grounds.provider.mode = mode

    stalled(page, told, "O que fazer:", "continue de onde parou")
    page.locator("#why-detail summary").click()
    expect(page.locator("#why-detail")).to_contain_text(detail)
    explained = [grounds.command("batch", "explain", str(id)).splitlines()[0] for _ in range(3)]
    assert len(set(explained)) == 1, "the verdict is steady"
    grounds.provider.mode = "good"
    page.click("#resume")

    ends(page)


def test_the_key_is_refused(grounds: Grounds, visit: Visit) -> None:
    grounds.key = "sk-wrong"
    worker = grounds.work()
    id = grounds.lot(6, max_concurrent=2)
    page = visit(grounds.page(id))

    told = page.locator("#situation")
    expect(told).to_contain_text("O provedor openai recusou a chave ou a conta (HTTP 401)", timeout=2 * PATIENCE)
    expect(told).to_contain_text("corrija a chave (ou a conta) na configuração dos workers, reinicie-os")
    told.locator("summary").click()
    expect(told).to_contain_text("Incorrect API key provided")
    expect(page.locator("#summary .icon-spinner")).to_have_count(0)
    seen = grounds.detail(id)
    assert (seen["status"], seen["erro_mensagem"].startswith("O provedor openai recusou a chave")) == ("PAUSADO", True)
    said = grounds.command("batch", "explain", str(id))
    assert "HTTP 401" in said
    assert "restart the workers, then resume" in said
    grounds.kill(worker)
    grounds.key = GOOD_KEY
    grounds.work()
    until(
        lambda: grounds.rows("select from retoma.workers where lease_expires_at > now() and stopped_at is null"),
        seconds=LONG,
    )
    page.click("#resume")

    ends(page)


def test_a_document_brings_the_worker_down(grounds: Grounds, visit: Visit) -> None:
    grounds.work()
    id = grounds.lot(8, marked="DERRUBA", patience=60.0)
    page = visit(grounds.page(id))

    ends(page, "Concluída com 1 erro")
    expect(page.locator("#errors")).to_contain_text("o documento derrubou o leitor três vezes e foi isolado")
    expect(page.locator("#summary .tone-bad.notice")).to_have_count(0)
    (grounds.folder / "mended").touch()
    page.click("#retry")

    ends(page)


def test_an_answer_that_does_not_fit_is_asked_for_again_when_a_person_says_so(grounds: Grounds, visit: Visit) -> None:
    grounds.provider.mode = "prose"
    grounds.work()
    id = grounds.lot(3)
    page = visit(grounds.page(id))

    ends(page, "Todos os documentos deram erro")
    expect(page.locator("#summary .badge").first).to_have_text("Concluído com falhas")
    expect(page.locator("#summary .run-head .tone-good")).to_have_count(0)
    expect(page.locator("#errors")).to_contain_text("a IA respondeu fora do formato pedido")
    grounds.provider.mode, asked = "good", grounds.provider.asked
    page.click("#retry")

    ends(page)
    assert grounds.provider.asked == asked + 3, "the model was asked again, once for each"

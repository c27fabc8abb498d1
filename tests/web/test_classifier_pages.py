"""The pages of the classifier as the server makes them: who sees what, regions alone, every cause in both languages."""

from __future__ import annotations

import asyncio
import re
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
import pytest

from retoma import Retoma
from retoma.model.batch import BatchState, Progress
from retoma.model.diagnosis import STALLING
from retoma.pipelines import CLASSIFICATION
from retoma.pipelines.classification.pages.context import told_error
from retoma.pipelines.classification.pages.view import eta_of, long_span
from retoma.providers import BlobStore, Classifier, Extractor
from retoma.providers.folder import FolderBlobs
from retoma.providers.local import LocalClassifier, LocalExtractor
from retoma.providers.local.encoder import Lexical
from retoma.testing import drain
from retoma.web.pages import render
from retoma.web.words import phrase
from retoma.web.words.causes import cause_of, help_of, span

from .conftest import House, Open, code

HTML = {"Accept": "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "Accept-Language": "pt-BR"}
TEXT = "Sentença. Vistos. Ante o exposto, julgo procedente o pedido e condeno o réu. Publique-se. Intimem-se. Documento"


@pytest.fixture
def given(tmp_path: Path) -> dict[type, object]:
    return {
        BlobStore: FolderBlobs(tmp_path / "blobs"),
        Classifier: LocalClassifier(Lexical()),
        Extractor: LocalExtractor(),
    }


@pytest.fixture
def house(open_house: Open, given: dict[type, object]) -> House:
    return open_house(extensions=[CLASSIFICATION], providers=given)


def lot(house: House, *texts: str) -> int:
    """An execution of these texts."""
    made = house.client.post("/classificador/api/projetos", json={"nome": "Março"}).json()["id"]
    files = [("arquivos", (f"{number}.txt", text.encode())) for number, text in enumerate(texts)]
    assert house.client.post(f"/classificador/api/lotes/{made}/upload", files=files).json()["erros"] == 0
    return int(house.client.post(f"/classificador/api/projetos/{made}/executar").json()["execucao_id"])


@pytest.mark.parametrize("number", ["1" * 23, "9" * 5000, "-" + "1" * 30, "²", "x"])
def test_a_number_that_cannot_be_one_does_not_bring_the_form_down(house: House, number: str) -> None:
    refused = house.client.post("/classificador/lotes", data={"name": "x", "prompt_id": number}, headers=HTML)

    assert refused.status_code == 422


def work(house: House, given: dict[type, Any]) -> None:
    asyncio.run(drain(Retoma(settings=house.settings, extensions=[CLASSIFICATION], providers=given)))


def region(house: House, path: str, name: str, **options: Any) -> str:
    headers = HTML | {"HX-Request": "true", "HX-Target": f"section#{name}"}
    shown = house.client.get(path, headers=headers, **options)
    assert shown.status_code == 200, shown.text
    return str(shown.text)


def test_each_region_of_an_execution_comes_alone_and_says_what_the_database_says(
    house: House, given: dict[type, object]
) -> None:
    id = lot(house, f"{TEXT} um.", f"{TEXT} dois.", "curto")
    work(house, given)
    place = f"/classificador/execucoes/{id}"

    summary = region(house, place, "summary")
    assert summary.startswith('<section id="summary"')
    assert "Concluída com 1 erro" in summary
    assert 'data-letters="ccf"' in region(house, place, "mosaic")
    assert "há texto de menos para classificar" in region(house, place, "errors")
    results = region(house, f"{place}?erros=1", "results")
    assert re.findall(r'data-state="(\w+)"', results) == ["failed", "failed"]
    log = region(house, place, "log")
    assert "Execução pronta: 3 documentos na fila" in log
    assert "Erro: 2.txt" in log
    seqs = {int(each) for each in re.findall(r'data-seq="(\d+)"', log)}
    assert seqs == set(range(1, house.get(f"/batches/{id}").json()["event_seq"] + 1))


def test_an_execution_that_asks_again_and_again_is_the_same(house: House) -> None:
    id = lot(house, f"{TEXT} um.")
    first = house.client.post("/classificador/lotes/1/executar", headers=HTML)
    again = house.client.post("/classificador/lotes/1/executar", headers=HTML)

    assert first.headers["location"] == again.headers["location"] == f"/classificador/execucoes/{id}"
    told = house.client.post(f"/classificador/execucoes/{id}/retomar", headers=HTML)
    assert told.headers["location"].endswith("?dito=already_running")


def test_when_the_resumes_are_used_up_the_page_says_so_and_what_can_be_done(
    house: House, psql: psycopg.Connection
) -> None:
    id = lot(house, f"{TEXT} um.")
    moves = (
        ("running", "queued", "started_at = now(), last_progress_at = now()"),
        ("stalled", "running", "stalled_at = now(), reason = 'silent', cause = '{}', resumes = 3"),
        ("failed", "stalled", "stalled_at = null, reason = 'resumes', finished_at = now()"),
    )
    for state, was, more in moves:
        psql.execute(f"update retoma.batches set state = '{state}', was = '{was}', {more} where id = {id}")
        shown = region(house, f"/classificador/execucoes/{id}", "summary")
        if state != "running":
            assert "As retomadas acabaram (3 de 3)" in shown
            assert "comece uma nova execução deste lote" in shown
            assert 'id="resume"' not in shown
    assert 'id="anew"' in shown

    refused = house.client.post(f"/classificador/execucoes/{id}/retomar", headers=HTML)
    assert refused.status_code == 409
    assert "As retomadas acabaram" in refused.text


def test_who_may_only_look_sees_figures_but_no_text_and_no_button(house: House, given: dict[type, object]) -> None:
    id = lot(house, f"{TEXT} um.")
    work(house, given)
    key = HTML | house.key("read")

    shown = house.client.get(f"/classificador/execucoes/{id}", headers=key).text
    assert "Concluída sem erros" in shown
    assert "O texto dos documentos só aparece" in shown
    assert "Publique-se" not in shown
    assert '<form method="post" action="/classificador' not in shown
    assert 'id="export-' not in shown
    assert "Publique-se" not in house.client.get("/classificador/prompts/1", headers=key).text
    assert code(house.client.post(f"/classificador/execucoes/{id}/retomar", headers=house.key("read")))[0] == 403
    other = house.client.get("/classificador/lotes", headers=HTML | house.key("read", pipelines=("double",)))
    assert other.status_code == 403


def test_strange_numbers_and_words_are_told_as_pages(house: House) -> None:
    id = lot(house, f"{TEXT} um.")
    for path, status in (
        ("/classificador/execucoes/99", 404),
        ("/classificador/lotes/99", 404),
        ("/classificador/prompts/99", 404),
        (f"/classificador/execucoes/{id}/documentos/99", 404),
        (f"/classificador/execucoes/{id}/documentos?posicao=7", 404),
        (f"/classificador/execucoes/{id}?confianca=muita", 422),
    ):
        shown = house.client.get(path, headers=HTML)
        assert (shown.status_code, shown.headers["content-type"]) == (status, "text/html; charset=utf-8"), path
    wrong = house.client.post("/classificador/prompts", data={"name": "x", "content": "curto"}, headers=HTML)
    assert wrong.status_code == 422
    assert "O prompt não foi salvo" in wrong.text
    assert ">curto</textarea>" in wrong.text
    led = house.client.get("/classificador", headers=HTML)
    assert (led.status_code, led.headers["location"]) == (307, "/classificador/")


def test_a_page_that_did_not_change_keeps_its_policy_and_runs_its_scripts(house: House) -> None:
    first = house.client.get("/classificador/teste", headers=HTML)
    again = house.client.get("/classificador/teste", headers=HTML | {"If-None-Match": first.headers["etag"]})

    assert again.status_code == 304
    for name in ("content-security-policy", "etag"):
        assert again.headers[name] == first.headers[name]


FACTS = {
    "queue": "classification",
    "lost_worker": "ana",
    "lost_at": "2026-01-30T14:21:07+00:00",
    "suspect_key": "0812.pdf",
    "suspect_crashes": 2,
    "bad_endings": 17,
    "running": 3,
    "oldest_key": "0813.pdf",
    "oldest_seconds": 400.0,
}


@pytest.mark.parametrize("verdict", sorted(STALLING))
def test_every_cause_of_a_stall_is_told_in_both_languages_with_its_facts(verdict: str) -> None:
    told = {name: cause_of(verdict, FACTS, partial(phrase, name)) for name in ("pt", "en")}

    assert told["pt"] != told["en"]
    assert "?" not in told["pt"] + told["en"], told
    assert help_of(verdict, FACTS, partial(phrase, "pt"))
    if verdict == "worker_lost":
        assert told["pt"] == "o worker ana parou de dar sinal às 14:21:07 UTC"


def test_an_error_is_told_by_its_code_and_its_own_words_are_a_detail() -> None:
    say = partial(phrase, "pt")
    assert told_error("document_encrypted: 7.pdf has a password.", "rejected", say).startswith("o documento tem senha")
    assert told_error("ProviderDown: Nobody answers.\n\nTraceback", "ProviderDown", say).startswith("o provedor de IA")
    assert told_error("ValueError: what\n\nTraceback", "ValueError", say).startswith("não foi possível processar")
    assert told_error(None, "quarantine", say).startswith("o documento derrubou")


def progress(state: BatchState, *, done: int, total: int, elapsed: float) -> Progress:
    now = datetime(2026, 1, 30, 15, tzinfo=UTC)
    counts = {"skipped": 0, "failed": 0, "review": 0, "cancelled": 0, "running": 0}
    return Progress(
        id=1, name="x", state=state, reason=None, total=total, queued=total - done, completed=done, **counts, resumes=0,
        max_resumes=3, last_progress_at=now, last_key="a", pace_minute=60.0, pace_five=300.0, busy_seconds=1.0,
        spent=0, budget=None, stall_seconds=300.0, created_at=now, started_at=now - timedelta(seconds=elapsed),
        stalled_at=None, finished_at=None, epoch=1, event_seq=1, now=now,
    )  # fmt: skip


def test_an_estimate_is_a_range_and_is_told_only_while_it_can_be_known() -> None:
    say = partial(phrase, "pt")
    running = progress(BatchState.RUNNING, done=800, total=2000, elapsed=3000)

    assert re.fullmatch(r"previsão: de \d+ min a \d+ min", eta_of(running, say) or "")
    assert eta_of(progress(BatchState.STALLED, done=800, total=2000, elapsed=3000), say) is None
    assert eta_of(progress(BatchState.PAUSED, done=800, total=2000, elapsed=3000), say) is None
    assert eta_of(progress(BatchState.RUNNING, done=9, total=2000, elapsed=3000), say) is None
    assert eta_of(progress(BatchState.RUNNING, done=800, total=2000, elapsed=14), say) is None


def test_time_is_told_as_people_say_it() -> None:
    assert [span(each) for each in (0, 119, 160, 3600, 5400)] == ["0 s", "119 s", "2 min 40 s", "1 h", "1 h 30 min"]
    assert [long_span(each) for each in (59, 60, 365)] == ["59 s", "1 min", "6 min"]


@pytest.mark.parametrize(
    ("amount", "unpriced", "pt", "en"),
    [
        ("0", 0, "US$ 0,00 gastos", "US$ 0.00 spent"),
        ("1234.5", 0, "US$ 1.234,50 gastos", "US$ 1,234.50 spent"),
        ("0.0000031", 0, "US$ 0,0000031 gastos", "US$ 0.0000031 spent"),
        ("0", 1, "custo desconhecido: 1 chamada sem preço", "cost unknown: 1 call without a price"),
        ("0", 60, "custo desconhecido: 60 chamadas sem preço", "cost unknown: 60 calls without a price"),
        (
            "0.25",
            1060,
            "US$ 0,2500 gastos, mais 1.060 chamadas de custo desconhecido",
            "US$ 0.2500 spent, and 1,060 calls of unknown cost",
        ),
    ],
)
def test_what_was_spent_is_never_nothing_where_nobody_knows(amount: str, unpriced: int, pt: str, en: str) -> None:
    assert render._spent(Decimal(amount), unpriced, "pt") == pt
    assert render._spent(Decimal(amount), unpriced, "en") == en
    assert (render.money_of(None, "pt"), render.money_of(None, "en")) == ("desconhecido", "unknown")

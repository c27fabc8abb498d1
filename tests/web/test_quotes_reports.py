"""Reports of large batches over HTTP and on the page: asked for, followed, taken away."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parents[1] / "pipelines" / "quotes"))

from market import Bill, a_market

from retoma import Retoma
from retoma.pipelines import QUOTES
from retoma.pipelines.quotes.http import batches
from retoma.pipelines.quotes.ports import Market
from retoma.providers import BlobStore
from retoma.providers.folder import FolderBlobs
from retoma.testing import drain

from .conftest import House, Open, code

BATCH = "/api/batch-quotes"
HTML = {"Accept": "text/html", "Accept-Language": "pt-BR"}


@pytest.fixture
def given(tmp_path: Path) -> dict[type, Any]:
    return {Market: a_market(Bill(tmp_path / "bill.log")), BlobStore: FolderBlobs(tmp_path / "blobs")}


@pytest.fixture
def house(open_house: Open, given: dict[type, Any], monkeypatch: pytest.MonkeyPatch) -> House:
    monkeypatch.setattr(batches, "MOST_AT_THE_DOOR", 1)
    made = open_house(extensions=[QUOTES], providers=given)
    made.client.post(f"{BATCH}/text", json={"inputText": "Mesa; Cadeira"})
    work(made, given)
    return made


def work(house: House, given: dict[type, Any]) -> None:
    asyncio.run(drain(Retoma(settings=house.settings, extensions=[QUOTES], providers=given)))


def page(house: House) -> str:
    return str(house.client.get("/cotacoes/listas/1", headers=HTML).text)


def test_the_report_of_a_large_batch_is_asked_for_followed_and_taken_away(house: House, given: dict[type, Any]) -> None:
    early = house.client.get(f"{BATCH}/1/download/pdf")
    asked = house.client.post(f"{BATCH}/1/generate-results")
    again = house.client.post(f"{BATCH}/1/generate-results")
    waiting = page(house)
    work(house, given)
    (ready,) = house.client.get(f"{BATCH}/1/results").json()["results"]
    pdf, excel = house.client.get(ready["pdf_url"]), house.client.get(ready["excel_url"])

    assert code(early) == (409, "conflict")
    assert "generate-results" in early.text
    assert (asked.status_code, asked.json()["status"]) == (202, "QUEUED")
    assert again.json()["job_id"] == asked.json()["job_id"]
    assert "O relatório está na fila" in waiting
    assert (ready["status"], ready["progress_percentage"]) == ("READY", 100)
    assert pdf.content.startswith(b"%PDF")
    assert excel.content.startswith(b"PK")
    assert "O relatório está pronto" in page(house)


def test_a_report_is_closed_from_the_page_once_the_question_was_answered(house: House, given: dict[type, Any]) -> None:
    question = house.client.post("/cotacoes/listas/1/relatorio?fechar=1", headers=HTML)
    nothing = house.client.get(f"{BATCH}/1/results").json()["results"]
    led = house.client.post("/cotacoes/listas/1/relatorio?fechar=1&sim=1", headers=HTML, follow_redirects=False)
    work(house, given)

    assert "ele nunca muda" in question.text
    assert nothing == []
    assert led.status_code == 303
    assert "Relatório fechado por" in page(house)
    assert house.client.get(f"{BATCH}/1/download/pdf").content.startswith(b"%PDF")
    assert code(house.client.post(f"{BATCH}/1/generate-results", json={"close": True})) == (409, "conflict")


def test_the_report_of_a_quote_is_closed_from_its_page_and_never_twice(house: House) -> None:
    asked = house.client.post("/cotacoes/itens/1/fechar", headers=HTML)
    closed = house.client.post("/cotacoes/itens/1/fechar?sim=1", headers=HTML, follow_redirects=False)
    shown = house.client.get("/cotacoes/itens/1", headers=HTML).text
    again = house.client.post("/cotacoes/itens/1/fechar?sim=1", headers=HTML, follow_redirects=False)

    assert "ninguém mais decide" in asked.text
    assert closed.status_code == 303
    assert "Relatório fechado por" in shown
    assert 'id="close-report"' not in shown
    assert again.status_code == 409
